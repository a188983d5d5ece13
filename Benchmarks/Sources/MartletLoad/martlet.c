// SPDX-License-Identifier: Apache-2.0
//
// Martlet's protocol, as far as a fanout needs it: devices register themselves, the administrator
// acts as their sender, subscribes them a thousand at a time and publishes. Source: WireProtocol.md.

#include "load.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char administratorKey[256];
struct credentials {
    char token[64], deviceKey[64];
};
static struct credentials *devices;
static uint32_t deviceCount, greetedCount;

static uint8_t *put16(uint8_t *at, uint64_t value) { memcpy(at, &value, 2); return at + 2; }
static uint8_t *put32(uint8_t *at, uint64_t value) { memcpy(at, &value, 4); return at + 4; }
static uint8_t *put64(uint8_t *at, uint64_t value) { memcpy(at, &value, 8); return at + 8; }
static uint8_t *putText(uint8_t *at, const char *text) {
    size_t bytes = strlen(text);
    at = put16(at, bytes);
    memcpy(at, text, bytes);
    return at + bytes;
}
static uint64_t load(const uint8_t *at, size_t bytes) {
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
}

/// Fills in the length of the frame that begins at `out` and ends at `end`.
static size_t finish(uint8_t *out, uint8_t *end) {
    put32(out, (uint64_t)(end - out - 4));
    return (size_t)(end - out);
}

static uint8_t *helloHead(uint8_t *out, uint8_t role) {
    out[4] = 0x01;
    memcpy(out + 5, "MRTL", 4);
    out[9] = 1;
    out[10] = role;
    return out + 11;
}

static size_t administratorHello(uint8_t *out, const char *project) {
    uint8_t *at = putText(helloHead(out, 4), administratorKey);
    return finish(out, putText(at, project));
}

/// Reads one frame with ordinary calls; returns its type.
static uint8_t readFrame(int descriptor, uint8_t *body, size_t *bytes) {
    uint8_t head[5];
    readAll(descriptor, head, 5);
    *bytes = load(head, 4) - 1;
    readAll(descriptor, body, *bytes);
    return head[4];
}

static void loadDevices(const struct options *options) {
    FILE *list = fopen(options->loadFrom, "r");
    if (!list) fail("no devices in '%s'", options->loadFrom);
    while (deviceCount < options->subscribers &&
           fscanf(list, "%63s %63s", devices[deviceCount].token, devices[deviceCount].deviceKey) == 2)
        deviceCount++;
    fclose(list);
    if (deviceCount < options->subscribers) fail("only %u devices are saved", deviceCount);
}

static void saveDevices(const struct options *options) {
    FILE *list = fopen(options->saveTo, "w");
    if (!list) fail("'%s' cannot be written", options->saveTo);
    for (uint32_t index = 0; index < deviceCount; index++)
        fprintf(list, "%s %s\n", devices[index].token, devices[index].deviceKey);
    fclose(list);
}

static void begin(struct options *options) {
    static uint8_t frame[1 << 18];
    int file = open(options->administratorKey, O_RDONLY);
    ssize_t got = file < 0 ? -1 : read(file, administratorKey, sizeof administratorKey - 1);
    if (got <= 0) fail("no administrator key in '%s'", options->administratorKey);
    close(file);
    administratorKey[strcspn(administratorKey, "\r\n")] = 0;
    devices = calloc(options->subscribers, sizeof *devices);
    if (options->loadFrom) loadDevices(options);
    int descriptor = connectBlocking(options);
    writeAll(descriptor, frame, administratorHello(frame, ""));
    size_t bytes;
    if (readFrame(descriptor, frame, &bytes) != 0x02) fail("the administrator was not welcomed");
    frame[4] = 0x30;
    uint8_t *at = putText(put32(frame + 5, 1), options->project);
    *at++ = 0;
    writeAll(descriptor, frame, finish(frame, at));
    // It may exist from an earlier run: then the word is 5.
    uint8_t type = readFrame(descriptor, frame, &bytes);
    if (type != 0x31 && !(type == 0x05 && load(frame + 4, 2) == 5)) fail("no project was made");
    close(descriptor);
}

static size_t greet(
    const struct options *options, const struct connection *connection, uint8_t *out) {
    if (connection->isPublisher) return administratorHello(out, options->project);
    if (options->loadFrom) {
        const struct credentials *device = devices + greetedCount++;
        uint8_t *at = putText(helloHead(out, 1), options->project);
        at = putText(putText(at, device->token), device->deviceKey);
        *at++ = 1;  // active
        return finish(out, put16(at, 0));
    }
    uint8_t *at = putText(helloHead(out, 3), options->project);
    at = putText(at, "com.example.bench");
    *at++ = 1;
    return finish(out, at);
}

