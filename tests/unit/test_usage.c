/* The arithmetic of what Pods and the machine use. */
#include "test.h"

#include "base/macros.h"
#include "node/usage.h"

#define S INT64_C(1000000000)

static void test_cpu(void **state UNUSED)
{
    static const struct {
        uint64_t before, now;
        int64_t window, want;
    } table[] = {
        {0, 1000000, S, S},         /* one core */
        {500000, 750000, S, S / 4}, /* a quarter */
        {0, 8000000, 2 * S, 4 * S}, /* four */
        {0, 1, 60 * S, 16},         /* next to nothing */
        {5, 5, S, 0},
        {9, 5, S, 0}, /* the counter started over */
        {0, 5, 0, 0},
        {0, UINT64_C(1) << 53, 60 * S, INT64_C(150119987579016533)}, /* 285 years: no overflow */
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        assert_int_equal(usage_cpu_nano(table[i].before, table[i].now, table[i].window), table[i].want);
}

static void test_proc(void **state UNUSED)
{
    /* user nice system idle iowait irq softirq steal guest guest_nice */
    assert_int_equal(usage_of_proc_stat("cpu  100 20 30 4000 500 6 7 8 50 0\ncpu0 1 2 3\n", 100), 1710000);
    assert_int_equal(usage_of_proc_stat("cpu  100\n", 100), 1000000);
    assert_int_equal(usage_of_proc_stat("", 100), 0);
    assert_int_equal(usage_of_proc_stat("cpu  100\n", 0), 0);
    assert_int_equal(usage_of_meminfo("MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    400 kB\n"), 600 * 1024);
    assert_int_equal(usage_of_meminfo("MemTotal: 1 kB\nMemAvailable: 2 kB\n"), 0);
    assert_int_equal(usage_of_meminfo(""), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cpu), cmocka_unit_test(test_proc)};

    return cmocka_run_group_tests_name("usage", tests, NULL, NULL);
}
