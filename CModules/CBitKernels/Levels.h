// SPDX-License-Identifier: Apache-2.0
//
// What the files of the instruction levels share. Private to this module. Rests on CBitKernels.h.

#ifndef MARTLET_LEVELS_H
#define MARTLET_LEVELS_H

#include "CBitKernels.h"

#define CBK_KERNELS(level_, prefix)                                                               \
    {                                                                                             \
        .level = level_, .and_ = prefix##and_, .or_ = prefix##or_, .andnot = prefix##andnot,      \
        .xor_ = prefix##xor_, .popcount = prefix##popcount,                                       \
        .and_popcount = prefix##and_popcount, .andnot_popcount = prefix##andnot_popcount,         \
        .truth = prefix##truth, .compress = prefix##compress, .select = prefix##select,           \
    }

extern const cbk_kernels cbk_scalar_kernels;
#if defined(__x86_64__)
extern const cbk_kernels cbk_avx2_kernels;
extern const cbk_kernels cbk_avx512_kernels;
/// Positions of the set bits of each byte, 8 bytes an entry; filled before main runs.
extern uint64_t cbk_byte_positions[256];
#endif

#endif
