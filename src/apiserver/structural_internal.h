/* Shared by the files of schema validation. */
#pragma once

#include "apiserver/structural.h"

bool structural_format_matches(const char *format, const char *text);
