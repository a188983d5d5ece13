// SPDX-License-Identifier: Apache-2.0
//
// NATS JetStream as a durable mailbox for each device: one stream in files, one durable push
// consumer per device. A device subscribes to its consumer's delivery subject and acknowledges
// through the last message it read (ack policy "all", the cheapest for the server). The publisher
// waits for the stream's answer to each message. Requests to the server are plain JSON.
//
// Source: docs.nats.io, JetStream wire API and client protocol.

// For memmem and memrchr.
#define _GNU_SOURCE

#include "load.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { consumersOutstanding = 64, requestBytesMax = 1024 };

static const char connectLine[] = "CONNECT {\"verbose\":false,\"pedantic\":false}\r\n";
static uint32_t greeted;

static size_t greet(
    const struct options *options, const struct connection *connection, uint8_t *out) {
    (void)options;
    if (connection->isPublisher)
        return (size_t)sprintf((char *)out, "%sSUB answers 1\r\nPING\r\n", connectLine);
    return (size_t)sprintf((char *)out, "%sSUB to.%u 1\r\nPING\r\n", connectLine, greeted++);
}

static enum found fault(struct frame *frame, const char *text) {
    frame->fault = text;
    return foundFault;
}

static bool contains(const uint8_t *bytes, size_t count, const char *text) {
    return memmem(bytes, count, text, strlen(text)) != NULL;
}

/// MSG subject sid [reply] bytes
static enum found parseMessage(
    const struct options *options, const struct connection *connection, const uint8_t *bytes,
    size_t count, const uint8_t *end, struct frame *frame) {
    const uint8_t *size = memrchr(bytes, ' ', (size_t)(end - bytes));
    if (!size) return fault(frame, "a message without a size");
    size_t head = (size_t)(end - bytes) + 1, length = strtoull((const char *)size, NULL, 10);
    if (count < head + length + 2) return foundNothing;
    frame->bytes = head + length + 2;
    frame->payload = bytes + head;
    frame->payloadBytes = length;
    if (connection->isPublisher) {
        if (!contains(frame->payload, length, "\"error\"")) return foundAccepted;
        static char text[256];
        snprintf(text, sizeof text, "%.*s", (int)length, frame->payload);
        return fault(frame, text);
    }
    if (length != options->payloadBytes) return fault(frame, "another message");
    const uint8_t *reply = memrchr(bytes, ' ', (size_t)(size - bytes));
    // Lives as long as the bytes that were read, which is until it is acknowledged.
    frame->identity = (uint64_t)(uintptr_t)(reply + 1);
    return foundDelivery;
}

static enum found parse(
    const struct options *options, struct connection *connection, const uint8_t *bytes,
    size_t count, struct frame *frame) {
    const uint8_t *end = memchr(bytes, '\n', count);
    if (!end || count < 4) return foundNothing;
    if (memcmp(bytes, "MSG ", 4) == 0)
        return parseMessage(options, connection, bytes, count, end, frame);
    frame->bytes = (size_t)(end - bytes) + 1;
    if (memcmp(bytes, "PONG", 4) == 0)
        return connection->phase == phaseOpen ? foundAnswer : foundOpen;
    if (memcmp(bytes, "INFO", 4) == 0) return foundOther;
    if (memcmp(bytes, "PING", 4) == 0) {
        writeAll(connection->descriptor, "PONG\r\n", 6);
        return foundOther;
    }
    return fault(frame, "NATS refused");
}

static size_t publish(
    const struct options *options, uint64_t sequence, uint8_t *out, uint8_t **payload) {
    char to[32] = "";
    if (options->isDirect)
        snprintf(to, sizeof to, ".%u", (unsigned)(sequence % options->subscribers));
    int head = sprintf(
        (char *)out, "PUB %s%s answers %u\r\n", options->topic, to, options->payloadBytes);
    *payload = out + head;
    memcpy(*payload + options->payloadBytes, "\r\n", 2);
    return (size_t)head + options->payloadBytes + 2;
}

static size_t acknowledge(uint64_t identity, uint8_t *out) {
    const uint8_t *reply = (const uint8_t *)(uintptr_t)identity;
    const uint8_t *end = memchr(reply, ' ', 512);
    return (size_t)sprintf((char *)out, "PUB %.*s 0\r\n\r\n", (int)(end - reply), reply);
}

