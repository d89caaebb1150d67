/* Image names, documents, and archives: good ones and a corpus of evil ones made here. */
#include "test.h"

#include "base/fdio.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/strutil.h"
#include "node/image/reference.h"
#include "node/image/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

static void test_reference(void **state UNUSED)
{
    static const struct {
        const char *text;
        int kind; /* -1: invalid */
        const char *name;
    } cases[] = {
        {"host", IMAGE_HOST, "host"},
        {"dir:/srv/x", IMAGE_DIR, "/srv/x"},
        {"dir:srv", -1, NULL},
        {"busybox", IMAGE_NAMED, "docker.io/library/busybox:latest"},
        {"busybox:1.36", IMAGE_NAMED, "docker.io/library/busybox:1.36"},
        {"acme/tool", IMAGE_NAMED, "docker.io/acme/tool:latest"},
        {"docker.io/busybox", IMAGE_NAMED, "docker.io/library/busybox:latest"},
        {"ghcr.io/a/b__c:v1.2-3", IMAGE_NAMED, "ghcr.io/a/b__c:v1.2-3"},
        {"localhost:5000/a", IMAGE_NAMED, "localhost:5000/a:latest"},
        {"localhost/a", IMAGE_NAMED, "localhost/a:latest"},
        {"a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", IMAGE_NAMED,
         "docker.io/library/a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
        {"a@sha256:0123", -1, NULL},
        {"", -1, NULL},
        {":x", -1, NULL},
        {"A", -1, NULL},
        {"a/../b", -1, NULL},
        {"a//b", -1, NULL},
        {"/a", -1, NULL},
        {"a/", -1, NULL},
        {"a_", -1, NULL},
        {"a___b", -1, NULL},
        {"a--b", IMAGE_NAMED, "docker.io/library/a--b:latest"},
        {"a:b c", -1, NULL},
        {"a:", -1, NULL},
        {"a.b:port/c", -1, NULL},
        {"bad..dots", -1, NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct image_ref ref = {0};
        _cleanup_error_ struct error err = ERROR_INIT;
        int r = image_ref_parse(cases[i].text, &ref, &err);
        if ((r == 0) != (cases[i].kind >= 0))
            print_error("%s: %d %s\n", cases[i].text, r, error_text(&err));
        if (cases[i].kind < 0) {
            assert_int_equal(r, -EINVAL);
            assert_string_equal(err.reason, "InvalidImageName");
            continue;
        }
        assert_int_equal(r, 0);
        assert_int_equal(ref.kind, cases[i].kind);
        assert_string_equal(ref.name, cases[i].name);
        image_ref_clear(&ref);
    }
}

#define D1 "sha256:1111111111111111111111111111111111111111111111111111111111111111"
#define LAYER(type, extra) "{\"mediaType\":\"" type "\",\"digest\":\"" D1 "\",\"size\":3" extra "}"
#define MANIFEST(layer) "{\"schemaVersion\":2,\"config\":{\"digest\":\"" D1 "\",\"size\":2},\"layers\":[" layer "]}"
#define TAR_GZ "application/vnd.oci.image.layer.v1.tar+gzip"

static struct json *parse(const char *text)
{
    struct json *v = json_parse(text, strlen(text), NULL);

    assert_non_null(v);
    return v;
}

static void test_manifest(void **state UNUSED)
{
    static const struct {
        const char *text;
        const char *message; /* NULL: good */
    } cases[] = {
        {MANIFEST(LAYER(TAR_GZ, "")), NULL},
        {MANIFEST(LAYER(TAR_GZ, ",\"urls\":[\"http://169.254.169.254/\"]")), "URL"},
        {MANIFEST(LAYER("application/vnd.oci.image.layer.nondistributable.v1.tar", "")), "media type"},
        {MANIFEST(LAYER("application/vnd.oci.image.layer.v1.tar+encrypted", "")), "media type"},
        {MANIFEST(""), "no layers"},
        {MANIFEST("7"), "media type"},
        {"{\"schemaVersion\":1}", "schema version 2"},
        {"[]", "schema version 2"},
        {"{\"schemaVersion\":2,\"config\":{\"digest\":\"md5:1\",\"size\":2},\"layers\":[1]}", "digest"},
        {"{\"schemaVersion\":2,\"config\":{\"digest\":\"" D1 "\",\"size\":-2},\"layers\":[1]}", "size"},
        {"{\"schemaVersion\":2,\"config\":{\"digest\":\"../../etc\",\"size\":2},\"layers\":[1]}", "digest"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_json_ struct json *v = parse(cases[i].text);
        _cleanup_error_ struct error err = ERROR_INIT;
        struct image_manifest m;
        int r = image_manifest_parse(v, &m, &err);
        if (!cases[i].message) {
            assert_int_equal(r, 0);
            assert_int_equal(m.layer_count, 1);
            image_manifest_clear(&m);
            continue;
        }
        assert_true(r < 0);
        if (!strstr(error_text(&err), cases[i].message))
            fail_msg("%s: \"%s\"", cases[i].text, error_text(&err));
    }
}

static void test_config(void **state UNUSED)
{
    static const struct {
        const char *text;
        bool good;
    } cases[] = {
        {"{\"os\":\"linux\",\"architecture\":\"amd64\",\"rootfs\":{\"diff_ids\":[\"x\"]},\"config\":{\"Cmd\":[\"a\"],"
         "\"Env\":[\"A=b=c\"],\"WorkingDir\":\"/w\",\"User\":\"1:2\",\"StopSignal\":\"SIGINT\"}}",
         true},
        {"{\"architecture\":\"amd64\",\"rootfs\":{\"diff_ids\":[\"x\"]},\"config\":{\"StopSignal\":\"INT\"}}", true},
        {"{\"architecture\":\"s390x\",\"rootfs\":{\"diff_ids\":[\"x\"]}}", false},
        {"{\"os\":\"windows\",\"rootfs\":{\"diff_ids\":[\"x\"]}}", false},
        {"{\"rootfs\":{\"diff_ids\":[]}}", false},
        {"{\"rootfs\":{\"diff_ids\":[\"x\"]},\"config\":{\"Cmd\":\"a\"}}", false},
        {"{\"rootfs\":{\"diff_ids\":[\"x\"]},\"config\":{\"Env\":[\"A\"]}}", false},
        {"{\"rootfs\":{\"diff_ids\":[\"x\"]},\"config\":{\"Env\":[\"=a\"]}}", false},
        {"{\"rootfs\":{\"diff_ids\":[\"x\"]},\"config\":{\"WorkingDir\":\"w\"}}", false},
        {"{\"rootfs\":{\"diff_ids\":[\"x\"]},\"config\":{\"User\":\"a\\u0000b\"}}", false},
        {"{\"rootfs\":{\"diff_ids\":[\"x\"]},\"config\":{\"StopSignal\":\"SIGBOGUS\"}}", false},
        {"[]", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_json_ struct json *v = parse(cases[i].text);
        _cleanup_error_ struct error err = ERROR_INIT;
        struct image_config c = {0}, again = {0};
        int r = image_config_parse(v, "amd64", 1, &c, &err);
        if ((r == 0) != cases[i].good)
            fail_msg("%s: %d \"%s\"", cases[i].text, r, error_text(&err));
        if (r < 0)
            continue;
        _cleanup_json_ struct json *kept = image_config_to_json(&c);
        assert_int_equal(image_config_from_json(kept, &again, &err), 0);
        assert_int_equal(again.stop_signal, 2);
        image_config_clear(&c);
        image_config_clear(&again);
    }
}

/* A writer of ustar archives. */

struct entry {
    const char *name;
    char type; /* '0' file, '1' hard link, '2' symbolic link, '3' and '4' devices, '5' directory, '6' FIFO */
    const char *content, *link;
    unsigned mode, uid;
};

static void tar_number(char *field, size_t size, unsigned long value)
{
    for (size_t i = size - 1; i-- > 0; value >>= 3)
        field[i] = (char)('0' + (value & 7));
}

static void tar_add(struct strbuf *out, const struct entry *e)
{
    static const char zeros[512];
    char h[512] = {0};
    size_t len = e->content ? strlen(e->content) : 0;
    unsigned sum = 0;

    memcpy(h, e->name, MIN(strlen(e->name), (size_t)100));
    tar_number(h + 100, 8, e->mode ? e->mode : (e->type == '5' ? 0755 : 0644));
    tar_number(h + 108, 8, e->uid);
    tar_number(h + 116, 8, e->uid);
    tar_number(h + 124, 12, len);
    tar_number(h + 136, 12, 1000000000);
    memset(h + 148, ' ', 8);
    h[156] = e->type;
    if (e->link)
        memcpy(h + 157, e->link, MIN(strlen(e->link), (size_t)100));
    memcpy(h + 257,
           "ustar\0"
           "00",
           8);
    for (size_t i = 0; i < sizeof(h); i++)
        sum += (unsigned char)h[i];
    (void)snprintf(h + 148, 8, "%06o", sum);
    strbuf_add(out, h, sizeof(h));
    if (len) {
        strbuf_add(out, e->content, len);
        strbuf_add(out, zeros, (512 - len % 512) % 512);
    }
}

static void tar_make(struct strbuf *out, const struct entry *entries)
{
    static const char zeros[1024];

    for (; entries->name; entries++)
        tar_add(out, entries);
    strbuf_add(out, zeros, sizeof(zeros));
}

/* A data directory per test. */

struct fixture {
    char dir[32];
    char *data, *archive, *canary;
    struct image_store *store;
};

static char *helper_path(void)
{
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    assert_true(n > 0);
    exe[n] = '\0';
    for (int i = 0; i < 3; i++) /* tests/unit/test_image */
        *strrchr(exe, '/') = '\0';
    return xasprintf("%s/holt-extract", exe);
}

static void write_file(const char *path, const void *data, size_t len)
{
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, data, len), 0);
}

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));
    _cleanup_free_ char *helper = helper_path();
    _cleanup_error_ struct error err = ERROR_INIT;

    memcpy(f->dir, "/tmp/holt-image-XXXXXX", 23);
    if (!mkdtemp(f->dir))
        return -1;
    f->data = xasprintf("%s/data", f->dir);
    f->archive = xasprintf("%s/archive.tar", f->dir);
    f->canary = xasprintf("%s/canary", f->dir);
    write_file(f->canary, "safe", 4);
    f->store = image_store_open(f->data, helper, &err);
    if (!f->store)
        print_error("%s\n", error_text(&err));
    *state = f;
    return f->store ? 0 : -1;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    int r = remove_tree_at(AT_FDCWD, f->dir, NULL);

    image_store_close(f->store);
    free(f->data);
    free(f->archive);
    free(f->canary);
    free(f);
    return r;
}

