// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <features.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/stat.h>
#include <lmdb.h>
#include <sys/types.h>

// fcntl.h declares these functions only under _GNU_SOURCE, which a module cannot define.
extern int fallocate(int file, int mode, __off_t offset, __off_t length);
extern int statx(int folder, const char *path, int flags, unsigned int mask, struct statx *status);
extern int sync_file_range(int file, __off64_t offset, __off64_t length, unsigned int flags);
enum {
    MARTLET_O_DIRECT = __O_DIRECT,
    MARTLET_SYNC_FILE_RANGE_WAIT_BEFORE = 1,
    MARTLET_SYNC_FILE_RANGE_WRITE = 2,
    MARTLET_SYNC_FILE_RANGE_WAIT_AFTER = 4,
};
