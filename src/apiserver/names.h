/*
 * The name rules of Kubernetes. Each returns NULL for a good name, else the text of the first rule it breaks, as it
 * stands behind `Invalid value: "NAME": `. The texts are literals.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define NAME_SUBDOMAIN_MAX 253
#define NAME_LABEL_MAX 63
#define NAME_PORT_MAX 15
#define ANNOTATIONS_MAX_BYTES (256 * 1024)

typedef const char *name_rule(const char *name);

name_rule name_check_subdomain;      /* DNS-1123 subdomain: names of most objects, CRD groups */
name_rule name_check_label;          /* DNS-1123 label: namespaces, containers, volumes, ports */
name_rule name_check_dns1035_label;  /* DNS-1035 label: services */
name_rule name_check_path_segment;   /* RBAC names; whatever goes into a URL */
name_rule name_check_data_key;       /* keys of ConfigMaps and Secrets */
name_rule name_check_qualified;      /* "name" or "prefix/name": keys of labels, finalizers, conditions */
name_rule name_check_annotation_key; /* the same whatever the case of the letters */
name_rule name_check_label_value;
name_rule name_check_env_var; /* names of environment variables */
name_rule name_check_port;    /* named ports */

/* The rule for a generateName: an ending '-' is fine, a suffix will follow. */
const char *name_check_prefix(name_rule *rule, const char *prefix);
