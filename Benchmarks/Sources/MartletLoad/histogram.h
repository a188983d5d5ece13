// SPDX-License-Identifier: Apache-2.0
//
// Counts of durations with a relative error below 2 %: 64 steps per power of two. Adding costs a
// shift and an increment, since it happens for every delivery.

#ifndef MARTLET_HISTOGRAM_H
#define MARTLET_HISTOGRAM_H

#include <stdint.h>
#include <string.h>

enum { histogramSteps = 64, histogramBuckets = 64 * histogramSteps };

struct histogram {
    uint64_t counts[histogramBuckets];
    uint64_t total;
};

static inline uint32_t histogramBucket(uint64_t value) {
    if (value < histogramSteps) return (uint32_t)value;
    uint32_t power = 63u - (uint32_t)__builtin_clzll(value);
    uint32_t shift = power - 6;
    return (shift + 1) * histogramSteps + (uint32_t)((value >> shift) - histogramSteps);
}

static inline void histogramAdd(struct histogram *h, uint64_t value, uint64_t count) {
    h->counts[histogramBucket(value)] += count;
    h->total += count;
}

static inline uint64_t histogramQuantile(const struct histogram *h, double quantile) {
    uint64_t rank = (uint64_t)(quantile * (double)h->total), seen = 0;
    for (uint32_t bucket = 0; bucket < histogramBuckets; bucket++) {
        seen += h->counts[bucket];
        if (seen > rank) {
            if (bucket < histogramSteps) return bucket;
            uint32_t shift = bucket / histogramSteps - 1;
            return ((uint64_t)(bucket % histogramSteps) + histogramSteps) << shift;
        }
    }
    return 0;
}

static inline void histogramClear(struct histogram *h) { memset(h, 0, sizeof *h); }

#endif
