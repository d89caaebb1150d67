/* Where control groups are, from the text of /proc/self/mountinfo. */
#include "test.h"

#include "base/macros.h"
#include "node/native/cgroup_layout.h"

#include <string.h>

static const char v1[] = "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
                         "31 23 0:28 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755\n"
                         "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
                         "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:10 - cgroup cgroup rw,memory\n"
                         "36 31 0:33 / /sys/fs/cgroup/devices rw,relatime - cgroup cgroup rw,devices\n"
                         "37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer\n"
                         "39 31 0:36 / /sys/fs/cgroup/pids rw,relatime shared:1 master:2 - cgroup cgroup rw,pids\n"
                         "40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd\n";

static const char hybrid_line[] = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n";
static const char v2[] = "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
                         "30 23 0:27 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw\n";

static void test_v1(void **state UNUSED)
{
    struct cgroup_layout l;

    cgroup_layout_parse(v1, NULL, &l);
    assert_int_equal(l.version, 1);
    assert_string_equal(l.mounts[CGROUP_CPU], "/sys/fs/cgroup/cpu,cpuacct");
    assert_string_equal(l.mounts[CGROUP_CPUACCT], "/sys/fs/cgroup/cpu,cpuacct");
    assert_string_equal(l.mounts[CGROUP_MEMORY], "/sys/fs/cgroup/memory");
    assert_string_equal(l.mounts[CGROUP_PIDS], "/sys/fs/cgroup/pids");
    assert_string_equal(l.mounts[CGROUP_FREEZER], "/sys/fs/cgroup/freezer");
    assert_string_equal(l.mounts[CGROUP_DEVICES], "/sys/fs/cgroup/devices");
    assert_null(l.mounts[CGROUP_IO]);
    assert_null(l.unified);
    cgroup_layout_done(&l);
}

/* A version 2 tree without our controllers beside version 1 changes nothing but that it is known. */
static void test_hybrid(void **state UNUSED)
{
    struct cgroup_layout l;
    char text[2048];

    (void)snprintf(text, sizeof(text), "%s%s", v1, hybrid_line);
    char *unified = cgroup_layout_find_unified(text);
    assert_string_equal(unified, "/sys/fs/cgroup/unified");
    free(unified);
    cgroup_layout_parse(text, "hugetlb\n", &l);
    assert_int_equal(l.version, 1);
    assert_string_equal(l.unified, "/sys/fs/cgroup/unified");
    assert_string_equal(l.mounts[CGROUP_MEMORY], "/sys/fs/cgroup/memory");
    cgroup_layout_done(&l);
}

static void test_v2(void **state UNUSED)
{
    struct cgroup_layout l;

    cgroup_layout_parse(v2, "cpuset cpu io memory hugetlb pids rdma\n", &l);
    assert_int_equal(l.version, 2);
    assert_string_equal(l.unified, "/sys/fs/cgroup");
    assert_string_equal(l.mounts[CGROUP_MEMORY], "/sys/fs/cgroup");
    assert_string_equal(l.mounts[CGROUP_CPU], "/sys/fs/cgroup");
    assert_string_equal(l.mounts[CGROUP_IO], "/sys/fs/cgroup");
    assert_null(l.mounts[CGROUP_CPUACCT]); /* "cpu" is no part of "cpuset" */
    assert_null(l.mounts[CGROUP_FREEZER]);
    cgroup_layout_done(&l);

    cgroup_layout_parse(v2, "cpuset\n", &l);
    assert_int_equal(l.version, 2);
    assert_null(l.mounts[CGROUP_CPU]);
    assert_null(l.mounts[CGROUP_MEMORY]);
    cgroup_layout_done(&l);
}

static void test_odd_text(void **state UNUSED)
{
    static const char *const texts[] = {
        "",
        "\n\n",
        "1 2 3",
        "35 31 0:32 / /x rw - cgroup cgroup\n", /* no options */
        "35 31 0:32 / /x rw shared:1 cgroup cgroup rw,memory\n",
        "35 31 0:32 / /x rw -\n",
        "35 31 0:32 / /mnt/memory rw - tmpfs cgroup rw,memory\n",
        "35 31 0:32 / /x rw - cgroup cgroup rw,memory2,xmemory\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct cgroup_layout l;
        cgroup_layout_parse(texts[i], NULL, &l);
        assert_int_equal(l.version, 0);
        cgroup_layout_done(&l);
    }
    struct cgroup_layout l;
    cgroup_layout_parse("35 31 0:32 / /a\\040b\\134c rw - cgroup x rw,memory\n", NULL, &l);
    assert_string_equal(l.mounts[CGROUP_MEMORY], "/a b\\c");
    cgroup_layout_done(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_v1),
        cmocka_unit_test(test_hybrid),
        cmocka_unit_test(test_v2),
        cmocka_unit_test(test_odd_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
