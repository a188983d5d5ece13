// SPDX-License-Identifier: Apache-2.0
//
// Kernels over one block of a bitset: 510 words of 64 bits, the unit in which Martlet stores and evaluates sets.
// The kernels in `cbk_kernels` exist for three instruction levels. A level is chosen once, before main runs,
// through a table of function pointers (an ifunc would run before the sanitizers are ready). Inputs need an
// alignment of 8 bytes at most and are never read past word 509, because a block may end where the mapped file
// ends. Rests on nothing.

#ifndef MARTLET_CBITKERNELS_H
#define MARTLET_CBITKERNELS_H

#include <stddef.h>
#include <stdint.h>

_Pragma("clang assume_nonnull begin")

/// Words in one block: 32,640 bits, 4080 bytes.
#define CBK_WORDS 510
/// Largest number of slots in one truth table.
#define CBK_TRUTH_INPUTS_MAX 5
/// Elements past the last position that `compress` may overwrite.
#define CBK_COMPRESS_SLACK 32

/// Blocks of a span of runs.
///
/// A span holds the runs of neighbouring blocks:
///   16 × u16   for each block, the number of toggles in the block and in the blocks before
///   u16 each   the toggles, block by block: the first bit of a run, and the first bit behind the
///              run, in turn, ascending; 0 to 32,640
///   31 bytes   zero, because toggles are read sixteen at a time
#define CBK_SPAN_BLOCKS 16
#define CBK_SPAN_SLACK 31
/// Largest number of toggles in one block of a span. Bounded because all toggles are compared with all others, at
/// quadratic cost.
#define CBK_BLOCK_TOGGLES_MAX 64
/// Largest number of slots in a condition over spans: the slots of a truth table, and one slot that bounds the
/// result.
#define CBK_SPAN_INPUTS_MAX 6
/// Result of `cbk_toggles` if `out` has no room.
#define CBK_TOO_MANY 0xFFFFFFFFu

/// Instruction levels; each contains the lower levels.
enum {
    CBK_SCALAR = 0,
    /// AVX2, BMI2, POPCNT.
    CBK_AVX2 = 1,
    /// AVX-512 F, BW, DQ, VL, VBMI2, VPOPCNTDQ (Ice Lake, Zen 4 and later), and AVX2.
    CBK_AVX512 = 2,
};

/// The kernels of one level. `dst` may be one of the inputs.
typedef struct cbk_kernels {
    int32_t level;
    void (*and_)(uint64_t *dst, const uint64_t *a, const uint64_t *b);
    void (*or_)(uint64_t *dst, const uint64_t *a, const uint64_t *b);
    /// a & ~b
    void (*andnot)(uint64_t *dst, const uint64_t *a, const uint64_t *b);
    uint32_t (*popcount)(const uint64_t *a);
    uint32_t (*and_popcount)(const uint64_t *a, const uint64_t *b);
    /// Evaluates any function of `k` (1...5) inputs. Bit `i` of `table` is the value where input `s` has the value
    /// of bit `s` of `i`. `dst` may be NULL. Returns the population count of the result.
    uint32_t (*truth)(uint64_t *_Nullable dst, const uint64_t *_Nonnull const *_Nonnull inputs, uint32_t k,
                      uint32_t table);
    /// Writes the positions of the set bits, ascending. `out` has room for all positions and CBK_COMPRESS_SLACK
    /// more. Returns the number of positions.
    uint32_t (*compress)(uint16_t *out, const uint64_t *a);
    /// Writes the handles of the bits set in both `a` and `mine`. The handle of a bit of `mine` stands in `handles`
    /// at the bit's rank; `prefix[w]` is the rank of the first bit of word `w`. Starts at word `*word` and sets
    /// `*word` to the word to continue at (CBK_WORDS when done). Stops when fewer than 64 places are left. Returns
    /// the number of handles.
    uint32_t (*select)(uint32_t *out, uint32_t capacity, const uint64_t *a, const uint64_t *mine,
                       const uint16_t *prefix, const uint32_t *handles, uint32_t *word);
    /// Counts the members of a function of `k` (1...6) spans, without building the result. Bit `i` of `table` is
    /// the value where span `s` has the value of bit `s` of `i`. Bit 0 must be clear. With six spans, the last must
    /// bound the result. The spans must be sound.
    uint32_t (*spans)(const void *_Nonnull const *_Nonnull spans, uint32_t k, uint64_t table);
    /// Counts the common values of two ascending lists without repetitions, of any alignment.
    size_t (*common)(const void *a, size_t a_count, const void *b, size_t b_count);
} cbk_kernels;

/// The kernels of a level, or NULL if the CPU lacks the level.
const cbk_kernels *_Nullable cbk_table(int32_t level);

/// The highest level of the CPU.
int32_t cbk_best_level(void);

/// The level for a value of the environment variable MARTLET_SIMD (or NULL) on a CPU with levels up to `best`. A
/// level that the CPU lacks becomes `best`. A word other than `scalar`, `avx2` and `avx512` is ignored.
int32_t cbk_choose_level(const char *_Nullable environment, int32_t best);

