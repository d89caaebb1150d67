#include "test.h"

#include "apiserver/jsonpath.h"
#include "apiserver/table.h"
#include "base/base64.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"

static struct json *parse(const char *text)
{
    struct error err = ERROR_INIT;
    struct json *v = json_parse(text, strlen(text), &err);

    if (err.code)
        fail_msg("%s: %s", text, error_text(&err));
    return v;
}

static const char document[] = "{\"a\":{\"b\":1,\"c.d\":2,\"l\":[10,20,30]},"
                               "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"n\":5},{\"type\":\"Other\","
                               "\"status\":\"False\",\"n\":7}],"
                               "\"deep\":{\"x\":{\"name\":\"one\"},\"y\":[{\"name\":\"two\"}]}}";

static void test_jsonpath(void **state)
{
    static const struct {
        const char *path, *expected;
    } cases[] = {
        {".a.b", "[1]"},
        {"{.a.b}", "[1]"},
        {"$.a.b", "[1]"},
        {"a.b", "[1]"},
        {".a.c\\.d", "[2]"},
        {".a['c.d']", "[2]"},
        {".a.nope", "[]"},
        {".a.b.nope", "[]"},
        {".a.l[0]", "[10]"},
        {".a.l[-1]", "[30]"},
        {".a.l[5]", "[]"},
        {".a.l[0:2]", "[10,20]"},
        {".a.l[1:]", "[20,30]"},
        {".a.l[:-1]", "[10,20]"},
        {".a.l[0,2]", "[10,30]"},
        {".a.l[*]", "[10,20,30]"},
        {".conditions[?(@.type==\"Ready\")].status", "[\"True\"]"},
        {".conditions[?(@.type=='Nope')].status", "[]"},
        {".conditions[?(@.n>5)].type", "[\"Other\"]"},
        {".conditions[?(@.n<=5)].type", "[\"Ready\"]"},
        {".conditions[?(@.n != 5)].type", "[\"Other\"]"},
        {".conditions[?(@.status)].n", "[5,7]"},
        {".conditions[*].n", "[5,7]"},
        {"..name", "[\"one\",\"two\"]"},
        {".deep.*", "[{\"name\":\"one\"},[{\"name\":\"two\"}]]"},
    };
    static const char *const broken[] = {".a[", ".a[?(@.b", ".a['x", ".a[x]", ".a[?(@.b==)]", ".a.b c"};
    struct json *doc = parse(document);

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error err = ERROR_INIT;
        struct jsonpath *p = jsonpath_compile(cases[i].path, &err);
        if (!p)
            fail_msg("%s", error_text(&err));
        _cleanup_json_ struct json *found = jsonpath_find(p, doc);
        _cleanup_free_ char *text = json_text(found);
        assert_string_equal(text, cases[i].expected);
        jsonpath_free(p);
    }
    for (size_t i = 0; i < ARRAY_LEN(broken); i++)
        assert_null(jsonpath_compile(broken[i], NULL));
    json_unref(doc);
}

