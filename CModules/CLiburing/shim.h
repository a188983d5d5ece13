// SPDX-License-Identifier: Apache-2.0
//
// liburing for Swift, plus what Swift's importer cannot see in it: the memory orderings of the two
// rings, which liburing spells as macros. No logic; README.md says why each wrapper exists.
#pragma once
#include <features.h>  // first: README.md says why
#include <liburing.h>
#include <sys/eventfd.h>

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
