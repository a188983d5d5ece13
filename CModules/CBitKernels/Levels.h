// SPDX-License-Identifier: Apache-2.0
//
// The declarations that the files of the instruction levels share. Private to the module. Rests on CBitKernels.h.

#ifndef MARTLET_LEVELS_H
#define MARTLET_LEVELS_H

#include "CBitKernels.h"

#define CBK_KERNELS(level_, prefix, narrow)                                                       \
    {                                                                                             \
        .level = level_, .and_ = prefix##and_, .or_ = prefix##or_, .andnot = prefix##andnot,      \
        .popcount = prefix##popcount, .and_popcount = prefix##and_popcount,                       \
        .truth = prefix##truth, .compress = prefix##compress, .select = prefix##select,           \
        .spans = narrow##spans, .common = narrow##common,                                         \
    }

extern const cbk_kernels cbk_scalar_kernels;

uint32_t scalar_spans(const void *_Nonnull const *_Nonnull spans, uint32_t k, uint64_t table);
size_t scalar_common(const void *_Nonnull a, size_t a_count, const void *_Nonnull b,
                     size_t b_count);
#if defined(__x86_64__)
extern const cbk_kernels cbk_avx2_kernels;
extern const cbk_kernels cbk_avx512_kernels;
/// The positions of the set bits of each byte, 8 bytes per entry; filled before main runs.
extern uint64_t cbk_byte_positions[256];
/// The level AVX-512 uses the function too. A block has some dozen toggles, too few to fill wider vectors (2 to 5
/// slots: 1.4 to 1.6 times slower on Zen 4).
uint32_t avx2_spans(const void *_Nonnull const *_Nonnull spans, uint32_t k, uint64_t table);
size_t avx2_common(const void *_Nonnull a, size_t a_count, const void *_Nonnull b,
                   size_t b_count);
#endif

#endif
