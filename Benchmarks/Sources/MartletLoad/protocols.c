// SPDX-License-Identifier: Apache-2.0
//
// The protocols, as far as a fanout needs them: Redis pub/sub (RESP2), NATS, MQTT 3.1.1 with QoS 0
// and 1, and the length-prefixed frames of the kernel floor. Martlet's is in martlet.c. Parsers
// know the one topic and payload size of the run, so that a delivery costs a comparison.
//
// Source: redis.io RESP2; docs.nats.io client protocol; OASIS MQTT 3.1.1.

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

// MARK: MQTT

static uint32_t mqttClients;

static size_t mqttLength(uint8_t *out, size_t length) {
    size_t at = 0;
    do {
        out[at] = (uint8_t)(length & 127);
        length >>= 7;
        if (length) out[at] |= 128;
        at++;
    } while (length);
    return at;
}

static size_t mqttText(uint8_t *out, const char *text) {
    size_t bytes = strlen(text);
    out[0] = (uint8_t)(bytes >> 8);
    out[1] = (uint8_t)bytes;
    memcpy(out + 2, text, bytes);
    return bytes + 2;
}

static size_t mqttGreetWith(
    const struct options *options, const struct connection *connection, uint8_t *out, int quality) {
    char client[32];
    snprintf(client, sizeof client, "c%u-%u", options->firstSource, mqttClients++);
    uint8_t *at = out;
    *at++ = 0x10;
    at += mqttLength(at, 10 + 2 + strlen(client));
    at += mqttText(at, "MQTT");
    *at++ = 4;
    *at++ = 2;  // clean session
    *at++ = 0;  // no keep-alive
    *at++ = 0;
    at += mqttText(at, client);
    if (!connection->isPublisher) {
        *at++ = 0x82;
        at += mqttLength(at, 2 + 2 + strlen(options->topic) + 1);
        *at++ = 0;
        *at++ = 1;
        at += mqttText(at, options->topic);
        *at++ = (uint8_t)quality;
    }
    return (size_t)(at - out);
}

static size_t mqttGreet0(
    const struct options *options, const struct connection *connection, uint8_t *out) {
    return mqttGreetWith(options, connection, out, 0);
}

static size_t mqttGreet1(
    const struct options *options, const struct connection *connection, uint8_t *out) {
    return mqttGreetWith(options, connection, out, 1);
}

static enum found mqttParse(
    const struct options *options, struct connection *connection, const uint8_t *bytes,
    size_t count, struct frame *frame) {
    (void)connection;
    size_t length = 0, at = 1;
    for (int shift = 0;; shift += 7) {
        if (at >= count) return foundNothing;
        length |= (size_t)(bytes[at] & 127) << shift;
        if (!(bytes[at++] & 128)) break;
    }
    if (count < at + length) return foundNothing;
    frame->bytes = at + length;
    switch (bytes[0] >> 4) {
        case 2:  // CONNACK
            if (bytes[at + 1] != 0) return fault(frame, "MQTT refused a connection");
            return connection->isPublisher ? foundOpen : foundOther;
        case 9:  // SUBACK
            if (bytes[at + 2] > 2) return fault(frame, "MQTT refused a subscription");
            return foundOpen;
        case 4:  // PUBACK
            return foundAccepted;
        case 3: {
            size_t quality = (bytes[0] >> 1) & 3;
            size_t head = 2 + ((size_t)bytes[at] << 8 | bytes[at + 1]);
            if (quality) {
                frame->identity = (uint64_t)bytes[at + head] << 8 | bytes[at + head + 1];
                head += 2;
            }
            frame->payload = bytes + at + head;
            frame->payloadBytes = length - head;
            if (frame->payloadBytes != options->payloadBytes)
                return fault(frame, "another message");
            return foundDelivery;
        }
        default: return fault(frame, "an unexpected packet");
    }
}

static size_t mqttPublishWith(
    const struct options *options, uint64_t sequence, uint8_t *out, uint8_t **payload,
    int quality) {
    uint8_t *at = out;
    *at++ = (uint8_t)(0x30 | quality << 1);
    at += mqttLength(at, 2 + strlen(options->topic) + (quality ? 2 : 0) + options->payloadBytes);
    at += mqttText(at, options->topic);
    if (quality) {
        uint16_t packet = (uint16_t)(sequence % 65535 + 1);
        *at++ = (uint8_t)(packet >> 8);
        *at++ = (uint8_t)packet;
    }
    *payload = at;
    return (size_t)(at - out) + options->payloadBytes;
}

static size_t mqttPublish0(
    const struct options *options, uint64_t sequence, uint8_t *out, uint8_t **payload) {
    return mqttPublishWith(options, sequence, out, payload, 0);
}

static size_t mqttPublish1(
    const struct options *options, uint64_t sequence, uint8_t *out, uint8_t **payload) {
    return mqttPublishWith(options, sequence, out, payload, 1);
}

static size_t mqttAcknowledge(uint64_t identity, uint8_t *out) {
    out[0] = 0x40;
    out[1] = 2;
    out[2] = (uint8_t)(identity >> 8);
    out[3] = (uint8_t)identity;
    return 4;
}

extern const struct protocol martletProtocol, martletDurableProtocol;

static const struct protocol protocols[] = {
    {.name = "floor", .greetingsMax = 256, .greet = floorGreet, .parse = floorParse,
     .publish = floorPublish},
    {.name = "redis", .isAccepted = true, .greetingsMax = 256, .greet = redisGreet,
     .parse = redisParse, .publish = redisPublish, .begin = redisBegin},
    {.name = "nats", .greetingsMax = 256, .greet = natsGreet, .parse = natsParse,
     .publish = natsPublish, .begin = natsBegin},
    // Mosquitto listens with a backlog of 100.
    {.name = "mqtt0", .greetingsMax = 64, .greet = mqttGreet0, .parse = mqttParse,
     .publish = mqttPublish0},
    {.name = "mqtt1", .isAccepted = true, .acknowledgesEach = true, .greetingsMax = 64,
     .greet = mqttGreet1, .parse = mqttParse, .publish = mqttPublish1,
     .acknowledge = mqttAcknowledge},
};

const struct protocol *findProtocol(const char *name) {
    if (!strcmp(name, "martlet")) return &martletProtocol;
    if (!strcmp(name, "martlet-durable")) return &martletDurableProtocol;
    for (size_t index = 0; index < sizeof protocols / sizeof *protocols; index++)
        if (!strcmp(name, protocols[index].name)) return protocols + index;
    fail("no protocol '%s'", name);
}
