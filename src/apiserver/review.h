/*
 * Questions that are answered and not stored: may I (SelfSubjectAccessReview and its relatives), who am I
 * (SelfSubjectReview), whose token is this (TokenReview).
 */
#pragma once

#include "apiserver/server_internal.h"

/* Handles a create of c->resource, which is not stored. */
void review_execute(struct api_call *c);
