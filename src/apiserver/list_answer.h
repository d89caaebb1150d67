/*
 * The text of a list, in the form the client asked for. A long one is made and sent slice by slice, as the client takes
 * it, from the one snapshot it was given: the loop does other things in between, and no more than a slice of it is in
 * memory as text.
 */
#pragma once

#include "apiserver/exchange.h"

/* Such a list is not indented, whatever the client asks for: it is for programs. */
bool list_is_long(const struct exchange *x);
/* The whole text. *encoding becomes JSON when an item cannot be encoded as wanted. */
void list_write(const struct exchange *x, enum answer_encoding *encoding, struct strbuf *out);
/* Answers with the list; takes x. Headers have been added. */
void list_answer(struct exchange *x);
