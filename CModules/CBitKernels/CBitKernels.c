// SPDX-License-Identifier: Apache-2.0
//
// Chooses the instruction level once, before main runs. Rests on the tables of the levels.

#include "CBitKernels.h"
#include "Levels.h"
#include <stdlib.h>
#include <string.h>

const cbk_kernels *cbk_chosen = &cbk_scalar_kernels;

#if defined(__x86_64__)
uint64_t cbk_byte_positions[256];
#endif

int32_t cbk_best_level(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                     __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
    const int avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                       __builtin_cpu_supports("avx512vl") &&
                       __builtin_cpu_supports("avx512vbmi2") &&
                       __builtin_cpu_supports("avx512vpopcntdq");
    return avx512 ? CBK_AVX512 : avx2 ? CBK_AVX2 : CBK_SCALAR;
#else
    return CBK_SCALAR;
#endif
}

const cbk_kernels *cbk_table(int32_t level) {
    if (level < CBK_SCALAR || level > cbk_best_level()) return NULL;
    switch (level) {
#if defined(__x86_64__)
    case CBK_AVX2: return &cbk_avx2_kernels;
    case CBK_AVX512: return &cbk_avx512_kernels;
#endif
    default: return &cbk_scalar_kernels;
    }
}

int32_t cbk_choose_level(const char *environment, int32_t best) {
    int32_t wanted = best;
    if (environment != NULL) {
        if (strcmp(environment, "scalar") == 0) wanted = CBK_SCALAR;
        if (strcmp(environment, "avx2") == 0) wanted = CBK_AVX2;
        if (strcmp(environment, "avx512") == 0) wanted = CBK_AVX512;
    }
    return wanted < best ? wanted : best;
}

__attribute__((constructor)) static void cbk_initialize(void) {
#if defined(__x86_64__)
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint64_t entry = 0;
        uint32_t n = 0;
        for (uint32_t bit = 0; bit < 8; bit++)
            if (byte >> bit & 1) entry |= (uint64_t)bit << (8 * n++);
        cbk_byte_positions[byte] = entry;
    }
#endif
    cbk_chosen = cbk_table(cbk_choose_level(getenv("MARTLET_SIMD"), cbk_best_level()));
}
