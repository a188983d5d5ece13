// SPDX-License-Identifier: Apache-2.0
//
// The kernels for any CPU: pairs of words in the compiler's portable vectors, which become SSE2 on x86-64 and NEON
// on arm64. The tests compare the other levels with these kernels. Rests on BlockTemplate.h.

#include "CBitKernels.h"
#include "Levels.h"
#include <string.h>

typedef uint64_t pair __attribute__((vector_size(16)));

static inline pair load_pair(const uint64_t *p) {
    pair v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void store_pair(uint64_t *p, pair v) { memcpy(p, &v, sizeof v); }
static inline pair count_pair(pair v) {
    return (pair){(uint64_t)__builtin_popcountll(v[0]), (uint64_t)__builtin_popcountll(v[1])};
}

#define FN(name) scalar_##name
#define TARGET
#define V pair
#define LANES 2
#define PART_LANES 0
#define LOAD(p) load_pair(p)
#define STORE(p, v) store_pair(p, v)
#define LOAD_PART(p) load_pair(p)
#define STORE_PART(p, v) store_pair(p, v)
#define PART_ONLY(v) (v)
#define AND(a, b) ((a) & (b))
#define OR(a, b) ((a) | (b))
#define ANDNOT(a, b) ((a) & ~(b))
#define ZERO ((pair){0, 0})
#define ONES ((pair){~0ULL, ~0ULL})
#define LEAF(a, x, y) (((a) & (x)) ^ (y))
#define MUX(s, one, zero) ((((one) ^ (zero)) & (s)) ^ (zero))
#define COUNT_ADD(acc, v) ((acc) + count_pair(v))
#define COUNT_SUM(acc) ((uint32_t)((acc)[0] + (acc)[1]))

#include "BlockTemplate.h"

#define RUN_BYTES 16
// A factor is -1, 0 or 1 in 16 bits. Multiplying the halves of 32 bits keeps the signs.
#define SUM_PRODUCTS(a, b)                                                                        \
    (((run_sums)(a) << 16 >> 16) * ((run_sums)(b) << 16 >> 16) +                                  \
     ((run_sums)(a) >> 16) * ((run_sums)(b) >> 16))
#define EXCESS(a, b) __builtin_elementwise_sub_sat(a, b)

#include "RunTemplate.h"

#define LIST_BYTES 16

#include "ListTemplate.h"

static uint32_t scalar_compress(uint16_t *out, const uint64_t *a) {
    uint16_t *at = out;
    for (uint32_t w = 0; w < CBK_WORDS; w += 2) {
        if ((a[w] | a[w + 1]) == 0) continue;
        at = scalar_compress_word(at, a[w], w * 64);
        at = scalar_compress_word(at, a[w + 1], w * 64 + 64);
    }
    return (uint32_t)(at - out);
}

static uint32_t scalar_select(uint32_t *out, uint32_t capacity, const uint64_t *a,
                              const uint64_t *mine, const uint16_t *prefix,
                              const uint32_t *handles, uint32_t *word) {
    uint32_t n = 0, w = *word;
    for (; w < CBK_WORDS && n + 64 <= capacity; w++) {
        const uint64_t m = mine[w];
        uint64_t both = a[w] & m;
        while (both) {
            const uint64_t below = (both & -both) - 1;
            out[n++] = handles[prefix[w] + (uint32_t)__builtin_popcountll(m & below)];
            both &= both - 1;
        }
    }
    *word = w;
    return n;
}

const cbk_kernels cbk_scalar_kernels = CBK_KERNELS(CBK_SCALAR, scalar_, scalar_);

void cbk_scatter16(uint64_t *dst, const void *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint16_t p;
        memcpy(&p, (const char *)list + 2 * i, 2);
        dst[(p & 0x7FFF) >> 6] |= 1ULL << (p & 63);
    }
}

void cbk_scatter32(uint64_t *dst, const void *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t p;
        memcpy(&p, (const char *)list + 4 * i, 4);
        dst[(p & 0x7FFF) >> 6] |= 1ULL << (p & 63);
    }
}

void cbk_clear16(uint64_t *dst, const void *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint16_t p;
        memcpy(&p, (const char *)list + 2 * i, 2);
        dst[(p & 0x7FFF) >> 6] &= ~(1ULL << (p & 63));
    }
}

void cbk_clear32(uint64_t *dst, const void *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t p;
        memcpy(&p, (const char *)list + 4 * i, 4);
        dst[(p & 0x7FFF) >> 6] &= ~(1ULL << (p & 63));
    }
}

uint32_t cbk_lookup16(const uint64_t *words, const void *list, size_t count) {
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++) {
        uint16_t p;
        memcpy(&p, (const char *)list + 2 * i, 2);
        found += (uint32_t)(words[(p & 0x7FFF) >> 6] >> (p & 63)) & 1;
    }
    return found;
}

uint32_t cbk_lookup32(const uint64_t *words, const void *list, size_t count) {
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t p;
        memcpy(&p, (const char *)list + 4 * i, 4);
        found += (uint32_t)(words[(p & 0x7FFF) >> 6] >> (p & 63)) & 1;
    }
    return found;
}
