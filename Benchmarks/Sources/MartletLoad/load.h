// SPDX-License-Identifier: Apache-2.0
//
// What the parts of the load generator share: the settings, one connection, and the interface
// between the measuring and the protocols. A protocol says how a subscriber and a publisher greet,
// how a message is published, and where in a delivered frame the payload lies; everything else is
// the same for all of them, so that they are measured alike.

#ifndef MARTLET_LOAD_H
#define MARTLET_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum { windowsMax = 8 };

struct options {
    const char *protocol;
    const char *host;
    uint16_t port;
    uint32_t subscribers;
    uint32_t payloadBytes;
    // How many messages are outstanding: one measurement for each of these.
    uint32_t windows[windowsMax], windowCount;
    // The one of the measurement that goes on.
    uint32_t outstanding;
    double warmupSeconds;
    double seconds;
    // Messages per second, each due at its time, or 0 for as many as `outstanding` allows.
    double rate;
    // The server, whose CPU time and memory are read; 0 for none.
    pid_t server;
    // Only connect, report memory, and stay until standard input ends.
    bool idle;
    // While idle: what comes is published by others, in their form; only that every subscriber gets it in
    // order and once, by what an acknowledgement would name, is checked.
    bool isFromOthers;
    // Publish so many durable messages to subscribers that are not connected...
    uint32_t offlineMessages;
    // ...or connect and take so many that waited.
    uint32_t waitingMessages;
    // Durable changes: so many requests of `batch` subscriptions each, `outstanding` at once.
    uint32_t subscribeRequests, batch;
    // Connections speak TLS.
    bool isTLS;
    // Only make so many connections with a handshake each, full or resumed.
    uint32_t handshakes;
    bool isResuming;
    // Each message goes to one subscriber, in turn, instead of to all.
    bool isDirect;
    // Messages that a device acknowledges together; 0: as many as the protocol's clients do.
    uint32_t acknowledgedTogether;
    // Martlet: apps on each connection, where they share one.
    uint32_t appsEach;
    // Martlet: devices of the project "beside", whose topics are changed during a second measurement.
    const char *besideDevices;
    const char *administratorKey;
    // Martlet: where devices' credentials are written once all are registered, or read from, so that
    // the devices of an earlier run connect again.
    const char *saveTo, *loadFrom;
    const char *project;
    const char *topic;
    // Source addresses begin at 127.0.first.1 (several processes must not share one).
    uint32_t firstSource;
};

enum {
    // One read takes up to this much: a generator that reads little at a time would be the bottleneck.
    readBytes = 1 << 20,
    // The longest frame of a payload of 4096 bytes fits.
    carryBytesMax = 8192,
    // 16 hexadecimal digits of sequence and 16 of nanoseconds.
    stampBytes = 32,
};

enum phase { phaseConnecting, phaseGreeting, phaseOpen };

struct connection {
    int descriptor;
    uint8_t phase;
    bool isPublisher;
    // Bytes of a frame that has not come whole.
    uint32_t carried;
    uint8_t *carry;
    // The sequence that comes next.
    uint64_t expected;
    // Messages received and not acknowledged, the last of them, when they must be acknowledged at the
    // latest, and the neighbours in the list of connections that have some, which is in that order.
    uint32_t unacknowledged, previous, next;
    uint64_t through, due;
};

// What a protocol found at the start of the bytes it was given.
enum found {
    // Not a whole frame yet.
    foundNothing,
    // A frame without meaning for the measurement.
    foundOther,
    // A frame with a payload.
    foundDelivery,
    // The greeting is over.
    foundOpen,
    // The publisher's message was accepted.
    foundAccepted,
    // The answer to a question.
    foundAnswer,
    foundFault,
};

struct frame {
    size_t bytes;
    const uint8_t *payload;
    size_t payloadBytes;
    // What an acknowledgement names: stream ID or packet ID.
    uint64_t identity;
    const char *fault;
};

struct protocol {
    const char *name;
    // Whether each published message is answered, and waited for.
    bool isAccepted;
    // Whether devices acknowledge what they receive: so many messages at once, or what there is so many
    // milliseconds after the first...
    uint32_t acknowledgedTogether, acknowledgementMilliseconds;
    // ...or each message by itself.
    bool acknowledgesEach;
    // Whether each message goes to one subscriber.
    bool isDirect;
    // Connections in their greeting at once: bounded by the server's backlog.
    uint32_t greetingsMax;
    // What a connection says first; returns bytes written to `out`.
    size_t (*greet)(const struct options *, const struct connection *, uint8_t *out);
    enum found (*parse)(
        const struct options *, struct connection *, const uint8_t *, size_t, struct frame *);
    // A published message without its payload: `payload` is where that goes.
    size_t (*publish)(
        const struct options *, uint64_t sequence, uint8_t *out, uint8_t **payload);
    // Bytes of an acknowledgement.
    size_t (*acknowledge)(uint64_t identity, uint8_t *out);
    // A request of `options.batch` subscriptions that nobody has yet; returns bytes. Its answer is any
    // frame that is no fault.
    size_t (*subscribe)(const struct options *, uint64_t number, uint8_t *out);
    // Where several are acknowledged together: a question whose answer proves that all that the same
    // connection said before was taken.
    size_t (*ask)(uint8_t *out);
    // Told once all are connected, before the first message; may use the publisher's socket.
    void (*prepare)(const struct options *, int publisher);
    // Told before the first connection.
    void (*begin)(struct options *);
};

extern const struct protocol *findProtocol(const char *name);

// main.c
extern const struct protocol *protocol;
extern struct connection *connections;

// acknowledging.c
extern uint32_t acknowledgeAfter;
bool isAnythingDue(void);
void acknowledgeLater(struct connection *, uint32_t count, uint64_t through, uint64_t now);
// Acknowledges what is due by then.
void acknowledgeDue(uint64_t now);
// Milliseconds to the next one that is due, or the timeout if that is sooner (negative: none).
int boundByDue(int timeoutMilliseconds);

// options.c
void parseOptions(struct options *, int argc, char **argv);

// subscriptions.c
void measureSubscriptions(const struct options *, const struct protocol *);

// stress.c: another generator, with the arguments behind its name.
int stress(int argc, char **argv);

// beside.c
enum { besideNumber = UINT32_MAX };
void openBeside(const struct options *, int poller);
void setBeside(bool isWanted);
void handleBeside(void);
uint32_t besideAnswered(void);

// system.c
uint64_t nowNanoseconds(void);
uint64_t processNanoseconds(pid_t);
uint64_t ownNanoseconds(void);
struct memory { uint64_t resident, anonymous; };
struct memory processMemory(pid_t);
// What the process has caused to be written to a disk.
uint64_t processBytesWritten(pid_t);
__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *, ...);

// secure.c
void beginSecure(void);
// Makes a handshake on a connected socket; nothing without `beginSecure`.
void secure(int descriptor);
bool isSecure(int descriptor);
ssize_t receiveSome(int, void *, size_t);
ssize_t sendSome(int, const void *, size_t);
void measureHandshakes(const struct options *);

// Ordinary calls for what happens once.
int connectBlocking(const struct options *);
void writeAll(int, const void *, size_t);
void readAll(int, void *, size_t);

#endif
