// SPDX-License-Identifier: Apache-2.0
//
// What the files for Martlet's protocol share: the fields of its frames, and how to say HELLO. All
// numbers are little-endian, as WireProtocol.md has them and as this machine does.

#ifndef MARTLET_LOAD_MARTLET_H
#define MARTLET_LOAD_MARTLET_H

#include "load.h"

#include <string.h>

enum {
    frameHello = 0x01, frameWelcome = 0x02, framePing = 0x03, framePong = 0x04, frameError = 0x05,
    frameMessage = 0x10, frameAcknowledge = 0x11, frameConfirmed = 0x16, frameSend = 0x20,
    frameAccepted = 0x21, frameTopicChange = 0x22, frameTopicResult = 0x23,
    frameCreateProject = 0x30, frameProjectCreated = 0x31, frameChannel = 0x98,
    roleDevice = 1, roleNewDevice = 3, roleAdministrator = 4, roleShared = 5,
    targetToken = 1, targetTopic = 2,
    wordAlreadyExists = 5,
    // Tokens in one change of a topic.
    topicChangeTokensMax = 1000,
    // A topic change of so many tokens fits.
    requestBytesMax = 1 << 18,
};

static const uint32_t liveAlways = UINT32_MAX, liveNever = 0;

struct credentials {
    char token[64], deviceKey[64];
};

static inline uint8_t *put16(uint8_t *at, uint64_t value) { memcpy(at, &value, 2); return at + 2; }
static inline uint8_t *put32(uint8_t *at, uint64_t value) { memcpy(at, &value, 4); return at + 4; }
static inline uint8_t *put64(uint8_t *at, uint64_t value) { memcpy(at, &value, 8); return at + 8; }

static inline uint8_t *putText(uint8_t *at, const char *text) {
    size_t bytes = strlen(text);
    memcpy(put16(at, bytes), text, bytes);
    return at + 2 + bytes;
}

static inline uint64_t load(const uint8_t *at, size_t bytes) {
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
}

/// Fills in the length of the frame that begins at `out` and ends at `end`.
static inline size_t finish(uint8_t *out, uint8_t *end) {
    put32(out, (uint64_t)(end - out - 4));
    return (size_t)(end - out);
}

static inline uint8_t *helloHead(uint8_t *out, uint8_t role) {
    out[4] = frameHello;
    memcpy(out + 5, "MRTL", 4);
    out[9] = 1;
    out[10] = role;
    return out + 11;
}

// martlet.c
size_t administratorHello(uint8_t *out, const char *project);
uint8_t readFrame(int descriptor, uint8_t *body, size_t *bytes);
const char *martletToken(uint32_t device);
/// HELLO of the next device: one that was loaded, or a new one.
size_t deviceHello(const struct options *, uint8_t *out);
void takeCredentials(const struct options *, const uint8_t *welcome);
/// SEND of a message with one data entry, to the topic or to a token.
size_t sendFrame(
    const struct options *, uint64_t sequence, uint8_t kind, const char *target,
    uint32_t timeToLive, uint8_t *out, uint8_t **payload);

// martlet-dialect.c
/// Whether the broker is of the first published measurements: its HELLO of a device and its SEND
/// have fewer fields.
extern bool isFirstDialect;
void findDialect(const struct options *);

#endif