extern const cbk_kernels *cbk_chosen;

/// The kernels chosen when the process started.
static inline const cbk_kernels *cbk_current(void) { return cbk_chosen; }

/// Sets the bits of `count` positions (of 2 bytes, any alignment) in `dst`, which has 512 words.
void cbk_scatter16(uint64_t *dst, const void *_Nullable list, size_t count);
/// Sets the bits of `count` ordinals (of 4 bytes, any alignment), taking the low 15 bits of each.
void cbk_scatter32(uint64_t *dst, const void *_Nullable list, size_t count);
/// Clears the bits of `count` positions of 2 bytes.
void cbk_clear16(uint64_t *dst, const void *_Nullable list, size_t count);
/// Clears the bits of `count` ordinals of 4 bytes.
void cbk_clear32(uint64_t *dst, const void *_Nullable list, size_t count);
/// Counts the positions of 2 bytes whose bit is set in `words`, which has 512 words.
uint32_t cbk_lookup16(const uint64_t *words, const void *_Nullable list, size_t count);
/// Counts the ordinals of 4 bytes whose bit is set in `words`, which has 512 words.
uint32_t cbk_lookup32(const uint64_t *words, const void *_Nullable list, size_t count);

extern const uint16_t cbk_empty_span[CBK_SPAN_BLOCKS + 16];

/// The address of a span without members.
static inline const void *cbk_empty_span_address(void) { return cbk_empty_span; }

/// Whether the ends of a span ascend, leave each block an even number of toggles and no more than
/// CBK_BLOCK_TOGGLES_MAX, and agree with the number of bytes. The toggles are not checked: wrong toggles cause
/// wrong answers, but no access outside the span.
int cbk_span_is_sound(const void *span, size_t bytes);

/// Sets the bits of the runs of one block in `dst`, which has 510 words. Bits beyond the block are ignored.
void cbk_set_runs(uint64_t *dst, const uint16_t *toggles, size_t count);
/// Clears the bits of the runs of one block in `dst`, which has 510 words.
void cbk_clear_runs(uint64_t *dst, const uint16_t *toggles, size_t count);

/// Writes the toggles of a bitmap of 510 words. Returns the number of toggles, or CBK_TOO_MANY if `capacity` does
/// not suffice. For bits without runs, the call returns after a few words.
uint32_t cbk_toggles(uint16_t *out, uint32_t capacity, const uint64_t *words);

/// The value that ends every list for `cbk_merge`; no ordinal has this value.
#define CBK_SENTINEL 0xFFFFFFFFu

/// Merges `k` (1...5) ascending lists, each followed by CBK_SENTINEL. A value in any list is taken if bit `i` of
/// `table` is set, where bit `s` of `i` says whether list `s` has the value. `dst` has room for one value more than
/// all lists together, or is NULL. Returns the number of values taken.
size_t cbk_merge(uint32_t *_Nullable dst, const uint32_t *_Nonnull const *_Nonnull lists,
                 uint32_t k, uint32_t table);

// Calls through a table, as functions, so that Swift need not unwrap a function pointer.

static inline void cbk_and(const cbk_kernels *t, uint64_t *dst,
                           const uint64_t *a, const uint64_t *b) {
    t->and_(dst, a, b);
}
static inline void cbk_or(const cbk_kernels *t, uint64_t *dst,
                          const uint64_t *a, const uint64_t *b) {
    t->or_(dst, a, b);
}
static inline void cbk_andnot(const cbk_kernels *t, uint64_t *dst,
                              const uint64_t *a, const uint64_t *b) {
    t->andnot(dst, a, b);
}
static inline uint32_t cbk_popcount(const cbk_kernels *t, const uint64_t *a) {
    return t->popcount(a);
}
static inline uint32_t cbk_and_popcount(const cbk_kernels *t, const uint64_t *a,
                                        const uint64_t *b) {
    return t->and_popcount(a, b);
}
static inline uint32_t cbk_truth(const cbk_kernels *t, uint64_t *_Nullable dst,
                                 const uint64_t *_Nonnull const *_Nonnull inputs, uint32_t k,
                                 uint32_t table) {
    return t->truth(dst, inputs, k, table);
}
static inline uint32_t cbk_compress(const cbk_kernels *t, uint16_t *out,
                                    const uint64_t *a) {
    return t->compress(out, a);
}
static inline uint32_t cbk_select(const cbk_kernels *t, uint32_t *out,
                                  uint32_t capacity, const uint64_t *a,
                                  const uint64_t *mine, const uint16_t *prefix,
                                  const uint32_t *handles, uint32_t *word) {
    return t->select(out, capacity, a, mine, prefix, handles, word);
}
static inline uint32_t cbk_spans(const cbk_kernels *t, const void *_Nonnull const *_Nonnull spans,
                                 uint32_t k, uint64_t table) {
    return t->spans(spans, k, table);
}
static inline size_t cbk_common(const cbk_kernels *t, const void *a, size_t a_count,
                                const void *b, size_t b_count) {
    return t->common(a, a_count, b, b_count);
}

_Pragma("clang assume_nonnull end")

#endif
