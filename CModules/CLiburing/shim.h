// SPDX-License-Identifier: Apache-2.0
//
// liburing for Swift, with the parts that Swift's importer cannot see: the memory orderings of the two rings, which
// liburing defines as macros, and two system calls that C libraries have no functions for. The header contains no
// logic; README.md gives the reason for each wrapper.
#pragma once
#include <features.h>  // first; see README.md
#include <liburing.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline uint32_t martlet_load_acquire_u32(const uint32_t *word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void martlet_store_release_u32(uint32_t *word, uint32_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline void martlet_store_release_u16(uint16_t *word, uint16_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline uint32_t martlet_load_relaxed_u32(const uint32_t *word) {
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

// The kernel's struct sched_attr in its first size (Source: include/uapi/linux/sched/types.h).
struct martlet_scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static inline long martlet_get_scheduling(struct martlet_scheduling *scheduling) {
    return syscall(SYS_sched_getattr, 0, scheduling, sizeof *scheduling, 0);
}

static inline long martlet_set_scheduling(struct martlet_scheduling *scheduling) {
    return syscall(SYS_sched_setattr, 0, scheduling, 0);
}
