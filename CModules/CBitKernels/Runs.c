// SPDX-License-Identifier: Apache-2.0
//
// Converts the runs of one block to a bitmap and back, and checks a span. Stored toggles may be damaged: no bit
// past 32,640 is written, and every count is checked. Rests on CBitKernels.h.

#include "CBitKernels.h"
#include <string.h>

#define BITS (CBK_WORDS * 64)

const uint16_t cbk_empty_span[CBK_SPAN_BLOCKS + 16] = {0};

int cbk_span_is_sound(const void *span, size_t bytes) {
    if (bytes < CBK_SPAN_BLOCKS * 2 + CBK_SPAN_SLACK) return 0;
    uint32_t from = 0, faults = 0;
    for (uint32_t i = 0; i < CBK_SPAN_BLOCKS; i++) {
        uint16_t end;
        memcpy(&end, (const unsigned char *)span + 2 * i, 2);
        // An end before its begin becomes a large number.
        faults |= ((uint32_t)end - from) > CBK_BLOCK_TOGGLES_MAX;
        faults |= end & 1;
        from = end;
    }
    return faults == 0 && bytes == CBK_SPAN_BLOCKS * 2 + 2 * (size_t)from + CBK_SPAN_SLACK;
}

__attribute__((always_inline)) static inline void change_runs(
    uint64_t *dst, const uint16_t *toggles, size_t count, const int setting) {
    for (size_t i = 0; i + 1 < count; i += 2) {
        uint16_t first, end;
        memcpy(&first, toggles + i, 2);
        memcpy(&end, toggles + i + 1, 2);
        if (end > BITS) end = BITS;
        if (first >= end) continue;
        const uint32_t low = first >> 6, high = (uint32_t)(end - 1) >> 6;
        const uint64_t from = ~0ull << (first & 63), to = ~0ull >> (63 - ((end - 1) & 63));
        if (low == high) {
            dst[low] = setting ? dst[low] | (from & to) : dst[low] & ~(from & to);
            continue;
        }
        dst[low] = setting ? dst[low] | from : dst[low] & ~from;
        for (uint32_t w = low + 1; w < high; w++) dst[w] = setting ? ~0ull : 0;
        dst[high] = setting ? dst[high] | to : dst[high] & ~to;
    }
}

void cbk_set_runs(uint64_t *dst, const uint16_t *toggles, size_t count) {
    change_runs(dst, toggles, count, 1);
}

void cbk_clear_runs(uint64_t *dst, const uint16_t *toggles, size_t count) {
    change_runs(dst, toggles, count, 0);
}

uint32_t cbk_toggles(uint16_t *out, uint32_t capacity, const uint64_t *words) {
    uint32_t n = 0;
    uint64_t carry = 0;
    for (uint32_t w = 0; w < CBK_WORDS; w++) {
        const uint64_t word = words[w];
        // The bits that differ from the bit below.
        uint64_t changes = word ^ (word << 1 | carry);
        carry = word >> 63;
        while (changes) {
            if (n == capacity) return CBK_TOO_MANY;
            out[n++] = (uint16_t)(w * 64 + (uint32_t)__builtin_ctzll(changes));
            changes &= changes - 1;
        }
    }
    if (carry) {
        if (n == capacity) return CBK_TOO_MANY;
        out[n++] = BITS;
    }
    return n;
}
