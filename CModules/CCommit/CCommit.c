// SPDX-License-Identifier: Apache-2.0
//
// Of all files this one alone knows the commit, so a new commit compiles no other file anew. The Makefile puts the commit
// into the environment, and Package.swift defines it here.

#include "CCommit.h"

#define TEXT_OF(words) #words
#define TEXT(words) TEXT_OF(words)

#ifdef BUILD_COMMIT
const char *martlet_commit(void) { return TEXT(BUILD_COMMIT); }
#else
const char *martlet_commit(void) { return ""; }
#endif
