// SPDX-License-Identifier: Apache-2.0
//
// What the parts of the stress generator share: projects with one sender and many devices each, on
// one thread. Every device checks for itself that its application gets each message once, whatever
// becomes of its connections.

#ifndef MARTLET_STRESS_H
#define MARTLET_STRESS_H

#include "histogram.h"
#include "load.h"

#include <string.h>

enum {
    devicePayloadMin = 33,
    // Requests of one sender that are not answered.
    requestsMax = 1024,
    senderBytesMax = 1 << 18,
    // HELLO names so many messages at most.
    takenListedMax = 1024,
};

enum devicePhase { deviceAway, deviceConnecting, deviceGreeting, deviceOpen };

// Messages that came, or were accepted, as a number and a sum: equal ones are the same messages
// where each comes at most once.
struct tally { uint64_t count, sum; };

static inline void tallyAdd(struct tally *tally, uint64_t sequence) {
    tally->count++;
    tally->sum += sequence + 1;
}

struct device {
    int descriptor;
    uint8_t phase;
    // Does not read.
    bool isStopped;
    bool wantsConnection;
    uint32_t project;
    uint32_t carried, carryCapacity;
    uint8_t *carry;
    // The next sequence that its application takes, of its project's topic and of its own messages.
    uint64_t expected, expectedDirect;
    struct tally got, gotDirect;
    // The highest stream ID of this connection.
    uint64_t highest;
    // Acknowledged for good up to here; beyond, what the application has taken.
    uint64_t confirmed;
    uint64_t *taken;
    uint32_t takenCount, takenCapacity;
    uint32_t unacknowledged;
    uint64_t acknowledgeAt, connectAt;
    char token[64], key[64];
};

// A message that is not answered yet. `device` is UINT32_MAX for one to the topic.
struct asked { uint64_t sequence; uint32_t device; bool isAnswered; };

struct project {
    char name[32];
    // Its new devices present it.
    char registrationKey[64];
    int descriptor;
    bool isOpen;
    uint32_t firstDevice, deviceCount;
    // Sequences that were given to messages, and those that were accepted.
    uint64_t published;
    struct tally accepted;
    uint64_t *publishedDirect;
    struct tally *acceptedDirect;
    uint32_t nextDirect;
    struct asked asked[requestsMax];
    uint32_t askedFirst, askedCount;
    uint64_t refusedUntil;
    // What is to be published: at a rate, or so many, with so many outstanding.
    uint64_t interval, nextAt;
    uint64_t left;
    uint32_t outstandingMax;
    bool isDirect;
    uint8_t *out;
    uint32_t outBegin, outEnd;
    uint8_t *carry;
    uint32_t carried;
    uint64_t doneAt;
    struct histogram *times;
};

struct fleet {
    struct options load;
    uint32_t projectCount, devicesEach, deviceCount;
    struct project *projects;
    struct device *devices;
    int poller;
    uint8_t *reading;
    // Messages published since then are measured.
    uint64_t measuredSince;
    struct histogram times;
    uint32_t openCount, comingCount, comingMax;
    uint64_t delivered, repeated, refused, disconnected, reconnects, turnedAway;
    const char *administratorKey;
};

extern struct fleet fleet;

// Little-endian fields, as WireProtocol.md has them.
static inline uint8_t *putField(uint8_t *at, uint64_t value, size_t bytes) {
    memcpy(at, &value, bytes);
    return at + bytes;
}
static inline uint8_t *putString(uint8_t *at, const char *text) {
    size_t bytes = strlen(text);
    at = putField(at, bytes, 2);
    memcpy(at, text, bytes);
    return at + bytes;
}
static inline uint64_t loadField(const uint8_t *at, size_t bytes) {
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
}
static inline size_t finishFrame(uint8_t *out, uint8_t *end) {
    putField(out, (uint64_t)(end - out - 4), 4);
    return (size_t)(end - out);
}
static inline uint8_t *putHello(uint8_t *out, uint8_t role) {
    out[4] = 0x01;
    memcpy(out + 5, "MRTL", 4);
    out[9] = 1;
    out[10] = role;
    return out + 11;
}

// stress-devices.c
void openDevice(uint32_t index);
void closeDevice(struct device *);
void handleDevice(uint32_t index, uint32_t events);
void stopReading(struct device *, bool isStopped);
// Acknowledgements that are due, connections that are to come again.
void tendDevices(uint64_t now);
bool isUpToDate(const struct device *);

// stress-senders.c
void makeProjects(void);
void subscribeAll(void);
void openSenders(void);
void handleSender(uint32_t number, uint32_t events);
void publishDue(uint64_t now);

// stress.c
void turn(int timeoutMilliseconds);

#endif
