/* What is served without looking at any object: discovery, OpenAPI, version. */
#pragma once

#include "apiserver/resource.h"
#include "wire/http.h"

struct jwt_keys;
struct static_paths;
/* keys: of tokens of ServiceAccounts; NULL = there are none. */
struct static_paths *static_paths_new(const struct resource_table *table, const char *server_address,
                                      const struct jwt_keys *keys);
void static_paths_free(struct static_paths *p);
/* path: decoded. Unknown ones are answered 404. */
void static_paths_answer(struct static_paths *p, struct http_request *req, const char *path);