static void test_durations(void **state)
{
    static const struct {
        int64_t seconds;
        const char *expected;
    } cases[] = {
        {-1, "0s"},
        {0, "0s"},
        {119, "119s"},
        {120, "2m"},
        {150, "2m30s"},
        {600, "10m"},
        {10799, "179m"},
        {10800, "3h"},
        {3600 * 4 + 120, "4h2m"},
        {3600 * 8, "8h"},
        {86400, "24h"},
        {86400 * 2, "2d"},
        {86400 * 2 + 3600, "2d1h"},
        {86400 * 8, "8d"},
        {86400 * 729, "729d"},
        {86400 * 730, "2y"},
        {86400 * 731, "2y1d"},
        {86400LL * 3650, "10y"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[64];
        duration_text(cases[i].seconds * NSEC_PER_SEC, text, sizeof(text));
        assert_string_equal(text, cases[i].expected);
    }
}

#define CONTAINERS "\"spec\":{\"containers\":[{\"name\":\"a\"},{\"name\":\"b\"}]}"
#define SIDECAR                                                                                                        \
    "\"spec\":{\"initContainers\":[{\"name\":\"i\",\"restartPolicy\":\"Always\"},{\"name\":\"j\"}],"                   \
    "\"containers\":[{\"name\":\"a\"}]}"
#define RUNNING(name) "{\"name\":\"" name "\",\"ready\":true,\"state\":{\"running\":{}}}"

static void test_pods(void **state)
{
    static const struct {
        const char *pod, *ready, *status, *restarts;
    } cases[] = {
        {"{" CONTAINERS ",\"status\":{\"phase\":\"Pending\"}}", "0/2", "Pending", "0"},
        {"{" CONTAINERS
         ",\"status\":{\"phase\":\"Running\",\"containerStatuses\":[" RUNNING("a") "," RUNNING("b") "]}}",
         "2/2", "Running", "0"},
        {"{" CONTAINERS ",\"status\":{\"phase\":\"Failed\",\"reason\":\"Evicted\"}}", "0/2", "Evicted", "0"},
        {"{" CONTAINERS ",\"status\":{\"phase\":\"Running\",\"containerStatuses\":[" RUNNING(
             "a") ",{\"name\":\"b\",\"restartCount\":3,\"state\":{\"waiting\":{\"reason\":\"CrashLoopBackOff\"}},"
                  "\"lastState\":{\"terminated\":{\"finishedAt\":\"2026-01-01T00:00:00Z\"}}}]}}",
         "1/2", "CrashLoopBackOff", "3 (5m ago)"},
        {"{" CONTAINERS ",\"status\":{\"phase\":\"Succeeded\",\"containerStatuses\":[{\"name\":\"a\",\"state\":"
         "{\"terminated\":{\"exitCode\":0,\"reason\":\"Completed\"}}}]}}",
         "0/2", "Completed", "0"},
        {"{" CONTAINERS ",\"status\":{\"phase\":\"Failed\",\"containerStatuses\":[{\"name\":\"a\",\"state\":"
         "{\"terminated\":{\"exitCode\":7}}}]}}",
         "0/2", "ExitCode:7", "0"},
        {"{" CONTAINERS ",\"status\":{\"phase\":\"Failed\",\"containerStatuses\":[{\"name\":\"a\",\"state\":"
         "{\"terminated\":{\"exitCode\":137,\"signal\":9}}}]}}",
         "0/2", "Signal:9", "0"},
        {"{" CONTAINERS ",\"status\":{\"phase\":\"Running\",\"containerStatuses\":[{\"name\":\"a\",\"state\":"
         "{\"terminated\":{\"exitCode\":0,\"reason\":\"Completed\"}}}," RUNNING(
             "b") "],\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\"}]}}",
         "1/2", "NotReady", "0"},
        {"{\"metadata\":{\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}," CONTAINERS
         ",\"status\":{\"phase\":\"Running\"}}",
         "0/2", "Terminating", "0"},
        {"{\"metadata\":{\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}," CONTAINERS
         ",\"status\":{\"phase\":\"Failed\"}}",
         "0/2", "Failed", "0"},
        {"{" SIDECAR ",\"status\":{\"phase\":\"Pending\",\"initContainerStatuses\":[{\"name\":\"i\",\"started\":true,"
         "\"ready\":true,\"state\":{\"running\":{}}},{\"name\":\"j\",\"state\":{\"running\":{}}}]}}",
         "1/2", "Init:1/2", "0"},
        {"{" SIDECAR ",\"status\":{\"phase\":\"Pending\",\"initContainerStatuses\":[{\"name\":\"i\",\"state\":"
         "{\"waiting\":{\"reason\":\"ErrImagePull\"}}}]}}",
         "0/2", "Init:ErrImagePull", "0"},
        {"{" CONTAINERS ",\"status\":{\"phase\":\"Pending\",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":"
         "\"False\",\"reason\":\"SchedulingGated\"}]}}",
         "0/2", "SchedulingGated", "0"},
    };
    int64_t now;

    (void)state;
    assert_true(time_parse_rfc3339("2026-01-01T00:05:00Z", &now));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_json_ struct json *pod = parse(cases[i].pod);
        _cleanup_json_ struct json *ready = table_pod_cell("Ready", pod, now),
                                   *status = table_pod_cell("Status", pod, now);
        _cleanup_json_ struct json *restarts = table_pod_cell("Restarts", pod, now);
        assert_string_equal(json_str(ready), cases[i].ready);
        assert_string_equal(json_str(status), cases[i].status);
        assert_string_equal(json_str(restarts), cases[i].restarts);
    }
}

static void test_base64(void **state)
{
    static const struct {
        const char *plain, *encoded, *url;
    } cases[] = {{"", "", ""},
                 {"f", "Zg==", "Zg"},
                 {"fo", "Zm8=", "Zm8"},
                 {"foo", "Zm9v", "Zm9v"},
                 {"\xff\xfe\xfd", "//79", "__79"}};
    static const char *const broken[] = {"Z", "Zg=", "Zg", "Zh==", "Z===", "Zg==Zg==", "Zm 9v", "===="};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t n = strlen(cases[i].plain), len;
        _cleanup_free_ char *encoded = base64_encode(cases[i].plain, n), *url = base64_encode_url(cases[i].plain, n);
        assert_string_equal(encoded, cases[i].encoded);
        assert_string_equal(url, cases[i].url);
        _cleanup_free_ char *back = base64_decode(encoded, strlen(encoded), &len);
        _cleanup_free_ char *url_back = base64_decode_url(url, strlen(url), NULL);
        assert_int_equal(len, n);
        assert_string_equal(back, cases[i].plain);
        assert_string_equal(url_back, cases[i].plain);
    }
    for (size_t i = 0; i < ARRAY_LEN(broken); i++)
        assert_null(base64_decode(broken[i], strlen(broken[i]), NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jsonpath),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_pods),
        cmocka_unit_test(test_base64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
