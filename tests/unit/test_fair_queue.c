#include "test.h"

#include "apiserver/fair_queue.h"

#include "base/memory.h"
#include "base/strbuf.h"
#include "base/timeutil.h"

#include <event2/event.h>

struct request {
    struct fair_item item;
    char name;
    bool again; /* the client asks once more as soon as it is answered */
    int64_t takes_ns;
};

static struct event_base *base;
static struct fair_queue *queue;
static struct strbuf order;
static int turns;

static void run(void *arg UNUSED, struct fair_item *item)
{
    struct request *r = container_of(item, struct request, item);

    strbuf_addc(&order, r->name);
    for (int64_t end = time_monotonic_ns() + r->takes_ns; time_monotonic_ns() < end;)
        ;
    if (r->again)
        (void)fair_queue_push(queue, "again", &r->item);
}

static int setup(void **state UNUSED)
{
    base = event_base_new();
    queue = fair_queue_new(base, run, NULL);
    strbuf_truncate(&order, 0);
    return 0;
}

static int teardown(void **state UNUSED)
{
    fair_queue_free(queue);
    event_base_free(base);
    strbuf_free(&order);
    return 0;
}

static void test_rotation(void **state UNUSED)
{
    static struct request a[100], b[2], c[1];

    for (size_t i = 0; i < ARRAY_LEN(a); i++) {
        a[i].name = 'a';
        (void)fair_queue_push(queue, "alice", &a[i].item);
    }
    for (size_t i = 0; i < ARRAY_LEN(b); i++) {
        b[i].name = 'b';
        (void)fair_queue_push(queue, "bob", &b[i].item);
    }
    c[0].name = 'c';
    (void)fair_queue_push(queue, "carol", &c[0].item);
    assert_int_equal(order.len, 0); /* never from within push */
    (void)event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    assert_memory_equal(strbuf_str(&order), "abcab", 5);
    assert_true(order.len < 20); /* what one turn is worth */
    while (order.len < 103)
        (void)event_base_loop(base, EVLOOP_ONCE);
    (void)event_base_loop(base, EVLOOP_NONBLOCK);
    assert_int_equal(order.len, 103);
}

static void on_other(evutil_socket_t fd UNUSED, short what UNUSED, void *arg UNUSED)
{
    turns++;
    if (turns < 3)
        (void)event_base_once(base, -1, EV_TIMEOUT, on_other, NULL, &(struct timeval){0});
}

/* A queue that never runs empty leaves the loop to others. */
static void test_endless(void **state UNUSED)
{
    struct request r = {.name = 'r', .again = true};

    turns = 0;
    (void)fair_queue_push(queue, "again", &r.item);
    on_other(-1, 0, NULL);
    for (int i = 0; i < 100 && turns < 3; i++)
        (void)event_base_loop(base, EVLOOP_ONCE);
    assert_int_equal(turns, 3);
    r.again = false; /* what waits is run when the queue is freed */
    size_t before = order.len;
    fair_queue_free(queue);
    queue = NULL;
    assert_int_equal(order.len, before + 1);
}

/* Who has taken much comes behind those who have not, whoever asked first. */
static void test_heavy(void **state UNUSED)
{
    static struct request a[5], b[3];
    bool heavy = false;

    a[0] = (struct request){.name = 'a', .takes_ns = 50 * NSEC_PER_MSEC};
    assert_false(fair_queue_push(queue, "alice", &a[0].item));
    (void)event_base_loop(base, EVLOOP_ONCE);
    for (size_t i = 1; i < ARRAY_LEN(a); i++) {
        a[i].name = 'a';
        heavy = fair_queue_push(queue, "alice", &a[i].item);
    }
    assert_true(heavy);
    for (size_t i = 0; i < ARRAY_LEN(b); i++) {
        b[i].name = 'b';
        assert_false(fair_queue_push(queue, "bob", &b[i].item));
    }
    assert_int_equal(fair_queue_length(queue), 7);
    while (fair_queue_length(queue))
        (void)event_base_loop(base, EVLOOP_ONCE);
    assert_string_equal(strbuf_str(&order), "abbbaaaa");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_rotation, setup, teardown),
                                       cmocka_unit_test_setup_teardown(test_endless, setup, teardown),
                                       cmocka_unit_test_setup_teardown(test_heavy, setup, teardown)};
    return cmocka_run_group_tests_name("fair_queue", tests, NULL, NULL);
}
