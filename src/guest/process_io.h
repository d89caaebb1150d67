/* The streams of a process: pipes or a terminal, input on its way in, output on its way to the rings. */
#pragma once

#include "guest/process.h"

/* Opens both ends; those of the child are left in p->spawn.stdio, for process_io_close_child. 0 or errno. */
int process_io_open(struct process *p, uint32_t rows, uint32_t cols);
void process_io_close_child(struct process *p);
void process_io_close_input(struct process *p);
void process_io_close(struct process *p);
/* Reads what is there now, after the process ended. */
void process_io_drain(struct process *p);
/* Whether output is still held back for a lossless client. */
bool process_io_held(const struct process *p);
bool process_io_ended(const struct process *p);

/* In process.c: a stream has ended. */
void process_stream_ended(struct process *p);
