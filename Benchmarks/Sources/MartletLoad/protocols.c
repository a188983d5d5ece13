// SPDX-License-Identifier: Apache-2.0
//
// The protocols, as far as a fanout needs them: Redis pub/sub (RESP2), NATS, and the length-prefixed
// frames of the kernel floor; the others have files of their own. Parsers know the one topic and
// payload size of the run, so that a delivery costs a comparison.
//
// Source: redis.io RESP2; docs.nats.io client protocol.

#include "load.h"

#include <stdlib.h>
#include <string.h>

static uint32_t load32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return value;
}

static enum found fault(struct frame *frame, const char *text) {
    frame->fault = text;
    return foundFault;
}

// MARK: Kernel floor: u32 length, payload. Who speaks is the publisher.

static size_t floorGreet(
    const struct options *options, const struct connection *connection, uint8_t *out) {
    (void)options, (void)connection, (void)out;
    return 0;
}

static enum found floorParse(
    const struct options *options, struct connection *connection, const uint8_t *bytes,
    size_t count, struct frame *frame) {
    (void)connection;
    if (count < 4) return foundNothing;
    size_t length = load32(bytes);
    if (length != options->payloadBytes) return fault(frame, "a frame of another length");
    if (count < 4 + length) return foundNothing;
    frame->bytes = 4 + length;
    frame->payload = bytes + 4;
    frame->payloadBytes = length;
    return foundDelivery;
}

static size_t floorPublish(
    const struct options *options, uint64_t sequence, uint8_t *out, uint8_t **payload) {
    (void)sequence;
    memcpy(out, &options->payloadBytes, 4);
    *payload = out + 4;
    return 4 + options->payloadBytes;
}

// MARK: Redis

static char redisHead[64], redisPublishHead[96];
static size_t redisHeadBytes, redisPublishHeadBytes;

static void redisBegin(struct options *options) {
    redisHeadBytes = (size_t)snprintf(
        redisHead, sizeof redisHead, "*3\r\n$7\r\nmessage\r\n$%zu\r\n%s\r\n$%u\r\n",
        strlen(options->topic), options->topic, options->payloadBytes);
    redisPublishHeadBytes = (size_t)snprintf(
        redisPublishHead, sizeof redisPublishHead,
        "*3\r\n$7\r\nPUBLISH\r\n$%zu\r\n%s\r\n$%u\r\n", strlen(options->topic), options->topic,
        options->payloadBytes);
}

static size_t redisGreet(
    const struct options *options, const struct connection *connection, uint8_t *out) {
    if (connection->isPublisher) return (size_t)sprintf((char *)out, "PING\r\n");
    return (size_t)sprintf((char *)out, "SUBSCRIBE %s\r\n", options->topic);
}

static enum found redisParse(
    const struct options *options, struct connection *connection, const uint8_t *bytes,
    size_t count, struct frame *frame) {
    if (connection->isPublisher) {
        const uint8_t *end = memchr(bytes, '\n', count);
        if (!end) return foundNothing;
        frame->bytes = (size_t)(end - bytes) + 1;
        if (bytes[0] == ':') {
            if (strtoull((const char *)bytes + 1, NULL, 10) != options->subscribers)
                return fault(frame, "published to another number of subscribers");
            return foundAccepted;
        }
        if (bytes[0] == '+') return foundOpen;
        return fault(frame, "Redis refused");
    }
    if (connection->phase != phaseOpen) {
        // "*3 $9 subscribe $n topic :1", six lines.
        const uint8_t *at = bytes;
        for (int line = 0; line < 6; line++) {
            const uint8_t *end = memchr(at, '\n', count - (size_t)(at - bytes));
            if (!end) return foundNothing;
            at = end + 1;
        }
        if (bytes[0] != '*') return fault(frame, "Redis refused a subscription");
        frame->bytes = (size_t)(at - bytes);
        return foundOpen;
    }
    size_t whole = redisHeadBytes + options->payloadBytes + 2;
    if (count < whole) return foundNothing;
    if (memcmp(bytes, redisHead, redisHeadBytes) != 0) return fault(frame, "not a message");
    frame->bytes = whole;
    frame->payload = bytes + redisHeadBytes;
    frame->payloadBytes = options->payloadBytes;
    return foundDelivery;
}

