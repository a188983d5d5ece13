// SPDX-License-Identifier: Apache-2.0
//
// What both floors have in common: the ring of bytes, and a position in it for each socket.
#pragma once
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    connectionsMax = 19000,
    receiveBufferBytes = 65536,
    // A send never wraps, so a longest run of bytes is repeated behind the end.
    historyBytes = 64 << 20,
    sendBytesMax = 1 << 20,
};

struct receiver {
    uint64_t position;
    // io_uring: the bytes of the send in flight. epoll: not 0 while the socket is full.
    uint32_t inFlight;
    bool isOpen;
    // epoll: the socket.
    int descriptor;
};

extern struct receiver receivers[connectionsMax];
extern int highest, publisher;
extern uint8_t *history;
// The end of the last frame that has come whole.
extern uint64_t whole;

void die(const char *what, int code);
void beginHistory(void);
// Takes bytes of the publisher.
void append(const uint8_t *bytes, size_t count);

// Tell that they are ready, and serve until the generator has gone.
void serveRing(int listener, int batch, bool isArmed);
void serveEpoll(int listener, bool isArmed);
void tellReady(void);
