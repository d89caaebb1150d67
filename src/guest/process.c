#include "guest/process.h"

#include "base/macros.h"
#include "guest/connection.h"
#include "guest/lifecycle.h"
#include "guest/process_io.h"
#include "guest/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SETTLE_MS 100       /* for descendants that still hold the output */
#define HANGUP_KILL_MS 2000 /* from SIGHUP to SIGKILL */
#define KILL_AGAIN_MS 5     /* until no member of a tree is left; doubled each time */
#define KILL_AGAIN_MAX_MS 1000
#define KILL_AT_ONCE 3            /* rounds without a pause */
#define RECORD_MS 60000           /* an ended process stays listed */
#define RECORDS_MAX 256           /* of ended processes */
#define KEPT_OUTPUT_MAX (4 << 20) /* bytes of output of ended processes, all together */
#define ARGS_SHOWN_MAX 4096       /* of the command line, in lists */
#define TIMEOUT_MS_MAX (INT64_MAX / 4)

static struct process *processes; /* oldest first */
static struct spawn main_spawn;   /* how the main process was started, once it runs */
static uint32_t serial;

struct process *process_first(void)
{
    return processes;
}

struct process *process_find(const char *id, size_t len)
{
    for (struct process *p = processes; p != NULL; p = p->next) {
        if (strlen(p->id) == len && memcmp(p->id, id, len) == 0)
            return p;
    }
    return NULL;
}

static struct process *find_flag(uint32_t flag)
{
    for (struct process *p = processes; p != NULL; p = p->next) {
        if (p->flags & flag)
            return p;
    }
    return NULL;
}

struct process *process_main(void)
{
    return find_flag(GUEST_FLAG_MAIN);
}

size_t process_count_running(void)
{
    size_t n = 0;
    for (struct process *p = processes; p != NULL; p = p->next)
        n += !(p->flags & GUEST_FLAG_EXITED);
    return n;
}

bool process_all_finished(void)
{
    for (struct process *p = processes; p != NULL; p = p->next) {
        if (!p->finished)
            return false;
    }
    return true;
}

static struct tree tree_of(const struct process *p)
{
    return (struct tree){.root = p->pid, .mark = p->mark};
}

static void process_free(struct process *p)
{
    struct process **at = &processes;
    while (*at != NULL && *at != p)
        at = &(*at)->next;
    if (*at == p)
        *at = p->next;
    timer_stop(&p->timeout);
    timer_stop(&p->hangup);
    timer_stop(&p->settle);
    watch_close(&p->status);
    process_io_close_child(p);
    process_io_close(p);
    spawn_clear(&p->spawn);
    guest_buffer_free(&p->args);
    free(p);
}

/* The record of an ended process. */

static void expire(struct process *p)
{
    if (p->finished && p->told && p->expired && p->clients == NULL)
        process_free(p);
}

static void record_due(struct timer *t)
{
    struct process *p = container_of(t, struct process, settle);
    p->expired = process_io_ended(p); /* while a descendant writes, somebody has to read */
    if (!p->expired)
        timer_set(&p->settle, RECORD_MS, record_due);
    expire(p);
}

/* The oldest ended process nobody is attached to; first of those whose end was told. */
static struct process *oldest_record(bool with_output)
{
    struct process *found = NULL;
    for (struct process *p = processes; p != NULL; p = p->next) {
        if (!p->finished || p->clients != NULL || (p->flags & GUEST_FLAG_MAIN))
            continue;
        if (with_output && p->streams[0].ring.size == 0 && p->streams[1].ring.size == 0)
            continue;
        if (p->told)
            return p;
        if (found == NULL)
            found = p;
    }
    return found;
}

static void limit_records(void)
{
    size_t count = 0, bytes = 0;
    for (struct process *p = processes; p != NULL; p = p->next) {
        if (!p->finished)
            continue;
        count++;
        bytes += p->streams[0].ring.size + p->streams[1].ring.size;
    }
    struct process *old;
    while (bytes > KEPT_OUTPUT_MAX && (old = oldest_record(true)) != NULL) {
        bytes -= old->streams[0].ring.size + old->streams[1].ring.size;
        ring_drop(&old->streams[0].ring);
        ring_drop(&old->streams[1].ring);
    }
    while (count > RECORDS_MAX && (old = oldest_record(false)) != NULL) {
        count--;
        process_free(old);
    }
}

