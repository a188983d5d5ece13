// SPDX-License-Identifier: Apache-2.0
//
// Counts over spans of runs (drawn in CBitKernels.h), for the levels whose file includes the template. A level
// defines
//   FN(name)  TARGET
//   RUN_BYTES            bytes of a vector, 16 or 32
//   SUM_PRODUCTS(a, b)   lane by lane a × b of int16, neighbours added to int32
//   EXCESS(a, b)         lane by lane max(a - b, 0) of uint16
// All other operations use the compiler's portable vectors.
//
// The lists of toggles are not merged, because a merge decides at every element which list advances: a chain of
// dependent loads, or an unpredictable branch (2.3 ns per element and list). Instead, each toggle is examined by
// itself. The result's count is the sum over the result's toggles, ends positive and begins negative. A toggle at x
// of slot s is a toggle of the result exactly if the truth table has different values for the states right before
// and right after x. The state of another slot at x is the parity of its toggles up to x, computed by comparing x
// with each of these toggles: a vector of toggles of s against one toggle of the other slot. Where two slots toggle
// at one x, the lower slot counts as first, so that the steps of the table add up.
//
// The number of comparisons is quadratic in the toggles of a block, so a block of a span has at most
// CBK_BLOCK_TOGGLES_MAX toggles. Rests on CBitKernels.h.

#define RUN_INLINE TARGET __attribute__((always_inline)) static inline

typedef int16_t run_lanes __attribute__((vector_size(RUN_BYTES)));
typedef uint16_t run_bits __attribute__((vector_size(RUN_BYTES)));
typedef int32_t run_sums __attribute__((vector_size(RUN_BYTES)));
typedef uint32_t run_pairs __attribute__((vector_size(RUN_BYTES)));

#define RUN_LANES (RUN_BYTES / 2)

RUN_INLINE run_lanes FN(load_toggles)(const uint16_t *p) {
    run_lanes v;
    memcpy(&v, p, sizeof v);
    return v;
}

RUN_INLINE run_lanes FN(same)(uint32_t value) { return (run_lanes){0} + (int16_t)value; }

RUN_INLINE run_lanes FN(lane_numbers)(void) {
    const int16_t numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    run_lanes v;
    memcpy(&v, numbers, sizeof v);
    return v;
}

/// Ones in the lanes of ends; begins and ends alternate.
RUN_INLINE run_lanes FN(end_lanes)(void) { return -(FN(lane_numbers)() & 1); }

/// Ones in the first `count` lanes.
RUN_INLINE run_lanes FN(first_lanes)(uint32_t count) {
    return (run_lanes)(FN(lane_numbers)() < FN(same)(count < RUN_LANES ? count : RUN_LANES));
}

RUN_INLINE uint32_t FN(sum_of)(run_sums v) {
    int32_t sum = 0;
    for (uint32_t i = 0; i < RUN_LANES / 2; i++) sum += v[i];
    return (uint32_t)sum;
}

TARGET static uint32_t FN(span_count)(const void *span) {
    const uint16_t *ends = span, *toggles = ends + CBK_SPAN_BLOCKS;
    const run_lanes sign = -(2 * FN(end_lanes)() + 1);
    const uint32_t count = ends[CBK_SPAN_BLOCKS - 1];
    run_sums sums = {0};
    for (uint32_t i = 0; i < count; i += RUN_LANES) {
        const run_lanes x = FN(load_toggles)(toggles + i);
        sums += SUM_PRODUCTS(x, sign & FN(first_lanes)(count - i));
    }
    return FN(sum_of)(sums);
}

/// Compares every run of `a` with a vector of runs of `b`. The intersection of two runs reaches from the higher
/// begin to the lower end.
TARGET static uint32_t FN(spans_common)(const void *a, const void *b) {
    const uint16_t *a_ends = a, *b_ends = b;
    const uint16_t *a_toggles = a_ends + CBK_SPAN_BLOCKS, *b_toggles = b_ends + CBK_SPAN_BLOCKS;
    run_pairs sums = {0};
    uint32_t a_from = 0, b_from = 0;
    for (uint32_t block = 0; block < CBK_SPAN_BLOCKS; block++) {
        const uint32_t a_end = a_ends[block], b_end = b_ends[block];
        for (uint32_t at = b_from; at < b_end; at += RUN_LANES) {
            const run_lanes x =
                FN(load_toggles)(b_toggles + at) & FN(first_lanes)(b_end - at);
            for (uint32_t i = a_from; i < a_end; i += 2) {
                uint32_t run;
                memcpy(&run, a_toggles + i, sizeof run);
                const run_lanes y = (run_lanes)((run_pairs){0} + run);
                const run_lanes low = __builtin_elementwise_min(x, y);
                const run_lanes high = __builtin_elementwise_max(x, y);
                // Move the lower end to the half of the higher begin. The other half becomes zero.
                const run_bits end = (run_bits)((run_pairs)low >> 16);
                sums += (run_pairs)EXCESS(end, (run_bits)high);
            }
        }
        a_from = a_end;
        b_from = b_end;
    }
    return FN(sum_of)((run_sums)sums);
}

