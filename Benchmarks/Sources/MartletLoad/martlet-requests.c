// SPDX-License-Identifier: Apache-2.0
//
// Martlet's protocol for durable work over the wire: messages to one token each, and topic changes,
// single or a thousand at a time. Devices are those that an earlier run saved. Rests on martlet.c.

#include "load.h"

#include <string.h>

extern const struct protocol martletDurableProtocol;

static uint8_t *put(uint8_t *at, uint64_t value, size_t bytes) {
    memcpy(at, &value, bytes);
    return at + bytes;
}

static uint8_t *putText(uint8_t *at, const char *text) {
    size_t bytes = strlen(text);
    at = put(at, bytes, 2);
    memcpy(at, text, bytes);
    return at + bytes;
}

static size_t finish(uint8_t *out, uint8_t *end) {
    put(out, (uint64_t)(end - out - 4), 4);
    return (size_t)(end - out);
}

static uint64_t load(const uint8_t *at, size_t bytes) {
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
}

static size_t greet(
    const struct options *options, const struct connection *connection, uint8_t *out) {
    return martletDurableProtocol.greet(options, connection, out);
}

static enum found parse(
    const struct options *options, struct connection *connection, const uint8_t *bytes,
    size_t count, struct frame *frame) {
    bool isAnswer = count >= 5 && (bytes[4] == 0x21 || bytes[4] == 0x23);
    if (!isAnswer) return martletDurableProtocol.parse(options, connection, bytes, count, frame);
    size_t whole = 4 + load(bytes, 4);
    if (count < whole) return foundNothing;
    frame->bytes = whole;
    bool isWhole = bytes[4] == 0x21
        ? load(bytes + 17, 8) == 1
        : load(bytes + 9, 2) == options->batch && load(bytes + 11, 2) == 0;
    if (isWhole) return foundAccepted;
    frame->fault = "not accepted for all";
    return foundFault;
}

static size_t publish(
    const struct options *options, uint64_t sequence, uint8_t *out, uint8_t **payload) {
    out[4] = 0x20;
    uint8_t *at = put(out + 5, (uint32_t)sequence + 1, 4);
    *at++ = 0;
    *at++ = 1;
    at = putText(at, martletToken((uint32_t)(sequence % options->subscribers)));
    at = put(at, UINT32_MAX, 4);
    *at++ = 0;
    // No collapse key, package name or idempotency key; at once.
    at = put(putText(putText(putText(at, ""), ""), ""), 0, 8);
    *at++ = 4;
    at = put(at, 3 + options->payloadBytes, 2);
    *payload = putText(at, "d");
    return finish(out, *payload + options->payloadBytes);
}

/// The devices one after another into a topic, then into the next.
static size_t subscribe(const struct options *options, uint64_t number, uint8_t *out) {
    char topic[32];
    uint64_t first = number * options->batch;
    snprintf(
        topic, sizeof topic, "s-%u-%llu", options->batch,
        (unsigned long long)(first / options->subscribers));
    out[4] = 0x22;
    uint8_t *at = put(out + 5, number + 1, 4);
    *at++ = 1;
    at = put(putText(at, topic), options->batch, 2);
    for (uint32_t index = 0; index < options->batch; index++)
        at = putText(at, martletToken((uint32_t)((first + index) % options->subscribers)));
    return finish(out, at);
}

static size_t acknowledge(uint64_t identity, uint8_t *out) {
    return martletDurableProtocol.acknowledge(identity, out);
}

static size_t ask(uint8_t *out) { return martletDurableProtocol.ask(out); }

static void begin(struct options *options) { martletDurableProtocol.begin(options); }

const struct protocol martletDirectProtocol = {
    .name = "martlet-direct", .isAccepted = true, .acknowledgedTogether = 1,
    .greetingsMax = 1024, .greet = greet, .parse = parse, .publish = publish,
    .acknowledge = acknowledge, .ask = ask, .subscribe = subscribe, .begin = begin};