void process_told(struct process *p)
{
    p->told = true;
}

/* The end. */

static void pump_clients(struct process *p)
{
    for (struct connection *c = p->clients, *next; c != NULL; c = next) {
        next = c->next_client;
        connection_pump(c);
    }
}

/* Its record may be gone afterwards. */
static void finish(struct process *p)
{
    p->finished = true;
    process_io_close_input(p); /* a descendant that reads on sees the end */
    process_unthrottle(p);     /* what still comes is read and discarded */
    for (int i = 0; i < GUEST_STREAM_COUNT; i++)
        ring_trim(&p->streams[i].ring);
    timer_set(&p->settle, RECORD_MS, record_due);
    pump_clients(p);
    limit_records();
}

static void settle_due(struct timer *t)
{
    struct process *p = container_of(t, struct process, settle);
    process_io_drain(p);
    if (process_io_held(p)) /* a lossless client is still reading what was written before the exit */
        timer_set(&p->settle, SETTLE_MS, settle_due);
    else
        finish(p);
}

void process_stream_ended(struct process *p)
{
    if ((p->flags & GUEST_FLAG_EXITED) && p->started && !p->finished && process_io_ended(p))
        finish(p);
}

/* Reaped, and known to have been executed. */
static void ended(struct process *p)
{
    process_io_drain(p);
    if (p->flags & GUEST_FLAG_MAIN)
        lifecycle_main_exited(p->code);
    if (process_io_ended(p)) {
        finish(p);
        return;
    }
    timer_set(&p->settle, SETTLE_MS, settle_due);
    pump_clients(p);
}

static void reaped(struct process *p, int status)
{
    p->sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    p->code = WIFSIGNALED(status) ? 128 + p->sig : WEXITSTATUS(status);
    p->flags |= GUEST_FLAG_EXITED;
    if (!(p->flags & GUEST_FLAG_TIMED_OUT)) /* else it goes on killing the rest of the tree */
        timer_stop(&p->timeout);
    if (p->started)
        ended(p);
}

bool process_reap_all(void)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (struct process *p = processes; p != NULL; p = p->next) {
            if (p->pid == pid && !(p->flags & GUEST_FLAG_EXITED)) {
                reaped(p, status);
                break;
            }
        }
    }
    return pid < 0 && errno == ECHILD;
}

static void kill_tree(struct timer *t)
{
    struct process *p = container_of(t, struct process, timeout);
    struct tree tree = tree_of(p);
    p->flags |= p->flags & GUEST_FLAG_EXITED ? 0 : GUEST_FLAG_TIMED_OUT;
    /* A member may fork while the others are looked up; the new one is found in the next round. */
    for (int i = 0; i < KILL_AT_ONCE; i++) {
        if (tree_signal(&tree, SIGKILL, false) == 0)
            return;
    }
    p->kill_again_ms = p->kill_again_ms == 0 ? KILL_AGAIN_MS : 2 * p->kill_again_ms;
    if (p->kill_again_ms > KILL_AGAIN_MAX_MS)
        p->kill_again_ms = KILL_AGAIN_MAX_MS;
    timer_set(&p->timeout, p->kill_again_ms, kill_tree);
}

static void kill_group(struct timer *t)
{
    struct process *p = container_of(t, struct process, hangup);
    struct tree tree = tree_of(p);
    (void)tree_signal(&tree, SIGKILL, true); /* none left is as good */
}

static void hang_up(struct process *p)
{
    if (kill(-p->pid, SIGHUP) < 0) /* no group yet: between fork and setsid */
        (void)kill(p->pid, SIGHUP);
    (void)kill(-p->pid, SIGCONT); /* a stopped process would not see it */
    timer_set(&p->hangup, HANGUP_KILL_MS, kill_group);
}

