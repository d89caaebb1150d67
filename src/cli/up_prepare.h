/* What `holt up` sees to before it starts anything: locks, the address, the user, directories, keys, kubeconfigs. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <sys/types.h>

#define UP_DEFAULT_USER "holt"

/* The options (borrowed) and what follows from them. */
struct up_config {
    const char *data_dir, *run_dir, *listen, *kubeconfig, *durability, *node_name, *user, *secrets_keys;
    const char *audit_log, *audit_policy;
    char **host_paths;
    bool dir_images;
    uid_t uid; /* of the user for control and egress; 0 = they stay root */
    gid_t gid;
    char *admin_config, *server; /* owned: where the admin's kubeconfig is, "https://127.0.0.1:6443" */
};

/* A descriptor that holds the lock. option names it in the error of one that is held. */
int up_lock_dir(const char *option, const char *path, mode_t mode, struct error *err);
int up_check_listen(const char *listen, struct error *err);
int up_check_free(const char *listen, struct error *err);
char *up_node_name(void);
int up_find_user(struct up_config *o, struct error *err);
/* Keys and kubeconfigs; *ret_node_config is the path of the node's, the caller's to free. */
int up_prepare(struct up_config *o, char **ret_node_config, struct error *err);
