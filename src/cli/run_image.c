#include "cli/run_image.h"

#include "base/memory.h"
#include "base/strutil.h"
#include "node/image/reference.h"
#include "node/image/store.h"

#include <sys/file.h>

static void clear_ref(struct image_ref *r)
{
    image_ref_clear(r);
}

static char **append_all(char **to, char *const *from)
{
    for (; from && *from; from++)
        to = strv_append(to, xstrdup(*from));
    return to;
}

int run_image_find(const char *data_dir, const char *name, struct run_image *ret, struct error *err)
{
    _cleanup_(clear_ref) struct image_ref ref = {0};
    _cleanup_(image_clear) struct image image = {0};
    int r = image_ref_parse(name, &ref, err);

    if (r < 0)
        return r;
    _cleanup_(image_store_close_p) struct image_store *store = image_store_open(data_dir, NULL, err);
    if (!store)
        return -EIO;
    /* The lock of those who use images; whoever removes one waits for them. */
    _cleanup_close_ int lock = image_store_lock(store, LOCK_SH, err);
    r = lock < 0 ? lock : image_store_lookup(store, ref.name, NULL, &image, err);
    if (r == -ENOENT)
        return error_set(err, ENOENT, "image \"%s\" is not on this machine: `holt image import %s PATH`", name, name);
    if (r < 0)
        return r;
    *ret = (struct run_image){.lowers = take_ptr(image.lowers),
                              .env = take_ptr(image.config.env),
                              .words = append_all(append_all(NULL, image.config.entrypoint), image.config.cmd),
                              .workdir = take_ptr(image.config.working_dir),
                              .user = take_ptr(image.config.user),
                              .lock = take_fd(lock)};
    return 0;
}