int process_signal(struct process *p, int sig, enum guest_scope scope)
{
    struct tree tree = tree_of(p);
    bool exited = p->flags & GUEST_FLAG_EXITED;
    if (scope == GUEST_SCOPE_TREE || (scope == GUEST_SCOPE_GROUP && exited))
        return tree_signal(&tree, sig, scope == GUEST_SCOPE_GROUP) > 0 ? 0 : ESRCH;
    if (exited)
        return ESRCH;
    return kill(scope == GUEST_SCOPE_GROUP ? -p->pid : p->pid, sig) < 0 ? errno : 0;
}

/* Clients. */

void process_attach(struct process *p, struct connection *c)
{
    c->process = p;
    c->next_client = p->clients;
    p->clients = c;
    timer_stop(&p->hangup);
    process_unthrottle(p);
}

void process_detach(struct process *p, struct connection *c)
{
    struct connection **at = &p->clients;
    while (*at != c)
        at = &(*at)->next_client;
    *at = c->next_client;
    c->process = NULL;
    process_unthrottle(p);
    if (p->clients == NULL && (p->flags & GUEST_FLAG_HUP_ON_CLOSE) && !(p->flags & GUEST_FLAG_EXITED))
        hang_up(p);
    expire(p);
}

/* The start. */

static void start_failed(struct process *p, const struct spawn_status *status)
{
    struct failure why = {0};
    bool was_main = p->flags & GUEST_FLAG_MAIN;
    spawn_explain(&p->spawn, status, &why);
    p->flags &= ~(uint32_t)GUEST_FLAG_HUP_ON_CLOSE;
    while (p->clients != NULL)
        connection_failed(p->clients, &why);
    failure_clear(&why);
    process_free(p);
    if (was_main && lifecycle_is_single())
        lifecycle_main_exited(127);
}

/* The child executed, or says why not, or was killed before it could do either. */
static void status_ready(struct watch *w, uint32_t events)
{
    (void)events;
    struct process *p = container_of(w, struct process, status);
    struct spawn_status status;
    ssize_t n = read(w->fd, &status, sizeof(status));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    watch_close(w);
    if (n == sizeof(status)) {
        start_failed(p, &status);
        return;
    }
    p->started = true;
    if (p->flags & GUEST_FLAG_MAIN) { /* what GUEST_FLAG_INHERIT takes from */
        spawn_clear(&main_spawn);
        main_spawn = p->spawn;
        p->spawn = (struct spawn){0};
    }
    spawn_clear(&p->spawn);
    p->spawn = (struct spawn){.stdio = {-1, -1, -1}};
    if (p->flags & GUEST_FLAG_EXITED)
        ended(p);
    else
        pump_clients(p);
}

/* A request's id, or one of our own. */
static bool take_id(struct process *p, const struct guest_fields *fields, struct failure *why)
{
    const struct guest_value *id = &fields->value[GUEST_TAG_ID];
    if (guest_has(fields, GUEST_TAG_ID)) {
        if (!guest_id_valid((const char *)id->data, id->len))
            failure_set(why, EINVAL, "the process id is not of [A-Za-z0-9._-], 1 to 63 of them", NULL);
        else if (process_find((const char *)id->data, id->len) != NULL)
            failure_set(why, EEXIST, "there is a process with this id", NULL);
        else
            memcpy(p->id, id->data, id->len);
        return why->code == 0;
    }
    uint32_t n = serial;
    do {
        char *at = p->id + 11;
        memset(p->id, 0, sizeof(p->id));
        for (uint32_t rest = n; at == p->id + 11 || rest > 0; rest /= 10)
            *--at = (char)('0' + rest % 10);
        *--at = 'p';
        memmove(p->id, at, strlen(at) + 1);
        n++;
    } while (process_find(p->id, strlen(p->id)) != NULL);
    return true;
}

/* The command line as it is listed, cut when long. */
static void keep_args(struct process *p)
{
    size_t left = ARGS_SHOWN_MAX;
    for (char **a = p->spawn.argv; *a != NULL && left > 0; a++) {
        size_t len = strlen(*a) < left ? strlen(*a) : left;
        guest_put_text_n(&p->args, GUEST_TAG_ARG, *a, len);
        left -= len;
        left = left > 8 ? left - 8 : 0; /* many empty ones add up too */
    }
    if (p->args.failed)
        guest_buffer_free(&p->args);
    guest_buffer_trim(&p->args);
}