static size_t redisPublish(
    const struct options *options, uint64_t sequence, uint8_t *out, uint8_t **payload) {
    (void)sequence;
    memcpy(out, redisPublishHead, redisPublishHeadBytes);
    *payload = out + redisPublishHeadBytes;
    memcpy(*payload + options->payloadBytes, "\r\n", 2);
    return redisPublishHeadBytes + options->payloadBytes + 2;
}

// MARK: NATS

static char natsHead[64], natsPublishHead[64];
static size_t natsHeadBytes, natsPublishHeadBytes;

static void natsBegin(struct options *options) {
    natsHeadBytes = (size_t)snprintf(
        natsHead, sizeof natsHead, "MSG %s 1 %u\r\n", options->topic, options->payloadBytes);
    natsPublishHeadBytes = (size_t)snprintf(
        natsPublishHead, sizeof natsPublishHead, "PUB %s %u\r\n", options->topic,
        options->payloadBytes);
}

static size_t natsGreet(
    const struct options *options, const struct connection *connection, uint8_t *out) {
    int bytes = sprintf((char *)out, "CONNECT {\"verbose\":false,\"pedantic\":false}\r\n");
    if (!connection->isPublisher)
        bytes += sprintf((char *)out + bytes, "SUB %s 1\r\n", options->topic);
    bytes += sprintf((char *)out + bytes, "PING\r\n");
    return (size_t)bytes;
}

static enum found natsParse(
    const struct options *options, struct connection *connection, const uint8_t *bytes,
    size_t count, struct frame *frame) {
    if (count < 4) return foundNothing;
    if (memcmp(bytes, "MSG ", 4) == 0) {
        size_t whole = natsHeadBytes + options->payloadBytes + 2;
        if (count < whole) return foundNothing;
        if (memcmp(bytes, natsHead, natsHeadBytes) != 0) return fault(frame, "another message");
        frame->bytes = whole;
        frame->payload = bytes + natsHeadBytes;
        frame->payloadBytes = options->payloadBytes;
        return foundDelivery;
    }
    const uint8_t *end = memchr(bytes, '\n', count);
    if (!end) return foundNothing;
    frame->bytes = (size_t)(end - bytes) + 1;
    if (memcmp(bytes, "PONG", 4) == 0) return foundOpen;
    if (memcmp(bytes, "PING", 4) == 0) {
        writeAll(connection->descriptor, "PONG\r\n", 6);
        return foundOther;
    }
    if (memcmp(bytes, "INFO", 4) == 0) return foundOther;
    return fault(frame, "NATS refused");
}

static size_t natsPublish(
    const struct options *options, uint64_t sequence, uint8_t *out, uint8_t **payload) {
    (void)sequence;
    memcpy(out, natsPublishHead, natsPublishHeadBytes);
    *payload = out + natsPublishHeadBytes;
    memcpy(*payload + options->payloadBytes, "\r\n", 2);
    return natsPublishHeadBytes + options->payloadBytes + 2;
}

extern const struct protocol martletProtocol, martletTokenProtocol, martletDurableProtocol;
extern const struct protocol martletDirectProtocol, martletSharedProtocol;
extern const struct protocol mqtt0Protocol, mqtt1Protocol, mqttLastingProtocol, jetstreamProtocol;

static const struct protocol *const elsewhere[] = {
    &martletProtocol, &martletTokenProtocol, &martletDurableProtocol, &martletDirectProtocol,
    &martletSharedProtocol, &mqtt0Protocol, &mqtt1Protocol, &mqttLastingProtocol,
    &jetstreamProtocol};

static const struct protocol protocols[] = {
    {.name = "floor", .greetingsMax = 256, .greet = floorGreet, .parse = floorParse,
     .publish = floorPublish},
    {.name = "redis", .isAccepted = true, .greetingsMax = 256, .greet = redisGreet,
     .parse = redisParse, .publish = redisPublish, .begin = redisBegin},
    {.name = "nats", .greetingsMax = 256, .greet = natsGreet, .parse = natsParse,
     .publish = natsPublish, .begin = natsBegin},
};

const struct protocol *findProtocol(const char *name) {
    for (size_t index = 0; index < sizeof elsewhere / sizeof *elsewhere; index++)
        if (!strcmp(name, elsewhere[index]->name)) return elsewhere[index];
    for (size_t index = 0; index < sizeof protocols / sizeof *protocols; index++)
        if (!strcmp(name, protocols[index].name)) return protocols + index;
    fail("no protocol '%s'", name);
}