static size_t count_entries(const struct fixture *f, const char *part)
{
    _cleanup_free_ char *path = xasprintf("%s/images/%s", f->data, part);
    DIR *dir = opendir(path);
    size_t n = 0;

    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        n += *e->d_name != '.';
    (void)closedir(dir);
    return n;
}

static void check_canary(const struct fixture *f)
{
    _cleanup_free_ char *text = NULL;
    struct stat st;

    assert_int_equal(file_read_at(AT_FDCWD, f->canary, 100, &text, NULL, NULL), 0);
    assert_string_equal(text, "safe");
    assert_int_equal(stat(f->canary, &st), 0);
    assert_int_equal(st.st_nlink, 1);
    assert_int_equal(st.st_mode & 07777, 0600);
}

#define LONG_NAME "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"

static void test_evil_archives(void **state)
{
    struct fixture *f = *state;
    _cleanup_free_ char *outside = xasprintf("%s/escape", f->dir), *outside_entry = xasprintf("out/escape");
    const struct {
        const char *what;
        const char *message; /* NULL: imports, and changes nothing outside */
        struct entry entries[8];
    } cases[] = {
        {"absolute name", "absolute", {{outside, '0', "x"}}},
        {"dot-dot", "above the root", {{"../../../../escape", '0', "x"}}},
        {"dot-dot inside", "above the root", {{"a/../../escape", '0', "x"}}},
        {"dot-dot directory", "above the root", {{"a/..", '5'}}},
        {"through an absolute link", "leads to no directory", {{"out", '2', NULL, f->dir}, {outside_entry, '0', "x"}}},
        {"through a relative link", NULL, {{"out", '2', NULL, "../../../../../../../.."}, {outside_entry, '0', "x"}}},
        {"through a link to a link",
         "leads to no directory",
         {{"l", '2', NULL, f->dir}, {"out", '2', NULL, "l"}, {outside_entry, '0', "x"}}},
        {"over a link", NULL, {{"l", '2', NULL, f->canary}, {"l", '0', "evil"}}},
        {"hard link outside", "above the root", {{"h", '1', NULL, "../../../canary"}}},
        {"hard link absolute", "absolute name", {{"h", '1', NULL, f->canary}}},
        {"hard link through a link",
         "no file of the archive",
         {{"l", '2', NULL, f->canary}, {"h", '1', NULL, "l"}, {"h", '0', "evil"}}},
        {"hard link through a directory link",
         "no file of the archive",
         {{"d", '2', NULL, f->dir}, {"h", '1', NULL, "d/canary"}}},
        {"character device", "device", {{"c", '3'}}},
        {"block device", "device", {{"b", '4'}}},
        {"FIFO", "device", {{"p", '6'}}},
        {"device in dev", NULL, {{"dev/null", '3'}}},
        {"file on directory", "replaces a directory", {{"d", '5'}, {"d", '0', "x"}}},
        {"whiteout of nothing", "hides nothing", {{".wh.", '0'}}},
        {"whiteout of dot-dot", "hides nothing", {{".wh...", '0'}}},
        {"whiteout of dot", "hides nothing", {{"a/.wh..", '0'}}},
        {"foreign owner", "outside of 0..65535", {{"f", '0', "x", NULL, 0644, 100000}}},
        {"link without target", "no proper target", {{"l", '2', NULL, ""}}},
        {"root is a file", "no directory", {{".", '0', "x"}}},
        {"long name", NULL, {{LONG_NAME, '0', "x"}}},
        {"mode of the root", NULL, {{"./", '5', NULL, NULL, 01777}}},
        {"set-id file", NULL, {{"s", '0', "x", NULL, 06755, 7}}},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(strbuf_free) struct strbuf tar = {0};
        _cleanup_error_ struct error err = ERROR_INIT;
        tar_make(&tar, cases[i].entries);
        write_file(f->archive, tar.data, tar.len);
        int r = image_store_import(f->store, "docker.io/library/evil:latest", f->archive, NULL, &err);
        if ((r == 0) != !cases[i].message || (r < 0 && !strstr(error_text(&err), cases[i].message)))
            fail_msg("%s: %d \"%s\"", cases[i].what, r, error_text(&err));
        check_canary(f);
        assert_int_equal(access(outside, F_OK), -1);
        assert_int_equal(count_entries(f, "tmp"), 0);
        assert_int_equal(count_entries(f, "layers"), r == 0);
        if (r == 0)
            assert_int_equal(image_store_remove(f->store, "docker.io/library/evil:latest", &err), 0);
        assert_int_equal(count_entries(f, "layers"), 0);
    }
}

