// SPDX-License-Identifier: Apache-2.0
//
// MQTT 3.1.1 as far as the measurements need it: a fanout with QoS 0 and 1 on clean sessions, and
// sessions that last (clean session 0, QoS 1), which is what a device of Martlet is to be compared
// with. Source: OASIS MQTT 3.1.1.

#include "load.h"

#include <string.h>

static uint32_t clients;

static size_t putLength(uint8_t *out, size_t length) {
    size_t at = 0;
    do {
        out[at] = (uint8_t)(length & 127);
        length >>= 7;
        if (length) out[at] |= 128;
        at++;
    } while (length);
    return at;
}

static size_t putText(uint8_t *out, const char *text) {
    size_t bytes = strlen(text);
    out[0] = (uint8_t)(bytes >> 8);
    out[1] = (uint8_t)bytes;
    memcpy(out + 2, text, bytes);
    return bytes + 2;
}

/// Where messages go: one topic, or with --direct one for each subscriber.
static const char *topicOf(const struct options *options, uint64_t subscriber, char out[64]) {
    if (!options->isDirect) return options->topic;
    snprintf(
        out, 64, "%s/%llu", options->topic,
        (unsigned long long)(subscriber % options->subscribers));
    return out;
}

static uint8_t *putConnect(uint8_t *at, const char *client, bool isClean) {
    *at++ = 0x10;
    at += putLength(at, 10 + 2 + strlen(client));
    at += putText(at, "MQTT");
    *at++ = 4;
    *at++ = isClean ? 2 : 0;
    *at++ = 0;  // no keep-alive
    *at++ = 0;
    return at + putText(at, client);
}

static uint8_t *putSubscribe(uint8_t *at, const char *topic, int quality) {
    *at++ = 0x82;
    at += putLength(at, 2 + 2 + strlen(topic) + 1);
    *at++ = 0;
    *at++ = 1;
    at += putText(at, topic);
    *at++ = (uint8_t)quality;
    return at;
}

static size_t greetWith(
    const struct options *options, const struct connection *connection, uint8_t *out, int quality) {
    char client[32];
    snprintf(client, sizeof client, "c%u-%u", options->firstSource, clients++);
    uint8_t *at = putConnect(out, client, true);
    if (!connection->isPublisher) at = putSubscribe(at, options->topic, quality);
    return (size_t)(at - out);
}

/// A session that lasts subscribes once and afterwards only comes back.
static size_t greetLasting(
    const struct options *options, const struct connection *connection, uint8_t *out) {
    if (connection->isPublisher) return (size_t)(putConnect(out, "publisher", true) - out);
    char client[32], topic[64];
    snprintf(client, sizeof client, "d%u", clients);
    uint8_t *at = putConnect(out, client, false);
    if (!options->loadFrom) at = putSubscribe(at, topicOf(options, clients, topic), 1);
    clients++;
    return (size_t)(at - out);
}

static size_t greet0(
    const struct options *options, const struct connection *connection, uint8_t *out) {
    return greetWith(options, connection, out, 0);
}

static size_t greet1(
    const struct options *options, const struct connection *connection, uint8_t *out) {
    return greetWith(options, connection, out, 1);
}

static enum found fault(struct frame *frame, const char *text) {
    frame->fault = text;
    return foundFault;
}

static enum found parse(
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
            // What comes next is the SUBACK, but for those who do not subscribe.
            return connection->isPublisher || options->loadFrom ? foundOpen : foundOther;
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

static size_t publishWith(
    const struct options *options, uint64_t sequence, uint8_t *out, uint8_t **payload,
    int quality) {
    char buffer[64];
    const char *topic = topicOf(options, sequence, buffer);
    uint8_t *at = out;
    *at++ = (uint8_t)(0x30 | quality << 1);
    at += putLength(at, 2 + strlen(topic) + (quality ? 2 : 0) + options->payloadBytes);
    at += putText(at, topic);
    if (quality) {
        uint16_t packet = (uint16_t)(sequence % 65535 + 1);
        *at++ = (uint8_t)(packet >> 8);
        *at++ = (uint8_t)packet;
    }
    *payload = at;
    return (size_t)(at - out) + options->payloadBytes;
}

static size_t publish0(
    const struct options *options, uint64_t sequence, uint8_t *out, uint8_t **payload) {
    return publishWith(options, sequence, out, payload, 0);
}

static size_t publish1(
    const struct options *options, uint64_t sequence, uint8_t *out, uint8_t **payload) {
    return publishWith(options, sequence, out, payload, 1);
}

static size_t acknowledge(uint64_t identity, uint8_t *out) {
    out[0] = 0x40;
    out[1] = 2;
    out[2] = (uint8_t)(identity >> 8);
    out[3] = (uint8_t)identity;
    return 4;
}

/// SUBSCRIBE with as many topics as a batch has, none of them subscribed to before.
static size_t subscribe(const struct options *options, uint64_t number, uint8_t *out) {
    char topic[32];
    uint64_t first = number * options->batch;
    size_t length = 2;
    for (uint32_t index = 0; index < options->batch; index++)
        length += (size_t)snprintf(
            topic, sizeof topic, "s/%llu", (unsigned long long)(first + index)) + 3;
    uint8_t *at = out;
    *at++ = 0x82;
    at += putLength(at, length);
    *at++ = (uint8_t)((number % 65535 + 1) >> 8);
    *at++ = (uint8_t)(number % 65535 + 1);
    for (uint32_t index = 0; index < options->batch; index++) {
        snprintf(topic, sizeof topic, "s/%llu", (unsigned long long)(first + index));
        at += putText(at, topic);
        *at++ = 1;
    }
    return (size_t)(at - out);
}

// Mosquitto listens with a backlog of 100.
const struct protocol mqtt0Protocol = {
    .name = "mqtt0", .greetingsMax = 64, .greet = greet0, .parse = parse, .publish = publish0};

const struct protocol mqtt1Protocol = {
    .name = "mqtt1", .isAccepted = true, .acknowledgesEach = true, .greetingsMax = 64,
    .greet = greet1, .parse = parse, .publish = publish1, .acknowledge = acknowledge};

const struct protocol mqttLastingProtocol = {
    .name = "mqtt-lasting", .isAccepted = true, .acknowledgesEach = true, .greetingsMax = 64,
    .greet = greetLasting, .parse = parse, .publish = publish1, .acknowledge = acknowledge,
    .subscribe = subscribe};
