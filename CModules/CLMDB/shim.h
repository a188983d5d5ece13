// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <features.h>
#include <linux/falloc.h>
#include <lmdb.h>
#include <sys/types.h>

// fcntl.h has it under _GNU_SOURCE alone, which a module cannot ask for.
extern int fallocate(int file, int mode, __off_t offset, __off_t length);
