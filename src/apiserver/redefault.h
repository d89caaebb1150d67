/*
 * Objects of custom kinds that were stored before their definition had some default are given it, so that readers never
 * miss it. A few hundred at a time, when a definition has changed and when the server starts; objects that lack
 * nothing are not written.
 */
#pragma once

#include "apiserver/server_internal.h"

struct redefaults;
/* Begins with the definitions that are in the store. */
struct redefaults *redefaults_new(struct apiserver *s);
void redefaults_free(struct redefaults *d);
/* A definition has changed. */
void redefaults_check(struct redefaults *d, const struct json *crd);
