/* The end of the sandbox: by the end of its main process, by GUEST_SHUTDOWN, or by the loss of its only client. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* One operation only: the guest ends with it. */
void lifecycle_single(void);
bool lifecycle_is_single(void);

void lifecycle_main_exited(int code);
void lifecycle_shutdown(uint64_t grace_ms);
/* The last connection of a guest with one operation is gone. */
void lifecycle_abandoned(void);
bool lifecycle_ending(void);

/* After each turn of the loop: true when the guest is to end, with *ret_code. */
bool lifecycle_over(bool nothing_to_reap, int *ret_code);
/* kill(2) for everything in the sandbox but the guest. */
void lifecycle_signal_all(int sig);