static size_t ping(uint8_t *out) { return (size_t)sprintf((char *)out, "PING\r\n"); }

static size_t request(uint8_t *out, const char *subject, const char *body) {
    return (size_t)sprintf(
        (char *)out, "PUB %s answers %zu\r\n%s\r\n", subject, strlen(body), body);
}

/// The durable consumer `number`; with `isOwn` of a subject that only it has.
static size_t consumer(
    const struct options *options, const char *name, uint64_t number, bool isOwn, uint8_t *out) {
    char subject[64], body[512], filter[64] = "";
    if (isOwn) snprintf(filter, sizeof filter, ".%llu", (unsigned long long)number);
    snprintf(
        subject, sizeof subject, "$JS.API.CONSUMER.DURABLE.CREATE.BENCH.%s%llu", name,
        (unsigned long long)number);
    snprintf(
        body, sizeof body,
        "{\"stream_name\":\"BENCH\",\"config\":{\"durable_name\":\"%s%llu\","
        "\"deliver_subject\":\"to.%s%llu\",\"filter_subject\":\"%s%s\",\"ack_policy\":\"all\","
        "\"deliver_policy\":\"all\",\"replay_policy\":\"instant\",\"max_ack_pending\":-1}}",
        name, (unsigned long long)number, strcmp(name, "d") ? name : "",
        (unsigned long long)number, options->topic, filter);
    return request(out, subject, body);
}

/// Waits for one more answer of the server.
static void takeAnswer(int descriptor) {
    static uint8_t bytes[1 << 16];
    static size_t count;
    struct connection publisher = {.descriptor = descriptor, .isPublisher = true};
    for (;;) {
        struct frame frame = {0};
        enum found found = parse(NULL, &publisher, bytes, count, &frame);
        if (found == foundFault) fail("JetStream: %s", frame.fault);
        if (found != foundNothing) {
            memmove(bytes, bytes + frame.bytes, count - frame.bytes);
            count -= frame.bytes;
            if (found == foundAccepted) return;
            continue;
        }
        struct pollfd waiting = {.fd = descriptor, .events = POLLIN};
        poll(&waiting, 1, -1);
        ssize_t got = recv(descriptor, bytes + count, sizeof bytes - count, 0);
        if (got <= 0) fail("JetStream: the server closed the connection");
        count += (size_t)got;
    }
}

/// Makes the stream, and a consumer for each device unless the devices are there already.
static void prepare(const struct options *options, int publisher) {
    static uint8_t out[requestBytesMax];
    char body[256];
    if (options->loadFrom) return;
    snprintf(
        body, sizeof body,
        "{\"name\":\"BENCH\",\"subjects\":[\"%s\",\"%s.>\"],\"storage\":\"file\","
        "\"retention\":\"limits\",\"max_consumers\":-1,\"num_replicas\":1}",
        options->topic, options->topic);
    writeAll(publisher, out, request(out, "$JS.API.STREAM.CREATE.BENCH", body));
    takeAnswer(publisher);
    if (options->subscribeRequests) return;
    uint32_t sent = 0, answered = 0;
    uint64_t began = nowNanoseconds();
    while (answered < options->subscribers) {
        while (sent < options->subscribers && sent - answered < consumersOutstanding) {
            writeAll(publisher, out, consumer(options, "d", sent, options->isDirect, out));
            sent++;
        }
        takeAnswer(publisher);
        answered++;
    }
    fprintf(
        stderr, "bench-load: %u consumers in %.1f ms\n", answered,
        (double)(nowNanoseconds() - began) / 1e6);
}

/// A subscription that lasts is a durable consumer; there are no batches of them.
static size_t subscribe(const struct options *options, uint64_t number, uint8_t *out) {
    return consumer(options, "s", number, true, out);
}

const struct protocol jetstreamProtocol = {
    // At once after each read: the subject of the answer lies in what was read.
    .name = "jetstream", .isAccepted = true, .acknowledgedTogether = 1, .greetingsMax = 256,
    .greet = greet, .parse = parse, .publish = publish, .acknowledge = acknowledge, .ask = ping,
    .subscribe = subscribe, .prepare = prepare};
