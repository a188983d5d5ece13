// SPDX-License-Identifier: Apache-2.0
//
// Acknowledging as a device does that waits for more: several messages together, or what there is when
// the first of them has waited long enough. Rests on the connections of main.c.

#include "load.h"

// Connections with something to acknowledge, the first due first.
static uint32_t firstDue = UINT32_MAX, lastDue = UINT32_MAX;
// Set before the first message comes.
uint32_t acknowledgeAfter;

bool isAnythingDue(void) { return firstDue != UINT32_MAX; }

static void acknowledge(struct connection *connection) {
    uint8_t frame[64];
    *(connection->previous == UINT32_MAX ? &firstDue : &connections[connection->previous].next) =
        connection->next;
    *(connection->next == UINT32_MAX ? &lastDue : &connections[connection->next].previous) =
        connection->previous;
    connection->unacknowledged = 0;
    writeAll(connection->descriptor, frame, protocol->acknowledge(connection->through, frame));
}

/// Some messages came: they are acknowledged when they are enough, or in time.
void acknowledgeLater(
    struct connection *connection, uint32_t count, uint64_t through, uint64_t now) {
    if (connection->unacknowledged == 0) {
        uint32_t index = (uint32_t)(connection - connections);
        connection->due = now + protocol->acknowledgementMilliseconds * 1000000ull;
        connection->previous = lastDue;
        connection->next = UINT32_MAX;
        *(lastDue == UINT32_MAX ? &firstDue : &connections[lastDue].next) = index;
        lastDue = index;
    }
    connection->unacknowledged += count;
    connection->through = through;
    if (connection->unacknowledged >= acknowledgeAfter) acknowledge(connection);
}

void acknowledgeDue(uint64_t now) {
    while (firstDue != UINT32_MAX && connections[firstDue].due <= now)
        acknowledge(connections + firstDue);
}

/// Until the next acknowledgement is due, or for less.
int boundByDue(int timeoutMilliseconds) {
    if (firstDue == UINT32_MAX) return timeoutMilliseconds;
    uint64_t now = nowNanoseconds(), due = connections[firstDue].due;
    int left = due > now ? (int)((due - now) / 1000000) + 1 : 0;
    return timeoutMilliseconds >= 0 && timeoutMilliseconds < left ? timeoutMilliseconds : left;
}
