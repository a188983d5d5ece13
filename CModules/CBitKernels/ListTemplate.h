// SPDX-License-Identifier: Apache-2.0
//
// Counts the common values of two sorted lists, for the levels whose file includes the template. A level defines
// FN(name), TARGET and LIST_BYTES, the bytes of a vector (16 or 32); all other operations use the compiler's
// portable vectors.
//
// A vector of each list is compared in all rotations, and the vector with the lower last element advances. No
// branch depends on the elements, and one wait for a load serves a whole vector. (The merge of Merge.c waits for a
// load at every element: 2 ns.) Rests on CBitKernels.h.

typedef uint32_t list_lanes __attribute__((vector_size(LIST_BYTES)));

#define LIST_LANES (LIST_BYTES / 4)

// The lists may lie at any address, so they are bytes here: a `uint32_t *` would promise an alignment.
TARGET size_t FN(common)(const void *a_list, size_t a_count, const void *b_list, size_t b_count) {
    const char *a = a_list, *b = b_list;
    size_t i = 0, j = 0, found = 0;
    list_lanes sums = {0};
    while (i + LIST_LANES <= a_count && j + LIST_LANES <= b_count) {
        list_lanes x, y;
        memcpy(&x, a + 4 * i, sizeof x);
        memcpy(&y, b + 4 * j, sizeof y);
        uint32_t x_last, y_last;
        memcpy(&x_last, a + 4 * (i + LIST_LANES - 1), sizeof x_last);
        memcpy(&y_last, b + 4 * (j + LIST_LANES - 1), sizeof y_last);
        list_lanes same = (list_lanes)(x == y);
#pragma clang loop unroll(full)
        for (int turn = 1; turn < LIST_LANES; turn++) {
#if LIST_BYTES == 32
            y = __builtin_shufflevector(y, y, 1, 2, 3, 4, 5, 6, 7, 0);
#else
            y = __builtin_shufflevector(y, y, 1, 2, 3, 0);
#endif
            same |= (list_lanes)(x == y);
        }
        sums -= same;
        i += (size_t)(x_last <= y_last) * LIST_LANES;
        j += (size_t)(y_last <= x_last) * LIST_LANES;
    }
    for (int lane = 0; lane < LIST_LANES; lane++) found += sums[lane];
    while (i < a_count && j < b_count) {
        uint32_t x, y;
        memcpy(&x, a + 4 * i, sizeof x);
        memcpy(&y, b + 4 * j, sizeof y);
        found += x == y;
        i += x <= y;
        j += y <= x;
    }
    return found;
}

#undef LIST_LANES
