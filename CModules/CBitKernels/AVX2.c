// SPDX-License-Identifier: Apache-2.0
//
// The kernels for AVX2 with BMI2 and POPCNT (Haswell, Zen and later). Population counts use the nibble table in a
// shuffle, summed by sad. Rests on BlockTemplate.h.

#if defined(__x86_64__)
#include "CBitKernels.h"
#include "Levels.h"
#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))

TARGET __attribute__((always_inline)) static inline __m256i part_mask(void) {
    return _mm256_set_epi64x(0, 0, -1, -1);
}

TARGET __attribute__((always_inline)) static inline __m256i count_add(__m256i acc, __m256i v) {
    const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1,
                                           2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    const __m256i low = _mm256_set1_epi8(15);
    const __m256i a = _mm256_shuffle_epi8(table, _mm256_and_si256(v, low));
    const __m256i b = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(v, 4), low));
    return _mm256_add_epi64(acc, _mm256_sad_epu8(_mm256_add_epi8(a, b), _mm256_setzero_si256()));
}

TARGET __attribute__((always_inline)) static inline uint32_t count_sum(__m256i acc) {
    return (uint32_t)(_mm256_extract_epi64(acc, 0) + _mm256_extract_epi64(acc, 1) +
                      _mm256_extract_epi64(acc, 2) + _mm256_extract_epi64(acc, 3));
}

#define FN(name) avx2_##name
#define V __m256i
#define LANES 4
#define PART_LANES 2
#define LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define STORE(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define LOAD_PART(p) _mm256_maskload_epi64((const long long *)(p), part_mask())
#define STORE_PART(p, v) _mm256_maskstore_epi64((long long *)(p), part_mask(), v)
#define PART_ONLY(v) _mm256_and_si256(v, part_mask())
#define AND(a, b) _mm256_and_si256(a, b)
#define OR(a, b) _mm256_or_si256(a, b)
#define ANDNOT(a, b) _mm256_andnot_si256(b, a)
#define ZERO _mm256_setzero_si256()
#define ONES _mm256_set1_epi64x(-1)
#define LEAF(a, x, y) _mm256_xor_si256(_mm256_and_si256(a, x), y)
#define MUX(s, one, zero) \
    _mm256_xor_si256(_mm256_and_si256(_mm256_xor_si256(one, zero), s), zero)
#define COUNT_ADD(acc, v) count_add(acc, v)
#define COUNT_SUM(acc) count_sum(acc)

#include "BlockTemplate.h"

#define RUN_BYTES 32
#define SUM_PRODUCTS(a, b) ((run_sums)_mm256_madd_epi16((__m256i)(a), (__m256i)(b)))
#define EXCESS(a, b) _mm256_subs_epu16((__m256i)(a), (__m256i)(b))

#include "RunTemplate.h"

#define LIST_BYTES 32

#include "ListTemplate.h"

/// Up to this many bits in a block (3 % of 32,640), zero words are skipped four at a time and the bits of the other
/// words are taken one by one. With more bits, every byte of a nonzero word goes through the table.
#define SPARSE_BITS_MAX 1000

TARGET static uint32_t avx2_compress(uint16_t *out, const uint64_t *a) {
    uint16_t *at = out;
    if (avx2_popcount(a) <= SPARSE_BITS_MAX) {
        for (uint32_t w = 0; w < 508; w += 4) {
            const __m256i v = LOAD(a + w);
            if (_mm256_testz_si256(v, v)) continue;
            for (uint32_t i = w; i < w + 4; i++) at = avx2_compress_word(at, a[i], i * 64);
        }
        at = avx2_compress_word(at, a[508], 508 * 64);
        at = avx2_compress_word(at, a[509], 509 * 64);
        return (uint32_t)(at - out);
    }
    for (uint32_t w = 0; w < CBK_WORDS; w++) {
        uint64_t bits = a[w];
        if (bits == 0) continue;
        __m128i base = _mm_set1_epi16((short)(w * 64));
        const __m128i eight = _mm_set1_epi16(8);
        for (int i = 0; i < 8; i++) {
            const uint32_t byte = (uint32_t)(bits & 255);
            const __m128i at8 = _mm_loadl_epi64((const __m128i *)&cbk_byte_positions[byte]);
            _mm_storeu_si128((__m128i *)at, _mm_add_epi16(_mm_cvtepu8_epi16(at8), base));
            at += _mm_popcnt_u32(byte);
            base = _mm_add_epi16(base, eight);
            bits >>= 8;
        }
    }
    return (uint32_t)(at - out);
}

TARGET static uint32_t avx2_select(uint32_t *out, uint32_t capacity, const uint64_t *a,
                                   const uint64_t *mine, const uint16_t *prefix,
                                   const uint32_t *handles, uint32_t *word) {
    uint32_t n = 0, w = *word;
    while (w < CBK_WORDS && n + 64 <= capacity) {
        if ((w & 3) == 0 && w < 508) {
            if (_mm256_testz_si256(LOAD(a + w), LOAD(mine + w))) {
                w += 4;
                continue;
            }
        }
        const uint64_t m = mine[w], both = a[w] & m;
        if (both) {
            const uint32_t *from = handles + prefix[w];
            // Bit i of the extract is set if the i-th bit of `mine` in the word is also set in `a`.
            uint64_t ranks = _pext_u64(both, m);
            while (ranks) {
                out[n++] = from[_tzcnt_u64(ranks)];
                ranks &= ranks - 1;
            }
        }
        w++;
    }
    *word = w;
    return n;
}

const cbk_kernels cbk_avx2_kernels = CBK_KERNELS(CBK_AVX2, avx2_, avx2_);
#endif