static void test_broken_archives(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *data;
        size_t len;
    } cases[] = {
        {"not an archive at all, but long enough to look at", 50},
        {"\x1f\x8b\x08\x00garbage", 11},
        {"\x28\xb5\x2f\xfdgarbage", 11},
        {"PK\x03\x04", 4}, /* other formats are not read */
        {"!<arch>\n", 8},
        {NULL, 3 << 20}, /* more than the helper reads before it gives up */
    };
    _cleanup_free_ char *large = xmalloc(3 << 20);
    memset(large, 0xa5, 3 << 20);
    /* What an import left that was killed goes with the next one. */
    int left = mkdirs_at(image_store_dir(f->store), "tmp/0123456789abcdef/etc", 0700, NULL);
    assert_true(left >= 0);
    close(left);

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_error_ struct error err = ERROR_INIT;
        write_file(f->archive, cases[i].data ? cases[i].data : large, cases[i].len);
        assert_true(image_store_import(f->store, "x/y:1", f->archive, NULL, &err) < 0);
        assert_int_equal(count_entries(f, "tmp"), 0);
        assert_int_equal(count_entries(f, "layers"), 0);
        assert_int_equal(count_entries(f, "refs"), 0);
    }
}

static char *digest_text(const struct strbuf *b)
{
    char hex[SHA256_HEX + 1];

    digest_of(b->data, b->len, hex);
    return xstrdup(hex);
}

