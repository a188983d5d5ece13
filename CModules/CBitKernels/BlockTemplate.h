// SPDX-License-Identifier: Apache-2.0
//
// The kernels that differ between levels only in the width of a vector. A level defines
//   FN(name)  TARGET  V  LANES  PART_LANES
//   LOAD(p) STORE(p, v)  LOAD_PART(p) STORE_PART(p, v)   (of PART_LANES words only)
//   AND(a, b) OR(a, b) ANDNOT(a, b) = a & ~b  ONES ZERO
//   LEAF(a, x, y) = (a & x) ^ y       MUX(s, one, zero) = s ? one : zero, bit by bit
//   COUNT_ADD(acc, v) COUNT_SUM(acc)  (population count, gathered in a V)
// and includes the template.
//
// A block is not a whole number of vectors, so the odd words are taken first. A block in LMDB's map begins 16 bytes
// behind the begin of a page; after the first 6 words (AVX2: 2) every vector is one cache line instead of halves of
// two (two sets of 10 M: 38 → 31 us).
//
// A truth table of k inputs is evaluated by Shannon expansion. For each of the 2^(k-1) assignments of inputs
// 1...k-1 the table leaves a function of input 0 alone: 0, a, ~a or 1. Each such function is (a & x) ^ y with two
// constant vectors. A tree of multiplexers then selects by the other inputs. No word causes a branch, any table
// costs the same, and with ternary logic (AVX-512) the tree of 5 inputs is 31 instructions for 512 bits. Rests on
// CBitKernels.h.

#define INLINE TARGET __attribute__((always_inline)) static inline
#define BINARY(name, OP)                                                                          \
    TARGET static void FN(name)(uint64_t *dst, const uint64_t *a, const uint64_t *b) {            \
        if (PART_LANES) STORE_PART(dst, OP(LOAD_PART(a), LOAD_PART(b)));                          \
        for (size_t i = PART_LANES; i < CBK_WORDS; i += LANES)                                    \
            STORE(dst + i, OP(LOAD(a + i), LOAD(b + i)));                                         \
    }

#define BINARY_COUNT(name, OP)                                                                    \
    TARGET static uint32_t FN(name)(const uint64_t *a, const uint64_t *b) {                       \
        V acc = ZERO;                                                                             \
        if (PART_LANES) acc = COUNT_ADD(acc, OP(LOAD_PART(a), LOAD_PART(b)));                     \
        for (size_t i = PART_LANES; i < CBK_WORDS; i += LANES)                                    \
            acc = COUNT_ADD(acc, OP(LOAD(a + i), LOAD(b + i)));                                   \
        return COUNT_SUM(acc);                                                                    \
    }

BINARY(and_, AND)
BINARY(or_, OR)
BINARY(andnot, ANDNOT)
BINARY_COUNT(and_popcount, AND)
BINARY_COUNT(andnot_popcount, ANDNOT)

TARGET static uint32_t FN(popcount)(const uint64_t *a) {
    V acc = ZERO;
    if (PART_LANES) acc = COUNT_ADD(acc, LOAD_PART(a));
    for (size_t i = PART_LANES; i < CBK_WORDS; i += LANES) acc = COUNT_ADD(acc, LOAD(a + i));
    return COUNT_SUM(acc);
}

/// One vector of the result. `k` is a constant after inlining, so the loops unroll.
INLINE V FN(truth_step)(const V *in, const V *x, const V *y, const uint32_t k) {
    V node[16];
#pragma clang loop unroll(full)
    for (uint32_t i = 0; i < (1u << (k - 1)); i++) node[i] = LEAF(in[0], x[i], y[i]);
#pragma clang loop unroll(full)
    for (uint32_t s = 1; s < k; s++) {
#pragma clang loop unroll(full)
        for (uint32_t i = 0; i < (1u << (k - 1 - s)); i++)
            node[i] = MUX(in[s], node[2 * i + 1], node[2 * i]);
    }
    return node[0];
}

INLINE uint32_t FN(truth_of)(uint64_t *dst, const uint64_t *const *inputs, const uint32_t k,
                             uint32_t table, const int storing) {
    V x[16], y[16], in[5];
    for (uint32_t i = 0; i < (1u << (k - 1)); i++) {
        const uint32_t zero = (table >> (2 * i)) & 1, one = (table >> (2 * i + 1)) & 1;
        x[i] = (zero ^ one) ? ONES : ZERO;
        y[i] = zero ? ONES : ZERO;
    }
    const uint64_t *base[5];
    for (uint32_t s = 0; s < k; s++) base[s] = inputs[s];
    V acc = ZERO;
    if (PART_LANES) {
#pragma clang loop unroll(full)
        for (uint32_t s = 0; s < k; s++) in[s] = LOAD_PART(base[s]);
        const V r = PART_ONLY(FN(truth_step)(in, x, y, k));
        if (storing) STORE_PART(dst, r);
        acc = COUNT_ADD(acc, r);
    }
    for (size_t i = PART_LANES; i < CBK_WORDS; i += LANES) {
#pragma clang loop unroll(full)
        for (uint32_t s = 0; s < k; s++) in[s] = LOAD(base[s] + i);
        const V r = FN(truth_step)(in, x, y, k);
        if (storing) STORE(dst + i, r);
        acc = COUNT_ADD(acc, r);
    }
    return COUNT_SUM(acc);
}

#define TRUTH(k)                                                                                  \
    TARGET __attribute__((noinline)) static uint32_t FN(truth_store_##k)(                         \
        uint64_t *dst, const uint64_t *const *inputs, uint32_t table) {                           \
        return FN(truth_of)(dst, inputs, k, table, 1);                                            \
    }                                                                                             \
    TARGET __attribute__((noinline)) static uint32_t FN(truth_count_##k)(                         \
        const uint64_t *const *inputs, uint32_t table) {                                          \
        return FN(truth_of)(NULL, inputs, k, table, 0);                                           \
    }
TRUTH(1)
TRUTH(2)
TRUTH(3)
TRUTH(4)
TRUTH(5)

static uint32_t FN(truth)(uint64_t *dst, const uint64_t *const *inputs, uint32_t k,
                          uint32_t table) {
    if (k == 2 && !dst) {
        // The most frequent counts of two sets need no table.
        switch (table) {
        case 0x8: return FN(and_popcount)(inputs[0], inputs[1]);
        case 0x2: return FN(andnot_popcount)(inputs[0], inputs[1]);
        case 0x4: return FN(andnot_popcount)(inputs[1], inputs[0]);
        default: break;
        }
    }
    switch (k) {
    case 1: return dst ? FN(truth_store_1)(dst, inputs, table) : FN(truth_count_1)(inputs, table);
    case 2: return dst ? FN(truth_store_2)(dst, inputs, table) : FN(truth_count_2)(inputs, table);
    case 3: return dst ? FN(truth_store_3)(dst, inputs, table) : FN(truth_count_3)(inputs, table);
    case 4: return dst ? FN(truth_store_4)(dst, inputs, table) : FN(truth_count_4)(inputs, table);
    case 5: return dst ? FN(truth_store_5)(dst, inputs, table) : FN(truth_count_5)(inputs, table);
    default: __builtin_trap();
    }
}

/// Writes the positions of one word's set bits, counted from `base`; for sparse words.
INLINE uint16_t *FN(compress_word)(uint16_t *out, uint64_t w, uint32_t base) {
    while (w) {
        *out++ = (uint16_t)(base + (uint32_t)__builtin_ctzll(w));
        w &= w - 1;
    }
    return out;
}

#undef INLINE
#undef BINARY
#undef BINARY_COUNT
#undef TRUTH