static int fork_child(struct process *p)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return errno;
    if (!watch_open(&p->status, ends[0], EPOLLIN, status_ready)) {
        int code = errno;
        (void)close(ends[0]);
        (void)close(ends[1]);
        return code;
    }
    pid_t pid = spawn_process(&p->spawn, ends[1]);
    (void)close(ends[1]);
    process_io_close_child(p);
    if (pid < 0)
        return -pid;
    p->pid = pid;
    return 0;
}

static struct process *process_new(const struct guest_fields *fields)
{
    struct timespec now;
    struct process *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return NULL;
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail for this clock */
    serial++;
    p->flags = (uint32_t)guest_number(fields, GUEST_TAG_FLAGS, 0) &
               (GUEST_FLAG_TTY | GUEST_FLAG_STDIN | GUEST_FLAG_HUP_ON_CLOSE | GUEST_FLAG_MAIN);
    if (lifecycle_is_single())
        p->flags |= GUEST_FLAG_MAIN;
    p->started_ms = now.tv_sec * 1000 + now.tv_nsec / 1000000;
    p->mark = tree_mark(serial);
    p->input = p->status = (struct watch)WATCH_NONE;
    for (int i = 0; i < GUEST_STREAM_COUNT; i++) {
        p->streams[i] = (struct stream){.process = p, .watch = WATCH_NONE};
        ring_init(&p->streams[i].ring, (uint32_t)guest_number(fields, GUEST_TAG_RING_BYTES, 0));
    }
    return p;
}

static bool prepare(struct process *p, const struct guest_frame *frame, const struct guest_fields *fields,
                    struct failure *why)
{
    bool ok = spawn_read(&p->spawn, frame, fields, why);
    if (ok && (guest_number(fields, GUEST_TAG_FLAGS, 0) & GUEST_FLAG_INHERIT) && main_spawn.env != NULL &&
        !spawn_inherit(&p->spawn, &main_spawn)) {
        failure_set(why, ENOMEM, "no memory in the sandbox to start a process", NULL);
        ok = false;
    }
    p->spawn.stdio[0] = p->spawn.stdio[1] = p->spawn.stdio[2] = -1;
    p->spawn.mark = p->mark;
    if (!ok || !take_id(p, fields, why))
        return false;
    if ((p->flags & GUEST_FLAG_MAIN) && process_main() != NULL)
        failure_set(why, EEXIST, "the sandbox has a main process: ", process_main()->id, NULL);
    else if (lifecycle_ending())
        failure_set(why, ESHUTDOWN, "the sandbox is ending", NULL);
    return why->code == 0;
}

struct process *process_start(const struct guest_frame *frame, const struct guest_fields *fields, struct failure *why)
{
    struct process *p = process_new(fields);
    if (p == NULL) {
        failure_set(why, ENOMEM, "no memory in the sandbox to start a process", NULL);
        return NULL;
    }
    if (!prepare(p, frame, fields, why)) {
        process_free(p);
        return NULL;
    }
    keep_args(p);
    int code = process_io_open(p, (uint32_t)guest_number(fields, GUEST_TAG_ROWS, 0),
                               (uint32_t)guest_number(fields, GUEST_TAG_COLS, 0));
    if (code == 0)
        code = fork_child(p);
    if (code != 0) {
        failure_set(why, code, "cannot start ", p->spawn.argv[0], ": ", strerror(code), NULL);
        process_free(p);
        return NULL;
    }
    uint64_t timeout = guest_number(fields, GUEST_TAG_TIMEOUT_MS, 0);
    if (timeout > 0)
        timer_set(&p->timeout, timeout < TIMEOUT_MS_MAX ? (int64_t)timeout : TIMEOUT_MS_MAX, kill_tree);
    struct process **at = &processes;
    while (*at != NULL)
        at = &(*at)->next;
    *at = p;
    return p;
}
