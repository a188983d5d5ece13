// SPDX-License-Identifier: Apache-2.0
//
// Merges sorted lists of ordinals through a truth table. Which lists advance in a step is computed without a
// branch, because the branch would be unpredictable. A sentinel behind every list saves a check for the list's end.
// Rests on CBitKernels.h.

#include "CBitKernels.h"

__attribute__((always_inline)) static inline size_t merge_of(
    uint32_t *dst, const uint32_t *const *lists, const uint32_t k, uint32_t table) {
    const uint32_t *at[CBK_TRUTH_INPUTS_MAX];
    uint32_t head[CBK_TRUTH_INPUTS_MAX];
    for (uint32_t s = 0; s < k; s++) {
        at[s] = lists[s];
        head[s] = *at[s];
    }
    size_t found = 0;
    for (;;) {
        uint32_t lowest = head[0];
#pragma clang loop unroll(full)
        for (uint32_t s = 1; s < k; s++) lowest = head[s] < lowest ? head[s] : lowest;
        if (lowest == CBK_SENTINEL) return found;
        uint32_t index = 0;
#pragma clang loop unroll(full)
        for (uint32_t s = 0; s < k; s++) {
            const uint32_t is_here = head[s] == lowest;
            index |= is_here << s;
            at[s] += is_here;
            head[s] = *at[s];
        }
        if (dst) dst[found] = lowest;
        found += table >> index & 1;
    }
}

#define MERGE(k)                                                                                  \
    case k: return dst ? merge_of(dst, lists, k, table) : merge_of(NULL, lists, k, table);

size_t cbk_merge(uint32_t *dst, const uint32_t *const *lists, uint32_t k, uint32_t table) {
    switch (k) {
        MERGE(1)
        MERGE(2)
        MERGE(3)
        MERGE(4)
        MERGE(5)
    default: __builtin_trap();
    }
}
