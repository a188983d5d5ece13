// SPDX-License-Identifier: Apache-2.0
//
// What the publisher has sent, and who has which part of it.

#include "floor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct receiver receivers[connectionsMax];
int highest = -1, publisher = -1;
uint8_t *history;
uint64_t whole;
static uint64_t tail;

void die(const char *what, int code) {
    fprintf(stderr, "bench-floor: %s: %s\n", what, strerror(code));
    exit(1);
}

void beginHistory(void) { history = malloc(historyBytes + sendBytesMax); }

void append(const uint8_t *bytes, size_t count) {
    size_t at = tail % historyBytes;
    for (size_t done = 0; done < count;) {
        size_t part = count - done < historyBytes - at ? count - done : historyBytes - at;
        memcpy(history + at, bytes + done, part);
        // The start of the ring once more behind its end.
        if (at < sendBytesMax) {
            size_t repeated = at + part > sendBytesMax ? sendBytesMax - at : part;
            memcpy(history + historyBytes + at, bytes + done, repeated);
        }
        done += part;
        at = (at + part) % historyBytes;
    }
    tail += count;
    for (;;) {
        uint32_t length;
        if (tail - whole < 4) break;
        memcpy(&length, history + whole % historyBytes, 4);
        if (tail - whole < 4 + (uint64_t)length) break;
        whole += 4 + length;
    }
}
