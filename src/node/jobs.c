#include "node/jobs.h"

#include "base/memory.h"

#include <event2/event.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/eventfd.h>

#define THREADS 2
#define STACK_SIZE (256 * 1024)

struct job {
    void (*work)(void *arg);
    void (*done)(void *arg);
    void *arg;
    struct job *next;
};

struct queue {
    struct job *first, **last;
};

struct jobs {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct queue waiting, finished;
    bool stopping;
    pthread_t threads[THREADS];
    size_t thread_count;
    int wake; /* eventfd: something is finished */
    struct event *event;
};

static void push(struct queue *q, struct job *job)
{
    job->next = NULL;
    *q->last = job;
    q->last = &job->next;
}

static struct job *pop(struct queue *q)
{
    struct job *job = q->first;

    if (job) {
        q->first = job->next;
        if (!q->first)
            q->last = &q->first;
    }
    return job;
}

static void *thread_main(void *arg)
{
    struct jobs *j = arg;
    static const uint64_t one = 1;

    (void)pthread_mutex_lock(&j->lock);
    while (!j->stopping) {
        struct job *job = pop(&j->waiting);
        if (!job) {
            (void)pthread_cond_wait(&j->more, &j->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&j->lock);
        job->work(job->arg);
        (void)pthread_mutex_lock(&j->lock);
        push(&j->finished, job);
        (void)!write(j->wake, &one, sizeof(one)); /* it only fails when it is readable already */
    }
    (void)pthread_mutex_unlock(&j->lock);
    return NULL;
}

static void on_finished(evutil_socket_t fd, short what UNUSED, void *arg)
{
    struct jobs *j = arg;
    uint64_t count;

    (void)!read(fd, &count, sizeof(count)); /* how many does not matter */
    (void)pthread_mutex_lock(&j->lock);
    struct job *job = j->finished.first;
    j->finished = (struct queue){.last = &j->finished.first};
    (void)pthread_mutex_unlock(&j->lock);
    while (job) {
        struct job *next = job->next;
        if (job->done)
            job->done(job->arg);
        free(job);
        job = next;
    }
}

static int start_threads(struct jobs *j, struct error *err)
{
    pthread_attr_t attributes;
    sigset_t all, old;
    int r = pthread_attr_init(&attributes);

    if (r == 0)
        r = pthread_attr_setstacksize(&attributes, STACK_SIZE);
    (void)sigfillset(&all); /* signals are the loop's */
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    while (r == 0 && j->thread_count < THREADS) {
        r = pthread_create(&j->threads[j->thread_count], &attributes, thread_main, j);
        j->thread_count += r == 0;
    }
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_attr_destroy(&attributes);
    return r ? error_set_errno(err, r, "start a worker thread") : 0;
}

struct jobs *jobs_new(struct event_base *base, struct error *err)
{
    struct jobs *j = xcalloc(1, sizeof(*j));

    (void)pthread_mutex_init(&j->lock, NULL); /* cannot fail with default attributes */
    (void)pthread_cond_init(&j->more, NULL);
    j->waiting.last = &j->waiting.first;
    j->finished.last = &j->finished.first;
    j->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    j->event = j->wake >= 0 ? event_new(base, j->wake, EV_READ | EV_PERSIST, on_finished, j) : NULL;
    if (!j->event || event_add(j->event, NULL) < 0)
        (void)error_set_errno(err, errno, "create the worker's event");
    else if (start_threads(j, err) == 0)
        return j;
    jobs_free(j);
    return NULL;
}

void jobs_run(struct jobs *j, void (*work)(void *arg), void (*done)(void *arg), void *arg)
{
    struct job *job = xmalloc(sizeof(*job));

    *job = (struct job){.work = work, .done = done, .arg = arg};
    (void)pthread_mutex_lock(&j->lock);
    push(&j->waiting, job);
    (void)pthread_cond_signal(&j->more);
    (void)pthread_mutex_unlock(&j->lock);
}

void jobs_free(struct jobs *j)
{
    if (!j)
        return;
    (void)pthread_mutex_lock(&j->lock);
    j->stopping = true;
    (void)pthread_cond_broadcast(&j->more);
    (void)pthread_mutex_unlock(&j->lock);
    for (size_t i = 0; i < j->thread_count; i++)
        (void)pthread_join(j->threads[i], NULL);
    for (struct job *job; (job = pop(&j->waiting)) || (job = pop(&j->finished));)
        free(job);
    if (j->event)
        event_free(j->event);
    if (j->wake >= 0)
        (void)close(j->wake);
    free(j);
}
