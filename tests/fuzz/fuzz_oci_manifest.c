/* The documents of an image, the name of one, and a line of a container's log: all come from outside. */
#include "fuzz.h"

#include "base/memory.h"
#include "node/image/manifest.h"
#include "node/image/reference.h"
#include "node/log_file.h"

static void read_documents(const struct json *v)
{
    struct image_blob blob;
    struct image_manifest manifest;
    struct image_config config, again;
    char hex[SHA256_HEX + 1];
    bool nested;

    (void)image_index_select(v, NULL, "amd64", &blob, &nested, NULL);
    (void)image_index_select(v, "latest", "amd64", &blob, &nested, NULL);
    if (image_manifest_parse(v, &manifest, NULL) == 0)
        image_manifest_clear(&manifest);
    if (docker_manifest_parse(v, "docker.io/library/a:latest", &manifest, NULL) == 0)
        image_manifest_clear(&manifest);
    for (size_t layers = 0; layers < 3; layers++) {
        if (image_config_parse(v, "amd64", layers, &config, NULL) < 0)
            continue;
        /* What was accepted is kept and read again. */
        _cleanup_json_ struct json *kept = image_config_to_json(&config);
        if (image_config_from_json(kept, &again, NULL) < 0)
            abort();
        image_config_clear(&again);
        image_config_clear(&config);
    }
    (void)image_config_diff_id(v, 0, hex);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_free_ char *text = xstrndup((const char *)data, size);
    _cleanup_json_ struct json *v = json_parse((const char *)data, size, NULL);
    struct image_ref ref;
    struct log_line line;

    read_documents(v);
    if (image_ref_parse(text, &ref, NULL) == 0) {
        struct image_ref twice;
        if (ref.kind == IMAGE_NAMED) { /* a normalised name is its own normal form */
            if (image_ref_parse(ref.name, &twice, NULL) < 0 || strcmp(ref.name, twice.name) != 0)
                abort();
            image_ref_clear(&twice);
        }
        image_ref_clear(&ref);
    }
    if (log_line_parse((const char *)data, size, &line) && line.len > size)
        abort();
    return 0;
}
