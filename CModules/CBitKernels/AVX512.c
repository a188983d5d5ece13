// SPDX-License-Identifier: Apache-2.0
//
// The kernels for AVX-512 with VBMI2 and VPOPCNTDQ (Ice Lake, Zen 4 and later). Every node of the truth table's
// tree is one ternary logic instruction. Compression writes a register, and a store follows, because compressing to
// memory is some 25 times slower on Zen 4. Rests on BlockTemplate.h.

#if defined(__x86_64__)
#include "CBitKernels.h"
#include "Levels.h"
#include <immintrin.h>
#include <string.h>

#define TARGET                                                                                    \
    __attribute__((target(                                                                        \
        "avx2,bmi,bmi2,popcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,avx512vpopcntdq"),   \
                   min_vector_width(512)))

#define FN(name) avx512_##name
#define V __m512i
#define LANES 8
#define PART_LANES 6
#define LOAD(p) _mm512_loadu_si512(p)
#define STORE(p, v) _mm512_storeu_si512(p, v)
#define LOAD_PART(p) _mm512_maskz_loadu_epi64(0x3F, p)
#define STORE_PART(p, v) _mm512_mask_storeu_epi64(p, 0x3F, v)
#define PART_ONLY(v) _mm512_maskz_mov_epi64(0x3F, v)
#define AND(a, b) _mm512_and_si512(a, b)
#define OR(a, b) _mm512_or_si512(a, b)
#define ANDNOT(a, b) _mm512_andnot_si512(b, a)
#define ZERO _mm512_setzero_si512()
#define ONES _mm512_set1_epi64(-1)
// Bit 4a + 2b + c of the immediate is the result: (a & b) ^ c, and a ? b : c.
#define LEAF(a, x, y) _mm512_ternarylogic_epi64(a, x, y, 0x6A)
#define MUX(s, one, zero) _mm512_ternarylogic_epi64(s, one, zero, 0xCA)
#define COUNT_ADD(acc, v) _mm512_add_epi64(acc, _mm512_popcnt_epi64(v))
#define COUNT_SUM(acc) ((uint32_t)_mm512_reduce_add_epi64(acc))

#include "BlockTemplate.h"

/// Up to this many bits in a block only nonzero words are visited, at up to 4 ns per bit if the bits are random.
/// Sending every word through the compression takes 520 ns (Zen 5).
#define SPARSE_BITS_MAX 200

TARGET static uint32_t avx512_compress(uint16_t *out, const uint64_t *a) {
    uint16_t *at = out;
    if (avx512_popcount(a) <= SPARSE_BITS_MAX) {
        for (uint32_t w = 0; w < CBK_WORDS; w += 8) {
            const __m512i v = w < 504 ? LOAD(a + w) : LOAD_PART(a + w);
            uint32_t some = _mm512_test_epi64_mask(v, v);
            while (some) {
                const uint32_t i = w + (uint32_t)__builtin_ctz(some);
                at = avx512_compress_word(at, a[i], i * 64);
                some &= some - 1;
            }
        }
        return (uint32_t)(at - out);
    }
    const __m512i first = _mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18,
                                           17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2,
                                           1, 0);
    for (uint32_t w = 0; w < CBK_WORDS; w++) {
        const uint64_t bits = a[w];
        const uint32_t low = (uint32_t)bits, high = (uint32_t)(bits >> 32);
        const __m512i base = _mm512_add_epi16(first, _mm512_set1_epi16((short)(w * 64)));
        const __m512i next = _mm512_add_epi16(base, _mm512_set1_epi16(32));
        STORE(at, _mm512_maskz_compress_epi16(low, base));
        at += _mm_popcnt_u32(low);
        STORE(at, _mm512_maskz_compress_epi16(high, next));
        at += _mm_popcnt_u32(high);
    }
    return (uint32_t)(at - out);
}

TARGET static uint32_t avx512_select(uint32_t *out, uint32_t capacity, const uint64_t *a,
                                     const uint64_t *mine, const uint16_t *prefix,
                                     const uint32_t *handles, uint32_t *word) {
    uint32_t n = 0, w = *word;
    while (w < CBK_WORDS && n + 64 <= capacity) {
        // Find the words of the group, from w on, in which both sets have common bits.
        const uint32_t group = w & ~7u;
        const __m512i v = group < 504 ? LOAD(a + group) : LOAD_PART(a + group);
        const __m512i m = group < 504 ? LOAD(mine + group) : LOAD_PART(mine + group);
        uint32_t some = _mm512_test_epi64_mask(v, m) & (0xFFu << (w & 7)) & 0xFF;
        while (some && n + 64 <= capacity) {
            const uint32_t i = group + (uint32_t)__builtin_ctz(some);
            const uint32_t *from = handles + prefix[i];
            const uint64_t bits = mine[i];
            uint64_t ranks = _pext_u64(a[i] & bits, bits);
            int32_t left = (int32_t)_mm_popcnt_u64(bits);
            // A step processes sixteen handles, and most words take one step. No branch depends on the number of
            // wanted handles. The stores for a word stay within 64 places, and the loop condition guarantees room
            // for 64.
            for (;;) {
                const __mmask16 have = (__mmask16)_bzhi_u32(0xFFFF, (uint32_t)left);
                const __m512i some16 = _mm512_maskz_loadu_epi32(have, from);
                STORE(out + n, _mm512_maskz_compress_epi32((__mmask16)ranks, some16));
                n += (uint32_t)_mm_popcnt_u32((uint32_t)ranks & 0xFFFF);
                ranks >>= 16;
                if (ranks == 0) break;
                from += 16;
                left -= 16;
            }
            some &= some - 1;
        }
        w = some ? group + (uint32_t)__builtin_ctz(some) : group + 8;
    }
    *word = w < CBK_WORDS ? w : CBK_WORDS;
    return n;
}

const cbk_kernels cbk_avx512_kernels = CBK_KERNELS(CBK_AVX512, avx512_, avx2_);
#endif