static enum found parse(
    const struct options *options, struct connection *connection, const uint8_t *bytes,
    size_t count, struct frame *frame) {
    if (count < 5) return foundNothing;
    size_t whole = 4 + load(bytes, 4);
    if (count < whole) return foundNothing;
    frame->bytes = whole;
    switch (bytes[4]) {
        case 0x10:
            if (whole < options->payloadBytes + 34) {
                frame->fault = "a message too short";
                return foundFault;
            }
            frame->identity = load(bytes + 5, 8);
            frame->payload = bytes + whole - options->payloadBytes;
            frame->payloadBytes = options->payloadBytes;
            return foundDelivery;
        case 0x21:
            if (load(bytes + 17, 8) != options->subscribers) {
                frame->fault = "accepted for another number of recipients";
                return foundFault;
            }
            return foundAccepted;
        case 0x02:
            if (!connection->isPublisher && !options->loadFrom) {
                size_t token = load(bytes + 39, 2), key = load(bytes + 41 + token, 2);
                if (token > 63 || key > 63 || deviceCount >= options->subscribers)
                    fail("unexpected credentials");
                memcpy(devices[deviceCount].token, bytes + 41, token);
                memcpy(devices[deviceCount].deviceKey, bytes + 43 + token, key);
                deviceCount++;
            }
            return foundOpen;
        case 0x04: return foundAnswer;
        case 0x16:
        case 0x23: return foundOther;
        case 0x05: {
            static char text[256];
            size_t field = load(bytes + 19, 2), length = load(bytes + 21 + field, 2);
            snprintf(text, sizeof text, "%.*s", (int)length, bytes + 23 + field);
            frame->fault = text;
            return foundFault;
        }
        default: frame->fault = "an unexpected frame"; return foundFault;
    }
}

/// Subscribes everyone, with up to 16 requests of 1000 tokens outstanding.
static void prepare(const struct options *options, int publisher) {
    static uint8_t frame[1 << 18];
    if (options->loadFrom) return;
    if (options->saveTo) saveDevices(options);
    uint32_t sent = 0, answered = 0, batches = (deviceCount + 999) / 1000;
    uint64_t began = nowNanoseconds();
    while (answered < batches) {
        while (sent < batches && sent - answered < 16) {
            uint32_t first = sent * 1000, last = first + 1000;
            if (last > deviceCount) last = deviceCount;
            frame[4] = 0x22;
            uint8_t *at = put32(frame + 5, sent + 1);
            *at++ = 1;
            at = put16(putText(at, options->topic), last - first);
            for (uint32_t index = first; index < last; index++) at = putText(at, devices[index].token);
            writeAll(publisher, frame, finish(frame, at));
            sent++;
        }
        size_t bytes;
        uint8_t type = readFrame(publisher, frame, &bytes);
        if (type != 0x23 || load(frame + 6, 2) != 0) fail("a subscription was refused");
        answered++;
    }
    fprintf(
        stderr, "bench-load: %u subscriptions in %.1f ms\n", deviceCount,
        (double)(nowNanoseconds() - began) / 1e6);
}

static size_t publishWith(
    const struct options *options, uint64_t sequence, uint8_t *out, uint8_t **payload,
    uint32_t timeToLive) {
    out[4] = 0x20;
    uint8_t *at = put32(out + 5, (uint32_t)sequence + 1);
    *at++ = 0;
    *at++ = 2;
    at = put32(putText(at, options->topic), timeToLive);
    *at++ = 0;
    // No collapse key, package name or idempotency key; at once.
    at = put64(putText(putText(putText(at, ""), ""), ""), 0);
    // One data entry with the key "d".
    *at++ = 4;
    at = put16(at, 3 + options->payloadBytes);
    at = putText(at, "d");
    *payload = at;
    return finish(out, at + options->payloadBytes);
}

static size_t publishNow(
    const struct options *options, uint64_t sequence, uint8_t *out, uint8_t **payload) {
    return publishWith(options, sequence, out, payload, 0);
}

static size_t publishDurable(
    const struct options *options, uint64_t sequence, uint8_t *out, uint8_t **payload) {
    return publishWith(options, sequence, out, payload, UINT32_MAX);
}

static size_t acknowledge(uint64_t identity, uint8_t *out) {
    out[4] = 0x11;
    return finish(out, put16(put64(out + 5, identity), 0));
}

static size_t ping(uint8_t *out) {
    out[4] = 0x03;
    return finish(out, put64(out + 5, 0));
}

const struct protocol martletProtocol = {
    .name = "martlet", .isAccepted = true, .greetingsMax = 1024, .greet = greet, .parse = parse,
    .publish = publishNow, .prepare = prepare, .begin = begin};

const struct protocol martletDurableProtocol = {
    .name = "martlet-durable", .isAccepted = true,
    // As the client library does (DeviceOptions, WireProtocol).
    .acknowledgedTogether = 10, .acknowledgementMilliseconds = 1000,
    .greetingsMax = 1024, .greet = greet, .parse = parse, .publish = publishDurable,
    .acknowledge = acknowledge, .ask = ping, .prepare = prepare, .begin = begin};

const char *martletToken(uint32_t device) { return devices[device].token; }