/* A docker-archive of two layers; diff0 NULL: the right one. */
static void docker_archive(struct strbuf *out, const char *diff0)
{
    static const struct entry lower[] = {{"./", '5'},
                                         {"bin/", '5'},
                                         {"bin/sh", '0', "shell", NULL, 0755},
                                         {"etc/passwd", '0', "root:x:0:0::/root:/bin/sh\n"},
                                         {"old/a", '0', "a"},
                                         {"opaque/b", '0', "b"},
                                         {NULL}};
    static const struct entry upper[] = {{"etc/.wh.gone", '0'},
                                         {".wh.old", '0'},
                                         {"opaque/", '5'},
                                         {"opaque/.wh..wh..opq", '0'},
                                         {"opaque/c", '0', "c", NULL, 0640, 33},
                                         {"late/.wh.d", '0'},
                                         {"late/d/", '5'},
                                         {"late/d/x", '0', "x"},
                                         {"h\xc3\xa9", '0', "utf-8"},
                                         {"sh", '1', NULL, "opaque/c"},
                                         {NULL}};
    _cleanup_(strbuf_free) struct strbuf l0 = {0}, l1 = {0};
    tar_make(&l0, lower);
    tar_make(&l1, upper);
    _cleanup_free_ char *d0 = digest_text(&l0), *d1 = digest_text(&l1);
    _cleanup_free_ char *config =
        xasprintf("{\"os\":\"linux\",\"architecture\":\"%s\",\"rootfs\":{\"diff_ids\":[\"sha256:%s\",\"sha256:%s\"]},"
                  "\"config\":{\"Cmd\":[\"/bin/sh\"],\"User\":\"daemon\"}}",
                  image_architecture(), diff0 ? diff0 : d0, d1);
    const struct entry head[] = {
        {"manifest.json", '0',
         "[{\"Config\":\"c.json\",\"RepoTags\":[\"demo:1\"],\"Layers\":[\"0/layer.tar\",\"1/layer.tar\"]}]"},
        {"c.json", '0', config},
        {NULL}};
    /* Contents with NUL bytes do not fit tar_add: the layers are appended by hand. */
    static const char zeros[1024];
    for (const struct entry *e = head; e->name; e++)
        tar_add(out, e);
    for (int i = 0; i < 2; i++) {
        const struct strbuf *layer = i ? &l1 : &l0;
        _cleanup_free_ char *filler = xmalloc(layer->len + 1);
        memset(filler, 'x', layer->len);
        filler[layer->len] = '\0';
        const struct entry e = {i ? "1/layer.tar" : "0/layer.tar", '0', filler};
        size_t at = out->len + 512;
        tar_add(out, &e);
        memcpy(out->data + at, layer->data, layer->len);
    }
    strbuf_add(out, zeros, sizeof(zeros));
}

