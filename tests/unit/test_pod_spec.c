/* Pods translated: what is refused and how, environment, commands, users. */
#include "test.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"
#include "node/pod_env.h"
#include "node/user.h"

#include <fcntl.h>

static struct json *parse(const char *text)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct json *v = json_parse(text, strlen(text), &err);

    if (!v)
        fail_msg("%s: %s", text, error_text(&err));
    return v;
}

/* spec: further members of the spec; container: further members of the container. */
static struct json *make_pod(const char *spec, const char *container)
{
    _cleanup_free_ char *text = xasprintf(
        "{\"metadata\":{\"name\":\"p.q\",\"namespace\":\"n\",\"uid\":\"u\",\"labels\":{\"a\":\"b\"},\"annotations\":"
        "{\"x/"
        "y\":\"z\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"busybox\"%s%s}]%s%s,\"nodeName\":\"n1\"}}",
        *container ? "," : "", container, *spec ? "," : "", spec);

    return parse(text);
}

static char *prefixes[] = {(char *)"/srv/data/", NULL};
static const struct pod_spec_options options = {.memory_bytes = 8ll << 30, .host_path_prefixes = prefixes};

static void test_refused(void **state UNUSED)
{
    static const struct {
        const char *spec, *container;
        const char *field; /* NULL: accepted */
    } cases[] = {
        {"", "", NULL},
        {"\"hostNetwork\":true", "", "spec.hostNetwork"},
        {"\"hostNetwork\":false", "", NULL},
        {"\"hostPID\":true", "", "spec.hostPID"},
        {"\"hostIPC\":true", "", "spec.hostIPC"},
        {"\"runtimeClassName\":\"gvisor\"", "", "spec.runtimeClassName"},
        {"\"runtimeClassName\":\"native\"", "", NULL},
        {"\"ephemeralContainers\":[{\"name\":\"d\"}]", "", "spec.ephemeralContainers"},
        {"\"initContainers\":[{\"name\":\"i\",\"image\":\"a\"}]", "", NULL},
        {"\"initContainers\":[{\"name\":\"i\",\"image\":\"a\",\"restartPolicy\":\"Always\"}]", "",
         "spec.initContainers[0].restartPolicy"},
        {"\"initContainers\":[{\"name\":\"i\",\"image\":\"A\"}]", "", "spec.initContainers[0].image"},
        {"\"securityContext\":{\"sysctls\":[{\"name\":\"kernel.x\"}]}", "", "spec.securityContext.sysctls"},
        {"\"securityContext\":{\"runAsUser\":70000}", "", "spec.securityContext.runAsUser"},
        {"\"securityContext\":{\"fsGroup\":-1}", "", "spec.securityContext.fsGroup"},
        {"\"securityContext\":{\"seccompProfile\":{\"type\":\"Unconfined\"}}", "",
         "spec.securityContext.seccompProfile.type"},
        {"\"securityContext\":{\"seccompProfile\":{\"type\":\"RuntimeDefault\"}}", "", NULL},
        {"", "\"securityContext\":{\"privileged\":true}", "spec.containers[0].securityContext.privileged"},
        {"", "\"securityContext\":{\"privileged\":false,\"allowPrivilegeEscalation\":true}", NULL},
        {"", "\"securityContext\":{\"procMount\":\"Unmasked\"}", "spec.containers[0].securityContext.procMount"},
        {"", "\"securityContext\":{\"capabilities\":{\"drop\":[\"ALL\"],\"add\":[\"CHOWN\"]}}", NULL},
        {"", "\"securityContext\":{\"capabilities\":{\"add\":[\"SYS_ADMIN\"]}}",
         "spec.containers[0].securityContext.capabilities.add[0]"},
        {"", "\"securityContext\":{\"capabilities\":{\"add\":[\"ALL\"]}}",
         "spec.containers[0].securityContext.capabilities.add[0]"},
        {"", "\"securityContext\":{\"capabilities\":{\"drop\":[\"KILL\",\"BOGUS\"]}}",
         "spec.containers[0].securityContext.capabilities.drop[1]"},
        {"", "\"securityContext\":{\"runAsNonRoot\":true,\"runAsUser\":0}",
         "spec.containers[0].securityContext.runAsUser"},
        {"", "\"securityContext\":{\"seLinuxOptions\":{\"level\":\"s0\"}}",
         "spec.containers[0].securityContext.seLinuxOptions"},
        {"", "\"resources\":{\"limits\":{\"memory\":\"1Mi\"}}", "spec.containers[0].resources.limits.memory"},
        {"", "\"resources\":{\"limits\":{\"memory\":\"lots\"}}", "spec.containers[0].resources.limits.memory"},
        {"", "\"resources\":{\"limits\":{\"cpu\":\"-1\"}}", "spec.containers[0].resources.limits.cpu"},
        {"", "\"resources\":{\"limits\":{\"nvidia.com/gpu\":1}}", "spec.containers[0].resources.limits.nvidia.com/gpu"},
        {"", "\"resources\":{\"requests\":{\"memory\":\"8Gi\",\"cpu\":\"100\"}}", NULL},
        {"", "\"resources\":{\"requests\":{\"memory\":\"8193Mi\"}}", "spec.containers[0].resources.requests.memory"},
        {"", "\"resources\":{\"requests\":{\"hugepages-2Mi\":\"4Mi\"}}",
         "spec.containers[0].resources.requests.hugepages-2Mi"},
        {"", "\"resources\":{\"limits\":{\"memory\":\"64Mi\",\"cpu\":0.5,\"ephemeral-storage\":\"1Gi\"}}", NULL},
        {"", "\"ports\":[{\"containerPort\":80,\"hostPort\":80}]", "spec.containers[0].ports[0].hostPort"},
        {"", "\"ports\":[{\"containerPort\":80}]", NULL},
        {"", "\"volumeDevices\":[{}]", "spec.containers[0].volumeDevices"},
        {"", "\"lifecycle\":{\"postStart\":{}}", "spec.containers[0].lifecycle.postStart"},
        {"", "\"lifecycle\":{\"preStop\":{\"httpGet\":{}}}", "spec.containers[0].lifecycle.preStop"},
        {"", "\"lifecycle\":{\"preStop\":{\"exec\":{\"command\":[\"a\"]}}}", NULL},
        {"\"volumes\":[{\"name\":\"v\",\"nfs\":{}}]", "", "spec.volumes[0].nfs"},
        {"\"volumes\":[{\"name\":\"v\",\"hostPath\":{\"path\":\"/\"}}]", "", "spec.volumes[0].hostPath"},
        {"\"volumes\":[{\"name\":\"v\",\"hostPath\":{\"path\":\"/srv/database\"}}]", "", "spec.volumes[0].hostPath"},
        {"\"volumes\":[{\"name\":\"v\",\"hostPath\":{\"path\":\"/srv/data/../../etc\"}}]", "",
         "spec.volumes[0].hostPath.path"},
        {"\"volumes\":[{\"name\":\"v\",\"hostPath\":{\"path\":\"/srv/data/x\",\"type\":\"Socket\"}}]", "",
         "spec.volumes[0].hostPath.type"},
        {"\"volumes\":[{\"name\":\"v\",\"hostPath\":{\"path\":\"/srv/data/x\"}}]", "", NULL},
        {"\"volumes\":[{\"name\":\"v\",\"hostPath\":{\"path\":\"/srv/data\"}}]", "", NULL},
        {"\"volumes\":[{\"name\":\"v\",\"emptyDir\":{\"medium\":\"HugePages\"}}]", "",
         "spec.volumes[0].emptyDir.medium"},
        {"\"volumes\":[{\"name\":\"v\",\"emptyDir\":{\"sizeLimit\":\"x\"}}]", "", "spec.volumes[0].emptyDir.sizeLimit"},
        {"\"volumes\":[{\"name\":\"v\",\"projected\":{\"sources\":[{\"serviceAccountToken\":{}}]}}]", "",
         "spec.volumes[0].projected.sources[0].serviceAccountToken"},
        {"", "\"volumeMounts\":[{\"name\":\"v\",\"mountPath\":\"/v\"}]", "spec.containers[0].volumeMounts[0].name"},
#define V "\"volumes\":[{\"name\":\"v\"}]"
#define M(m) "\"volumeMounts\":[{\"name\":\"v\"," m "}]"
        {V, M("\"mountPath\":\"/v\""), NULL},
        {V, M("\"mountPath\":\"v\""), "spec.containers[0].volumeMounts[0].mountPath"},
        {V, M("\"mountPath\":\"/\""), "spec.containers[0].volumeMounts[0].mountPath"},
        {V, M("\"mountPath\":\"/./\""), "spec.containers[0].volumeMounts[0].mountPath"},
        {V, M("\"mountPath\":\"/a/../..\""), "spec.containers[0].volumeMounts[0].mountPath"},
        {V, M("\"mountPath\":\"/proc/sys\""), "spec.containers[0].volumeMounts[0].mountPath"},
        {V, M("\"mountPath\":\"/dev\""), "spec.containers[0].volumeMounts[0].mountPath"},
        {V, M("\"mountPath\":\"/dev/shm\""), NULL},
        {V, M("\"mountPath\":\"/process\""), NULL},
        {V, M("\"mountPath\":\"/v\",\"subPath\":\"../x\""), "spec.containers[0].volumeMounts[0].subPath"},
        {V, M("\"mountPath\":\"/v\",\"subPath\":\"/x\""), "spec.containers[0].volumeMounts[0].subPath"},
        {V, M("\"mountPath\":\"/v\",\"subPath\":\"a/b\""), NULL},
        {V, M("\"mountPath\":\"/v\",\"subPathExpr\":\"a\""), "spec.containers[0].volumeMounts[0].subPathExpr"},
        {V, M("\"mountPath\":\"/v\",\"mountPropagation\":\"Bidirectional\""),
         "spec.containers[0].volumeMounts[0].mountPropagation"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_json_ struct json *pod = make_pod(cases[i].spec, cases[i].container);
        _cleanup_error_ struct error err = ERROR_INIT;
        struct pod_spec s = {0};
        int r = pod_spec_parse(pod, &options, &s, &err);
        if ((r == 0) != !cases[i].field || (r < 0 && !streq_null(err.field, cases[i].field)))
            fail_msg("%s %s: %d %s (%s)", cases[i].spec, cases[i].container, r, err.field, error_text(&err));
        if (r < 0) {
            assert_non_null(err.reason);
            assert_non_null(str_skip_prefix(error_text(&err), cases[i].field));
        }
        pod_spec_clear(&s);
    }
}

static void test_images_and_containers(void **state UNUSED)
{
    static const struct {
        const char *text, *reason, *field;
    } cases[] = {
        {"{\"spec\":{\"containers\":[{\"image\":\"A b\"}]}}", "InvalidImageName", "spec.containers[0].image"},
        {"{\"spec\":{\"containers\":[{\"image\":\"dir:/x\"}]}}", REASON_CONFIG, "spec.containers[0].image"},
        {"{\"spec\":{\"containers\":[{\"image\":\"a\"},{\"image\":\"b\"}]}}", REASON_CONFIG, "spec.containers[1]"},
        {"{\"spec\":{\"containers\":[]}}", REASON_CONFIG, "spec.containers"},
        {"{}", REASON_CONFIG, "spec.containers"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_json_ struct json *pod = parse(cases[i].text);
        _cleanup_error_ struct error err = ERROR_INIT;
        struct pod_spec s;
        assert_true(pod_spec_parse(pod, &options, &s, &err) < 0);
        assert_string_equal(err.reason, cases[i].reason);
        assert_string_equal(err.field, cases[i].field);
    }
}

static void test_values(void **state UNUSED)
{
    _cleanup_json_ struct json *pod = make_pod(
        "\"restartPolicy\":\"OnFailure\",\"hostname\":\"h\",\"securityContext\":{\"runAsUser\":5,\"fsGroup\":9,"
        "\"supplementalGroups\":[7]}," V,
        "\"imagePullPolicy\":\"Never\",\"tty\":true,\"resources\":{\"limits\":{\"memory\":\"64Mi\",\"cpu\":"
        "\"1500m\"},\"requests\":{\"cpu\":\"1\"}},\"securityContext\":{\"runAsUser\":6,"
        "\"readOnlyRootFilesystem\":true,\"capabilities\":{\"drop\":[\"ALL\"],\"add\":[\"CAP_CHOWN\"]}},"
        "\"readinessProbe\":{\"httpGet\":{\"port\":80}},\"livenessProbe\":{\"exec\":{\"command\":[\"t\"]}}," M(
            "\"mountPath\":\"/v\",\"subPath\":\"\""));
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_(pod_spec_clear) struct pod_spec s = {0};

    assert_int_equal(pod_spec_parse(pod, &options, &s, &err), 0);
    const struct pod_container *c = &s.containers[0];
    assert_int_equal(s.restart_policy, RESTART_ON_FAILURE);
    assert_string_equal(s.hostname, "h");
    assert_int_equal(s.group_count, 2);
    assert_int_equal(s.groups[1], 9);
    assert_int_equal(c->pull_policy, PULL_NEVER);
    assert_int_equal(c->uid, 6);
    assert_int_equal(c->gid, -1);
    assert_int_equal(c->limits.memory_bytes, 64 << 20);
    assert_int_equal(c->limits.cpu_millis, 1500);
    assert_int_equal(c->limits.cpu_weight, 1000);
    assert_int_equal(c->capabilities, 1);
    assert_true(c->read_only_root && c->tty);
    assert_null(c->mounts[0].sub_path);
    assert_int_equal(strv_len(s.warnings), 1);
    assert_non_null(strstr(s.warnings[0], "readinessProbe"));
    assert_string_equal(c->probes[PROBE_LIVENESS].command[0], "t");
    assert_int_equal(c->probes[PROBE_LIVENESS].failure_threshold, 3);
}

static const struct json *get_source(void *arg, enum pod_ref_kind kind, const char *name)
{
    _cleanup_free_ char *key = xasprintf("%s%s", kind == POD_REF_SECRET ? "s:" : "c:", name);

    return json_get(arg, key);
}

static void join(struct strbuf *out, char *const *words)
{
    for (; words && *words; words++)
        strbuf_addf(out, "%s%s", out->len ? "|" : "", *words);
}

#define ENV_BASE "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static void test_process(void **state UNUSED)
{
    static const struct {
        const char *container;
        const char *argv, *env; /* env: what follows PATH; or the message of the error, with argv NULL */
    } cases[] = {
        {"", "/ep|cmd", "I=1|HOSTNAME=p.q|HOME=/root"},
        {"\"command\":[\"a\"]", "a", "I=1|HOSTNAME=p.q|HOME=/root"},
        {"\"args\":[\"x\"]", "/ep|x", "I=1|HOSTNAME=p.q|HOME=/root"},
        {"\"command\":[\"a\"],\"args\":[\"x\"]", "a|x", "I=1|HOSTNAME=p.q|HOME=/root"},
        {"\"env\":[{\"name\":\"A\",\"value\":\"1\"},{\"name\":\"B\",\"value\":\"$(A)$(I)$$(A)$(X)$\"}],"
         "\"args\":[\"$(B)\",\"$$(A)\",\"$(\"]",
         "/ep|1$(I)$(A)$(X)$|$(A)|$(", "I=1|HOSTNAME=p.q|HOME=/root|A=1|B=1$(I)$(A)$(X)$"},
        {"\"env\":[{\"name\":\"I\",\"value\":\"2\"},{\"name\":\"HOME\",\"value\":\"/h\"}]", "/ep|cmd",
         "I=2|HOSTNAME=p.q|HOME=/h"},
        {"\"env\":[{\"name\":\"N\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"metadata.name\"}}},{\"name\":\"L\","
         "\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"metadata.labels['a']\"}}},{\"name\":\"Y\",\"valueFrom\":"
         "{\"fieldRef\":{\"fieldPath\":\"metadata.annotations['x/y']\"}}},{\"name\":\"P\",\"valueFrom\":{\"fieldRef\":"
         "{\"fieldPath\":\"status.podIP\"}}}]",
         "/ep|cmd", "I=1|HOSTNAME=p.q|HOME=/root|N=p.q|L=b|Y=z|P=10.88.0.1"},
        {"\"env\":[{\"name\":\"N\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"spec.secrets\"}}}]", NULL,
         "spec.containers[0].env[0]: there is no field"},
        {"\"resources\":{\"limits\":{\"cpu\":\"1500m\",\"memory\":\"64Mi\"}},\"env\":[{\"name\":\"C\",\"valueFrom\":"
         "{\"resourceFieldRef\":{\"resource\":\"limits.cpu\"}}},{\"name\":\"M\",\"valueFrom\":{\"resourceFieldRef\":"
         "{\"resource\":\"limits.memory\",\"divisor\":\"1Mi\"}}},{\"name\":\"R\",\"valueFrom\":{\"resourceFieldRef\":"
         "{\"resource\":\"requests.cpu\",\"divisor\":\"1m\"}}}]",
         "/ep|cmd", "I=1|HOSTNAME=p.q|HOME=/root|C=2|M=64|R=0"},
        {"\"env\":[{\"name\":\"C\",\"valueFrom\":{\"resourceFieldRef\":{\"resource\":\"limits.cpu\"}}}]", "/ep|cmd",
         "I=1|HOSTNAME=p.q|HOME=/root|C=8"},
        {"\"env\":[{\"name\":\"S\",\"valueFrom\":{\"secretKeyRef\":{\"name\":\"s\",\"key\":\"k\"}}},{\"name\":\"M\","
         "\"valueFrom\":{\"configMapKeyRef\":{\"name\":\"m\",\"key\":\"k\"}}},{\"name\":\"O\",\"valueFrom\":"
         "{\"configMapKeyRef\":{\"name\":\"none\",\"key\":\"k\",\"optional\":true}}}]",
         "/ep|cmd", "I=1|HOSTNAME=p.q|HOME=/root|S=secret|M=map"},
        {"\"env\":[{\"name\":\"S\",\"valueFrom\":{\"secretKeyRef\":{\"name\":\"none\",\"key\":\"k\"}}}]", NULL,
         "spec.containers[0].env[0]: secret \"none\" not found"},
        {"\"env\":[{\"name\":\"S\",\"valueFrom\":{\"secretKeyRef\":{\"name\":\"s\",\"key\":\"none\"}}}]", NULL,
         "spec.containers[0].env[0]: couldn't find key none in Secret n/s"},
        {"\"envFrom\":[{\"configMapRef\":{\"name\":\"m\"},\"prefix\":\"X_\"},{\"secretRef\":{\"name\":\"none\","
         "\"optional\":true}}],\"env\":[{\"name\":\"E\",\"value\":\"<$(X_k)>\"}]",
         "/ep|cmd", "I=1|HOSTNAME=p.q|HOME=/root|X_k=map|E=<map>"},
        {"\"envFrom\":[{\"configMapRef\":{\"name\":\"none\"}}]", NULL,
         "spec.containers[0].envFrom[0]: configmap \"none\" not found"},
        {"\"env\":[{\"name\":\"a=b\",\"value\":\"1\"}]", NULL, "spec.containers[0].env[0].name"},
        {"\"workingDir\":\"x\"", NULL, "spec.containers[0].workingDir"},
        {"\"securityContext\":{\"runAsNonRoot\":true}", NULL, "spec.containers[0].securityContext.runAsNonRoot"},
    };
    _cleanup_json_ struct json *objects =
        parse("{\"s:s\":{\"metadata\":{\"namespace\":\"n\"},\"data\":{\"k\":\"c2VjcmV0\"}},\"c:m\":{\"data\":{\"k\":"
              "\"map\"}}}");
    const struct pod_sources sources = {.get = get_source,
                                        .arg = objects,
                                        .pod_ip = "10.88.0.1",
                                        .host_ip = "192.0.2.1",
                                        .node_cpu_millis = 8000,
                                        .node_memory_bytes = 1 << 30};
    char *env[] = {(char *)"I=1", NULL}, *entrypoint[] = {(char *)"/ep", NULL}, *cmd[] = {(char *)"cmd", NULL};
    const struct image image = {.config = {.env = env, .entrypoint = entrypoint, .cmd = cmd}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_json_ struct json *pod = make_pod("", cases[i].container);
        _cleanup_error_ struct error err = ERROR_INIT;
        _cleanup_(pod_spec_clear) struct pod_spec s = {0};
        _cleanup_(pod_process_clear) struct pod_process p = {0};
        _cleanup_(strbuf_free) struct strbuf argv = {0}, out = {0};
        assert_int_equal(pod_spec_parse(pod, &options, &s, &err), 0);
        int r = pod_process_make(&s, &s.containers[0], &image, &sources, &p, &err);
        if (!cases[i].argv) {
            if (r == 0 || !str_skip_prefix(error_text(&err), cases[i].env))
                fail_msg("%s: %d %s", cases[i].container, r, error_text(&err));
            continue;
        }
        if (r < 0)
            fail_msg("%s: %s", cases[i].container, error_text(&err));
        join(&argv, p.argv);
        join(&out, p.env);
        assert_string_equal(strbuf_str(&argv), cases[i].argv);
        _cleanup_free_ char *expect = xasprintf(ENV_BASE "|%s", cases[i].env);
        assert_string_equal(strbuf_str(&out), expect);
        assert_string_equal(p.cwd, "/");
    }
}

static void test_references(void **state UNUSED)
{
    _cleanup_json_ struct json *pod =
        make_pod("\"volumes\":[{\"name\":\"a\",\"secret\":{\"secretName\":\"s1\"}},{\"name\":\"b\",\"configMap\":{"
                 "\"name\":\"m1\"}},{\"name\":\"c\",\"projected\":{\"sources\":[{\"secret\":{\"name\":\"s2\"}},"
                 "{\"downwardAPI\":{}}]}}]",
                 "\"env\":[{\"name\":\"E\",\"valueFrom\":{\"secretKeyRef\":{\"name\":\"s1\",\"key\":\"k\"}}}],"
                 "\"envFrom\":[{\"configMapRef\":{\"name\":\"m2\"}}]");
    _cleanup_(pod_spec_clear) struct pod_spec s = {0};
    _cleanup_free_ struct pod_ref *refs = NULL;
    static const char *const names[] = {"s1", "m2", "m1", "s2"};

    assert_int_equal(pod_spec_parse(pod, &options, &s, NULL), 0);
    assert_int_equal(pod_spec_references(&s, &refs), ARRAY_LEN(names));
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        assert_string_equal(refs[i].name, names[i]);
}

static void put(const char *dir, const char *name, const char *text)
{
    _cleanup_free_ char *etc = xasprintf("%s/etc", dir), *path = xasprintf("%s/etc/%s", dir, name);

    (void)mkdir(etc, 0755);
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static void test_users(void **state UNUSED)
{
    char root[] = "/tmp/holt-user-XXXXXX";
    assert_non_null(mkdtemp(root));
    _cleanup_free_ char *top = xasprintf("%s/top", root), *low = xasprintf("%s/low", root);
    assert_int_equal(mkdir(top, 0755), 0);
    assert_int_equal(mkdir(low, 0755), 0);
    char *lowers[] = {top, low, NULL};
    put(low, "passwd",
        "root:x:0:0::/root:/bin/sh\n\nbad line\nhuge:x:99999999999:1::/:\nmal:x:1000:\n"
        "app:x:1000:1001:App:/home/app:/bin/sh\nrel:x:7:7::home:/bin/sh");
    put(low, "group", "root:x:0:\nextra:x:50:app,other\nweb:x:33:\n");
    static const struct {
        const char *text;
        int64_t uid, gid;
        int expect_uid, expect_gid; /* -1: refused */
        size_t groups;
        const char *home;
    } cases[] = {
        {NULL, -1, -1, 0, 0, 0, "/root"},
        {"", -1, -1, 0, 0, 0, "/root"},
        {"app", -1, -1, 1000, 1001, 1, "/home/app"},
        {"1000", -1, -1, 1000, 1001, 1, "/home/app"},
        {"app:web", -1, -1, 1000, 33, 0, "/home/app"},
        {"app:44", -1, -1, 1000, 44, 0, "/home/app"},
        {"1234", -1, -1, 1234, 0, 0, "/"},
        {"1234:55", -1, -1, 1234, 55, 0, "/"},
        {"app", 0, -1, 0, 0, 0, "/root"},
        {"app", 1000, 5, 1000, 5, 1, "/home/app"},
        {"nobody", -1, -1, -1},
        {"app:none", -1, -1, -1},
        {":web", -1, -1, -1},
        {"huge", -1, -1, -1},
        {"99999", -1, -1, -1},
        {"rel", -1, -1, 7, 7, 0, "/"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(image_user_clear) struct image_user u = {0};
        _cleanup_error_ struct error err = ERROR_INIT;
        int r = image_user_resolve(lowers, cases[i].text, cases[i].uid, cases[i].gid, &u, &err);
        if ((r < 0) != (cases[i].expect_uid < 0))
            fail_msg("%s: %d %s", cases[i].text, r, error_text(&err));
        if (r < 0)
            continue;
        assert_int_equal(u.uid, cases[i].expect_uid);
        assert_int_equal(u.gid, cases[i].expect_gid);
        assert_string_equal(u.home, cases[i].home);
        if (u.group_count != cases[i].groups)
            fail_msg("%s: %zu groups", cases[i].text, u.group_count);
    }
    /* A link out of the image reads nothing of the host; a whiteout hides the layer below. */
    struct image_user u = {0};
    _cleanup_free_ char *link = xasprintf("%s/etc/passwd", top), *etc = xasprintf("%s/etc", top);
    assert_int_equal(mkdir(etc, 0755), 0);
    assert_int_equal(symlink("/../../../../etc/passwd", link), 0);
    assert_true(image_user_resolve(lowers, "app", -1, -1, &u, NULL) < 0);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(mknod(link, S_IFCHR | 0600, 0), 0);
    assert_true(image_user_resolve(lowers, "app", -1, -1, &u, NULL) < 0);
    assert_int_equal(remove_tree_at(AT_FDCWD, root, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_images_and_containers),
        cmocka_unit_test(test_values),     cmocka_unit_test(test_process),
        cmocka_unit_test(test_references), cmocka_unit_test(test_users),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The backend's answer, so that this test needs nothing of the backend. */
uint64_t native_default_caps(void)
{
    return 1u << 0 | 1u << 1 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 6 | 1u << 7;
}