/// The table's value in every lane. `k` is a constant after inlining, so the loops unroll.
RUN_INLINE run_lanes FN(run_step)(const run_lanes *in, const run_lanes *x, const run_lanes *y,
                                  const uint32_t k) {
    run_lanes node[16];
#pragma clang loop unroll(full)
    for (uint32_t i = 0; i < (1u << (k - 1)); i++) node[i] = (in[0] & x[i]) ^ y[i];
#pragma clang loop unroll(full)
    for (uint32_t s = 1; s < k; s++) {
#pragma clang loop unroll(full)
        for (uint32_t i = 0; i < (1u << (k - 1 - s)); i++)
            node[i] = ((node[2 * i + 1] ^ node[2 * i]) & in[s]) ^ node[2 * i];
    }
    return node[0];
}

/// Counts `k` slots. The first five go through the table; a sixth bounds the result.
RUN_INLINE uint32_t FN(spans_of)(const void *const *spans, const uint32_t k, uint32_t table) {
    const uint32_t inputs = k < CBK_TRUTH_INPUTS_MAX ? k : CBK_TRUTH_INPUTS_MAX;
    const run_lanes inside = FN(end_lanes)();
    run_lanes x[16], y[16];
    for (uint32_t i = 0; i < (1u << (inputs - 1)); i++) {
        const uint32_t zero = (table >> (2 * i)) & 1, one = (table >> (2 * i + 1)) & 1;
        x[i] = FN(same)((zero ^ one) ? 0xFFFF : 0);
        y[i] = FN(same)(zero ? 0xFFFF : 0);
    }
    run_sums sums = {0};
    uint32_t from[CBK_SPAN_INPUTS_MAX] = {0};
    for (uint32_t block = 0; block < CBK_SPAN_BLOCKS; block++) {
        const uint16_t *toggles[CBK_SPAN_INPUTS_MAX];
        uint32_t count[CBK_SPAN_INPUTS_MAX];
        for (uint32_t s = 0; s < k; s++) {
            const uint16_t *ends = spans[s];
            toggles[s] = ends + CBK_SPAN_BLOCKS + from[s];
            count[s] = ends[block] - from[s];
            from[s] = ends[block];
        }
#pragma clang loop unroll(full)
        for (uint32_t s = 0; s < k; s++) {
            for (uint32_t at = 0; at < count[s]; at += RUN_LANES) {
                const run_lanes own = FN(load_toggles)(toggles[s] + at);
                run_lanes in[CBK_SPAN_INPUTS_MAX];
#pragma clang loop unroll(full)
                for (uint32_t o = 0; o < k; o++) {
                    if (o == s) continue;
                    // A block's number of toggles is even, so the toggles behind x have the parity of the toggles
                    // up to x.
                    run_lanes state = FN(same)(0);
                    if (o < s)
                        for (uint32_t i = 0; i < count[o]; i++)
                            state ^= (run_lanes)(FN(same)(toggles[o][i]) > own);
                    else
                        for (uint32_t i = 0; i < count[o]; i++)
                            state ^= (run_lanes)(own > FN(same)(toggles[o][i]));
                    in[o] = state;
                }
                in[s] = inside;
                run_lanes before = FN(run_step)(in, x, y, inputs);
                if (k > inputs) before &= in[inputs];
                in[s] = ~inside;
                run_lanes after = FN(run_step)(in, x, y, inputs);
                if (k > inputs) after &= in[inputs];
                sums += SUM_PRODUCTS(own, (after - before) & FN(first_lanes)(count[s] - at));
            }
        }
    }
    return FN(sum_of)(sums);
}

#define SPANS(k)                                                                                  \
    TARGET __attribute__((noinline)) static uint32_t FN(spans_##k)(const void *const *spans,      \
                                                                   uint32_t table) {              \
        return FN(spans_of)(spans, k, table);                                                     \
    }
SPANS(3)
SPANS(4)
SPANS(5)
SPANS(6)

uint32_t FN(spans)(const void *const *spans, uint32_t k, uint64_t table) {
    switch (k) {
    case 1: return table >> 1 & 1 ? FN(span_count)(spans[0]) : 0;
    case 2: {
        const uint32_t common = FN(spans_common)(spans[0], spans[1]);
        uint32_t sum = table >> 3 & 1 ? common : 0;
        if (table >> 1 & 1) sum += FN(span_count)(spans[0]) - common;
        if (table >> 2 & 1) sum += FN(span_count)(spans[1]) - common;
        return sum;
    }
    case 3: return FN(spans_3)(spans, (uint32_t)table);
    case 4: return FN(spans_4)(spans, (uint32_t)table);
    case 5: return FN(spans_5)(spans, (uint32_t)table);
    case 6: return FN(spans_6)(spans, (uint32_t)(table >> 32));
    default: __builtin_trap();
    }
}

#undef RUN_INLINE
#undef RUN_LANES
#undef SPANS