static void assert_opaque(const char *layer, const char *path)
{
    _cleanup_free_ char *full = xasprintf("%s/%s", layer, path);
    char value[4] = {0};

    assert_int_equal(getxattr(full, "trusted.overlay.opaque", value, sizeof(value)), 1);
    assert_string_equal(value, "y");
}

static void assert_whiteout(const char *layer, const char *path)
{
    _cleanup_free_ char *full = xasprintf("%s/%s", layer, path);
    struct stat st;

    assert_int_equal(lstat(full, &st), 0);
    assert_true(S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0));
}

static void test_docker_archive(void **state)
{
    struct fixture *f = *state;
    _cleanup_(strbuf_free) struct strbuf tar = {0};
    _cleanup_error_ struct error err = ERROR_INIT;
    struct image image;
    struct stat st;

    docker_archive(&tar, NULL);
    write_file(f->archive, tar.data, tar.len);
    int r = image_store_import(f->store, "docker.io/library/demo:1", f->archive, NULL, &err);
    if (r < 0)
        fail_msg("%s", error_text(&err));
    assert_int_equal(count_entries(f, "layers"), 2);
    _cleanup_free_ char *hold = xasprintf("%s/pods", f->data);
    assert_int_equal(mkdir(hold, 0700), 0);
    _cleanup_free_ char *pod = xasprintf("%s/pods/u1", f->data);
    assert_int_equal(mkdir(pod, 0700), 0);
    _cleanup_free_ char *layers = xasprintf("%s/pods/u1/layers", f->data);
    assert_int_equal(image_store_lookup(f->store, "docker.io/library/demo:1", layers, &image, &err), 0);
    assert_string_equal(image.config.cmd[0], "/bin/sh");
    assert_string_equal(image.config.user, "daemon");
    assert_int_equal(strv_len(image.lowers), 2);

    const char *top = image.lowers[0];
    assert_whiteout(top, "etc/gone");
    assert_whiteout(top, "old");
    assert_opaque(top, "opaque");
    assert_opaque(top, "late/d");
    _cleanup_free_ char *c = xasprintf("%s/opaque/c", top), *utf8 = xasprintf("%s/h\xc3\xa9", top);
    assert_int_equal(lstat(c, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(st.st_uid, 33);
    assert_int_equal(st.st_nlink, 2);
    assert_int_equal(st.st_mtime, 1000000000);
    assert_int_equal(access(utf8, F_OK), 0);
    _cleanup_free_ char *sh = xasprintf("%s/bin/sh", image.lowers[1]);
    assert_int_equal(lstat(sh, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);

    /* The Pod's hold keeps the layers when the name goes. */
    assert_int_equal(image_store_remove(f->store, "docker.io/library/demo:1", &err), 0);
    assert_int_equal(count_entries(f, "layers"), 2);
    struct image none;
    assert_int_equal(image_store_lookup(f->store, "docker.io/library/demo:1", NULL, &none, &err), -ENOENT);
    assert_int_equal(image_store_import(f->store, "other/name:2", f->archive, "demo:1", &err), 0);
    assert_int_equal(unlink(layers), 0);
    assert_int_equal(image_store_remove(f->store, "other/name:2", &err), 0);
    assert_int_equal(count_entries(f, "layers"), 0);
    assert_int_equal(image_store_remove(f->store, "other/name:2", &err), -ENOENT);
    image_clear(&image);
}

static void test_wrong_digest(void **state)
{
    struct fixture *f = *state;
    _cleanup_(strbuf_free) struct strbuf tar = {0};
    _cleanup_error_ struct error err = ERROR_INIT;

    docker_archive(&tar, str_skip_prefix(D1, "sha256:"));
    write_file(f->archive, tar.data, tar.len);
    assert_int_equal(image_store_import(f->store, "docker.io/library/demo:1", f->archive, NULL, &err), -EBADMSG);
    assert_non_null(strstr(error_text(&err), "layer 0: a layer has the digest"));
    assert_int_equal(count_entries(f, "layers"), 0);
    assert_int_equal(count_entries(f, "refs"), 0);
}

static void put_blob(const char *root, const char *hex, const void *data, size_t len)
{
    _cleanup_free_ char *path = xasprintf("%s/blobs/sha256/%s", root, hex);

    write_file(path, data, len);
}

static void test_oci_layout(void **state)
{
    struct fixture *f = *state;
    static const struct entry files[] = {{"f", '0', "content"}, {NULL}};
    _cleanup_(strbuf_free) struct strbuf layer = {0};
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_free_ char *root = xasprintf("%s/oci", f->dir), *blobs = xasprintf("%s/oci/blobs/sha256", f->dir);
    _cleanup_close_ int made = mkdirs_at(AT_FDCWD, blobs, 0700, &err);
    char config_hex[SHA256_HEX + 1], manifest_hex[SHA256_HEX + 1];

    assert_true(made >= 0);
    tar_make(&layer, files);
    _cleanup_free_ char *layer_hex = digest_text(&layer);
    put_blob(root, layer_hex, layer.data, layer.len);
    _cleanup_free_ char *config =
        xasprintf("{\"os\":\"linux\",\"architecture\":\"%s\",\"rootfs\":{\"diff_ids\":[\"sha256:%s\"]}}",
                  image_architecture(), layer_hex);
    digest_of(config, strlen(config), config_hex);
    put_blob(root, config_hex, config, strlen(config));
    _cleanup_free_ char *manifest =
        xasprintf("{\"schemaVersion\":2,\"config\":{\"digest\":\"sha256:%s\",\"size\":%zu},\"layers\":[{\"mediaType\":"
                  "\"application/vnd.oci.image.layer.v1.tar\",\"digest\":\"sha256:%s\",\"size\":%zu}]}",
                  config_hex, strlen(config), layer_hex, layer.len);
    digest_of(manifest, strlen(manifest), manifest_hex);
    put_blob(root, manifest_hex, manifest, strlen(manifest));
    _cleanup_free_ char *index =
        xasprintf("{\"schemaVersion\":2,\"manifests\":[{\"digest\":\"sha256:%s\",\"size\":%zu,\"annotations\":"
                  "{\"org.opencontainers.image.ref.name\":\"v1\"}}]}",
                  manifest_hex, strlen(manifest));
    _cleanup_free_ char *index_path = xasprintf("%s/index.json", root), *mark = xasprintf("%s/oci-layout", root);
    write_file(index_path, index, strlen(index));
    write_file(mark, "{}", 2);

    int r = image_store_import(f->store, "a.b/c:1", root, "v2", &err);
    assert_int_equal(r, -ENOENT);
    r = image_store_import(f->store, "a.b/c:1", root, NULL, &err);
    if (r < 0)
        fail_msg("%s", error_text(&err));
    struct image image;
    _cleanup_free_ char *by_digest = xasprintf("a.b/c@sha256:%s", manifest_hex);
    assert_int_equal(image_store_lookup(f->store, by_digest, NULL, &image, &err), 0);
    image_clear(&image);
    by_digest[0] = 'x';
    assert_int_equal(image_store_lookup(f->store, by_digest, NULL, &image, &err), -ENOENT);
    assert_int_equal(image_store_remove(f->store, "a.b/c:1", &err), 0);

    /* One byte of each blob turned in its place: each is found out. */
    const char *const hexes[] = {layer_hex, config_hex, manifest_hex};
    for (size_t i = 0; i < ARRAY_LEN(hexes); i++) {
        _cleanup_free_ char *path = xasprintf("%s/blobs/sha256/%s", root, hexes[i]);
        int fd = open(path, O_RDWR | O_CLOEXEC);
        char byte, other;
        assert_int_equal(pread(fd, &byte, 1, 0), 1);
        other = byte ^ 1;
        assert_int_equal(pwrite(fd, &other, 1, 0), 1);
        assert_true(image_store_import(f->store, "a.b/c:1", root, NULL, &err) < 0);
        assert_int_equal(pwrite(fd, &byte, 1, 0), 1);
        (void)close(fd);
        assert_int_equal(count_entries(f, "layers"), 0);
        assert_int_equal(count_entries(f, "tmp"), 0);
    }
    /* A blob that is a link out of the layout. */
    _cleanup_free_ char *path = xasprintf("%s/blobs/sha256/%s", root, config_hex);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(f->canary, path), 0);
    assert_true(image_store_import(f->store, "a.b/c:1", root, NULL, &err) < 0);
}

static void test_directory(void **state)
{
    struct fixture *f = *state;
    _cleanup_free_ char *root = xasprintf("%s/tree", f->dir), *file = xasprintf("%s/tree/f", f->dir);
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_json_ struct json *list = NULL;
    struct image image;

    assert_int_equal(mkdir(root, 0755), 0);
    write_file(file, "x", 1);
    int r = image_store_import(f->store, "docker.io/library/tree:latest", root, NULL, &err);
    if (r < 0)
        fail_msg("%s", error_text(&err));
    assert_int_equal(image_store_list(f->store, &list, &err), 0);
    assert_int_equal(json_size(list), 1);
    assert_int_equal(image_store_lookup(f->store, "docker.io/library/tree:latest", NULL, &image, &err), 0);
    assert_string_equal(image.config.cmd[0], "/bin/sh");
    image_clear(&image);
    assert_true(image_store_import(f->store, "a/b:1", "/dev/null", NULL, &err) < 0);
    assert_true(image_store_import(f->store, "a/b:1", "/nonexistent", NULL, &err) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_manifest),
        cmocka_unit_test(test_config),
        cmocka_unit_test_setup_teardown(test_evil_archives, setup, teardown),
        cmocka_unit_test_setup_teardown(test_broken_archives, setup, teardown),
        cmocka_unit_test_setup_teardown(test_docker_archive, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_digest, setup, teardown),
        cmocka_unit_test_setup_teardown(test_oci_layout, setup, teardown),
        cmocka_unit_test_setup_teardown(test_directory, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
