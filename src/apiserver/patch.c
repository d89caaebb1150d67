#include "apiserver/patch.h"

struct json *patch_plain(struct api_call *c, const struct json *document)
{
    (void)document;
    (void)api_fail(c, status_failure(501, "NotImplemented", "patches are not there yet", NULL));
    return NULL;
}

void api_patch(struct api_call *c)
{
    (void)patch_plain(c, NULL);
}
