/*
 * Discovery: the documents by which clients learn what is served, from the resource table. Legacy documents (one for
 * each group and version) and the aggregated one are both in use by today's clients.
 *
 * Documents are made when first asked for and kept until the table changes. What these functions return is lent, and
 * valid until the table changes.
 */
#pragma once

#include "apiserver/document.h"
#include "apiserver/resource.h"

struct discovery;

enum discovery_form { DISCOVERY_LEGACY, DISCOVERY_V2BETA1, DISCOVERY_V2 };

/* table is borrowed. server_address ("10.0.0.1:6443") is what /api tells clients. */
struct discovery *discovery_new(const struct resource_table *table, const char *server_address);
void discovery_free(struct discovery *d);
DEFINE_CLEANUP(discovery_free, struct discovery *);

/* The form that an Accept header (NULL: none) asks for first among those we have; legacy if it asks for none. */
enum discovery_form discovery_form_for(const char *accept);
/* Clients tell the forms apart by it alone. */
const char *discovery_content_type(enum discovery_form form);

/* GET /api and GET /apis. */
const struct document *discovery_api(struct discovery *d, enum discovery_form form);
const struct document *discovery_apis(struct discovery *d, enum discovery_form form);
/* GET /apis/GROUP. NULL when there is no such group. */
const struct document *discovery_group(struct discovery *d, const char *group);
/* GET /api/VERSION (group "") and GET /apis/GROUP/VERSION. NULL when there is no such version. */
const struct document *discovery_resources(struct discovery *d, const char *group, const char *version);
