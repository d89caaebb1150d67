/*
 * What Pods and the machine use, for whoever asks over RUN/node.sock (sandbox/paths.h): `GET /usage` answers
 *
 *     {"timestamp": "2026-...Z", "node": READING, "pods": {UID: READING with "container": NAME}}
 *     READING: {"cpuNano": billionths of a core, over "window": "1.5s", "memory": bytes}
 *
 * It is measured when somebody asks, never otherwise. Processor time needs two looks: the one before serves when it is
 * not older than a minute, else the answer takes a second.
 */
#pragma once

#include "node/node.h"

struct usage_server;

struct usage_server *usage_server_new(struct node *n, struct error *err);
void usage_server_free(struct usage_server *u);

/* --- pure --- */

/* Processor time of a counter that went from before to now (microseconds) in so much time. */
int64_t usage_cpu_nano(uint64_t before_usec, uint64_t now_usec, int64_t window_ns);
/* Of /proc/stat: time spent in anything but waiting, in microseconds. ticks: per second. */
uint64_t usage_of_proc_stat(const char *text, int64_t ticks);
/* Of /proc/meminfo: bytes that are not available. */
uint64_t usage_of_meminfo(const char *text);
