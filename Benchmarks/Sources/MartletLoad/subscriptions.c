// SPDX-License-Identifier: Apache-2.0
//
// How many durable subscriptions a server takes per second over one connection: requests of one or
// many, several outstanding, each counted when its answer is here. Answers are counted and not
// matched: a server that leaves one out would be waited for without end. Rests on the protocols.

#include "load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { answerBytesMax = 1 << 16 };

/// One connection, and what it has said that is not used up.
struct link {
    struct connection connection;
    uint8_t bytes[answerBytesMax];
    size_t count;
};

/// Reads once; returns how many frames came that are answers, or open the connection.
static uint32_t takeFrames(
    const struct options *options, const struct protocol *protocol, struct link *link) {
    ssize_t got = recv(
        link->connection.descriptor, link->bytes + link->count, sizeof link->bytes - link->count, 0);
    if (got <= 0) fail("the server closed a connection: %s", got ? strerror(errno) : "end");
    link->count += (size_t)got;
    size_t at = 0;
    uint32_t answers = 0;
    for (;;) {
        struct frame frame = {0};
        enum found found = protocol->parse(
            options, &link->connection, link->bytes + at, link->count - at, &frame);
        if (found == foundNothing) break;
        if (found == foundFault) fail("%s", frame.fault);
        at += frame.bytes;
        // While greeting only the end of it counts: NATS says INFO before.
        if (link->connection.phase == phaseOpen || found == foundOpen) answers++;
    }
    memmove(link->bytes, link->bytes + at, link->count - at);
    link->count -= at;
    return answers;
}

void measureSubscriptions(const struct options *options, const struct protocol *protocol) {
    static struct link link;
    static uint8_t greeting[1024];
    if (!protocol->subscribe) fail("'%s' has no durable subscriptions", protocol->name);
    uint8_t *request = malloc(64 + (size_t)options->batch * 64 + 512);
    link.connection = (struct connection){
        .descriptor = connectBlocking(options), .phase = phaseGreeting, .isPublisher = true};
    writeAll(
        link.connection.descriptor, greeting,
        protocol->greet(options, &link.connection, greeting));
    while (takeFrames(options, protocol, &link) == 0) {}
    link.connection.phase = phaseOpen;
    if (protocol->prepare) protocol->prepare(options, link.connection.descriptor);

    uint64_t written = processBytesWritten(options->server);
    uint64_t server = processNanoseconds(options->server), began = nowNanoseconds();
    uint32_t sent = 0, answered = 0;
    while (answered < options->subscribeRequests) {
        while (sent < options->subscribeRequests && sent - answered < options->outstanding)
            writeAll(
                link.connection.descriptor, request, protocol->subscribe(options, sent++, request));
        answered += takeFrames(options, protocol, &link);
    }
    double seconds = (double)(nowNanoseconds() - began) / 1e9;
    double count = (double)options->subscribeRequests * options->batch;
    printf(
        "{\"batch\":%u,\"outstanding\":%u,\"count\":%.0f,\"subscriptionsPerSecond\":%.1f,"
        "\"serverMicroseconds\":%.2f,\"bytesWritten\":%.1f}\n",
        options->batch, options->outstanding, count, count / seconds,
        (double)(processNanoseconds(options->server) - server) / 1e3 / count,
        (double)(processBytesWritten(options->server) - written) / count);
}
