/*
 * Where a node keeps the things of its Pods. Shared by the node (who makes them) and by whoever reaches into sandboxes
 * (exec connects to the guest socket, `kubectl logs` reads the log files).
 *
 * Two roots. The run directory R is memory of the running system and need not survive a reboot; the data directory D
 * does.
 *
 *     R/node.sock               the node tells here what Pods use (node/usage.h)
 *     R/pods/<uid>/guest.sock   the guest listens here: one connection per operation (wire/guest_client.h)
 *     R/pods/<uid>/state.json   identity, sandbox, restart count, last exit, pod IP, log offsets (atomically written)
 *     R/pods/<uid>/begun        the sandbox that was told to run its process: it may have run
 *     R/pods/<uid>/volumes/     files of ConfigMaps, Secrets and the like
 *     D/pods/<uid>/             root upper layer, volumes that end with the Pod, files the node makes
 *     D/volumes/pvc/<ns>/<name>-<uid>/   one directory for each PersistentVolumeClaim
 *     D/logs/<ns>_<pod>_<uid>/<container>/<restart>.log
 *
 * ## Log files
 * <restart> counts from 0 and is the container's restartCount at the time. Each line is in the format of the CRI:
 *
 *     2026-11-30T22:46:53.090123456Z stdout F whole line, or the end of one
 *     2026-11-30T22:46:53.090123456Z stderr P piece of a line: the next piece of this stream continues it
 *     2026-11-30T22:46:53.090123456Z stderr F:dropped=512 [512 bytes of output were dropped]
 *
 * Fields are separated by one blank; the third holds tags separated by ':', of which the first is F or P. The content
 * is the raw bytes up to the newline. A tag dropped=N marks a gap of N bytes, its text is the node's, not the
 * container's. What the container wrote without a newline is there at once as a P piece.
 *
 * At LOG_FILE_MAX bytes <restart>.log becomes <restart>.log.1, .1 becomes .2, and what was .2 is gone. A reader that
 * follows watches the directory. Files of the current and of the previous restart exist, older ones are removed.
 * Directories have mode 0750, files 0640, with the group the node was given.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LOG_FILE_MAX (10u << 20)
#define LOG_FILES 3 /* the current one included */

/* Whether s may be one component of a path: [A-Za-z0-9._-], at most 253, and neither "." nor "..". */
bool path_component_ok(const char *s);

/* All of these are malloc'd; the parts must be path_component_ok. */
char *path_pod_run(const char *run_dir, const char *uid);
char *path_node_socket(const char *run_dir);
char *path_guest_socket(const char *run_dir, const char *uid);
char *path_pod_data(const char *data_dir, const char *uid);
char *path_pod_logs(const char *data_dir, const char *ns, const char *pod, const char *uid);
char *path_container_logs(const char *data_dir, const char *ns, const char *pod, const char *uid,
                          const char *container);
/* The current file of one restart. */
char *path_container_log(const char *data_dir, const char *ns, const char *pod, const char *uid, const char *container,
                         int64_t restart);
char *path_pvc(const char *data_dir, const char *ns, const char *name, const char *uid);
