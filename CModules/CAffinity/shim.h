// SPDX-License-Identifier: Apache-2.0
//
// The cores of a thread for Swift: glibc declares their functions only with _GNU_SOURCE, which would change types of
// other headers. The header contains no logic.
#pragma once
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

// Reads the cores of this thread, a bit each, into `byte_count` bytes. Returns the count of bytes, or -1.
static inline long martlet_get_cores(uint8_t *cores, unsigned long byte_count) {
    return syscall(SYS_sched_getaffinity, 0, byte_count, cores);
}

// Keeps this thread on some cores. Returns 0, or -1.
static inline long martlet_set_cores(const uint8_t *cores, unsigned long byte_count) {
    return syscall(SYS_sched_setaffinity, 0, byte_count, cores);
}
