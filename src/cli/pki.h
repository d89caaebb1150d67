/*
 * Keys of an installation: a CA, the API server's certificate, and client certificates in kubeconfig files. Made once
 * under <data>/pki (0700), kept, and renewed when they are about to expire.
 */
#pragma once

#include "base/error.h"

struct pki_paths {
    char *dir;
    char *ca_cert, *ca_key;
    char *server_cert, *server_key;
};

/* Makes what is missing. listen_host goes into the server certificate's names beside the loopback addresses. */
int pki_prepare(const char *data_dir, const char *listen_host, struct pki_paths *ret, struct error *err);
/* Where the keys of data_dir are, if there are any. */
struct pki_paths pki_paths_of(const char *data_dir);
void pki_paths_free(struct pki_paths *p);

/* A kubeconfig with a fresh client certificate for user in groups (NULL-terminated, may be NULL), as text that the
 * caller erases and frees. server: "https://127.0.0.1:6443". */
int pki_kubeconfig(const struct pki_paths *pki, const char *server, const char *user, const char *const *groups,
                   int64_t valid_seconds, char **ret, struct error *err);
/* Writes one (0600) that is good for a year. */
int pki_write_kubeconfig(const struct pki_paths *pki, const char *server, const char *user, const char *const *groups,
                         const char *path, struct error *err);
