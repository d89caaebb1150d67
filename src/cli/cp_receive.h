/*
 * The receiving side of `holt cp SANDBOX:PATH PATH`. The archive comes from the sandbox and may hold anything: the
 * confined helper unpacks it into a fresh directory beside the destination, without links, devices and set-id bits, and
 * only the one name that was asked for is moved from there to its place. Nothing is written through a link that lies in
 * the destination, and nothing beside it is touched.
 */
#pragma once

#include "base/error.h"

struct cp_receive {
    int archive;        /* read to its end */
    const char *dir;    /* where to put it: an existing directory */
    const char *name;   /* its name there */
    const char *wanted; /* its name in the archive; "." = all of it */
};

/* Blocks until the archive has ended. Prints on stderr what was left out. */
int cp_receive(const struct cp_receive *r, struct error *err);
