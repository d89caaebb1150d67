/*
 * Connections from the host to a port inside: GUEST_CONNECT. Once it is answered with GUEST_DONE, the bytes of the
 * client's socket are those of the connection, in both directions, the end of each direction included.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define RELAY_MAX 4096 /* connections at once */

/*
 * Connects to the port at 127.0.0.1, then at ::1, and answers on fd, a client's socket, which stays the caller's: the
 * relay has a descriptor of its own. early: what the client sent behind its request. 0 or errno: then nothing was
 * answered.
 */
int relay_open(int fd, uint64_t port, const void *early, size_t early_len);
