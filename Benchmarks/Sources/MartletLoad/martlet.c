// SPDX-License-Identifier: Apache-2.0
//
// Martlet's protocol, as far as a fanout needs it: devices register themselves, the administrator
// acts as their sender, subscribes them a thousand at a time and publishes. Source: WireProtocol.md.

#include "martlet.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static char administratorKey[256];
static struct credentials *devices;
static char registrationKey[256];
static uint32_t deviceMax, deviceCount, greetedCount;

const char *martletToken(uint32_t device) { return devices[device].token; }

size_t administratorHello(uint8_t *out, const char *project) {
    uint8_t *at = putText(helloHead(out, roleAdministrator), administratorKey);
    return finish(out, putText(at, project));
}

/// Reads one frame with ordinary calls; returns its type.
uint8_t readFrame(int descriptor, uint8_t *body, size_t *bytes) {
    uint8_t head[5];
    readAll(descriptor, head, 5);
    *bytes = load(head, 4) - 1;
    readAll(descriptor, body, *bytes);
    return head[4];
}

static void loadDevices(const struct options *options) {
    FILE *list = fopen(options->loadFrom, "r");
    if (!list) fail("no devices in '%s'", options->loadFrom);
    while (deviceCount < deviceMax &&
           fscanf(list, "%63s %63s", devices[deviceCount].token, devices[deviceCount].deviceKey) == 2)
        deviceCount++;
    fclose(list);
    if (deviceCount < deviceMax) fail("only %u devices are saved", deviceCount);
}

static void saveDevices(const struct options *options) {
    FILE *list = fopen(options->saveTo, "w");
    if (!list) fail("'%s' cannot be written", options->saveTo);
    for (uint32_t index = 0; index < deviceCount; index++)
        fprintf(list, "%s %s\n", devices[index].token, devices[index].deviceKey);
    fclose(list);
}

/// The project's registration key lies beside the administrator's, as `martlet project create` leaves it.
static FILE *openRegistrationKey(const struct options *options, const char *mode) {
    static char path[4096];
    const char *slash = strrchr(options->administratorKey, '/');
    int folder = slash ? (int)(slash - options->administratorKey) + 1 : 0;
    snprintf(path, sizeof path, "%.*sregistration-%s.key", folder, options->administratorKey,
             options->project);
    return fopen(path, mode);
}

/// A broker from before registration keys tells none.
static void keepRegistrationKey(const struct options *options, const uint8_t *project, size_t bytes) {
    size_t at = 4 + 2 + load(project + 4, 2) + 8 + 1 + 8 + 8 + 4 + 1;
    if (bytes < at + 2) return;
    size_t count = load(project + at, 2);
    if (count >= sizeof registrationKey || bytes < at + 2 + count) fail("unexpected project");
    memcpy(registrationKey, project + at + 2, count);
    FILE *file = openRegistrationKey(options, "w");
    if (!file) fail("the registration key cannot be kept");
    fprintf(file, "%s\n", registrationKey);
    fclose(file);
}

static void readRegistrationKey(const struct options *options) {
    FILE *file = openRegistrationKey(options, "r");
    if (!file) return;
    if (fscanf(file, "%255s", registrationKey) != 1) fail("no registration key in its file");
    fclose(file);
}

static void makeProject(const struct options *options) {
    static uint8_t frame[requestBytesMax];
    int descriptor = connectBlocking(options);
    writeAll(descriptor, frame, administratorHello(frame, ""));
    size_t bytes;
    if (readFrame(descriptor, frame, &bytes) != frameWelcome)
        fail("the administrator was not welcomed");
    frame[4] = frameCreateProject;
    uint8_t *at = putText(put32(frame + 5, 1), options->project);
    *at++ = 0;
    writeAll(descriptor, frame, finish(frame, at));
    uint8_t type = readFrame(descriptor, frame, &bytes);
    // It may exist from an earlier run.
    if (type != frameProjectCreated && !(type == frameError && load(frame + 4, 2) == wordAlreadyExists))
        fail("no project was made");
    if (type == frameProjectCreated) keepRegistrationKey(options, frame, bytes);
    else readRegistrationKey(options);
    close(descriptor);
}

static void begin(struct options *options) {
    int file = open(options->administratorKey, O_RDONLY);
    ssize_t got = file < 0 ? -1 : read(file, administratorKey, sizeof administratorKey - 1);
    if (got <= 0) fail("no administrator key in '%s'", options->administratorKey);
    close(file);
    administratorKey[strcspn(administratorKey, "\r\n")] = 0;
    deviceMax = options->subscribers * (options->appsEach ? options->appsEach : 1);
    devices = calloc(deviceMax, sizeof *devices);
    if (options->loadFrom) loadDevices(options);
    makeProject(options);
    findDialect(options);
}

size_t deviceHello(const struct options *options, uint8_t *out) {
    if (!options->loadFrom) {
        uint8_t *at = putText(helloHead(out, roleNewDevice), options->project);
        at = putText(at, "com.example.bench");
        *at++ = 1;  // android
        if (registrationKey[0]) {
            *at++ = 1;  // a registration key
            at = putText(at, registrationKey);
        }
        return finish(out, at);
    }
    const struct credentials *device = devices + greetedCount++;
    uint8_t *at = putText(helloHead(out, roleDevice), options->project);
    at = putText(putText(at, device->token), device->deviceKey);
    if (isFirstDialect) return finish(out, put64(at, 0));
    *at++ = 1;  // active
    return finish(out, put16(at, 0));
}

void takeCredentials(const struct options *options, const uint8_t *welcome) {
    if (options->loadFrom) return;
    size_t token = load(welcome + 39, 2), key = load(welcome + 41 + token, 2);
    if (token > 63 || key > 63 || deviceCount >= deviceMax) fail("unexpected credentials");
    memcpy(devices[deviceCount].token, welcome + 41, token);
    memcpy(devices[deviceCount].deviceKey, welcome + 43 + token, key);
    deviceCount++;
}

static size_t greet(
    const struct options *options, const struct connection *connection, uint8_t *out) {
    if (connection->isPublisher) return administratorHello(out, options->project);
    return deviceHello(options, out);
}

static enum found parse(
    const struct options *options, struct connection *connection, const uint8_t *bytes,
    size_t count, struct frame *frame) {
    if (count < 5) return foundNothing;
    size_t whole = 4 + load(bytes, 4);
    if (count < whole) return foundNothing;
    frame->bytes = whole;
    switch (bytes[4]) {
        case frameMessage:
            if (whole < options->payloadBytes + 30) {
                frame->fault = "a message too short";
                return foundFault;
            }
            frame->identity = load(bytes + 5, 8);
            frame->payload = bytes + whole - options->payloadBytes;
            frame->payloadBytes = options->payloadBytes;
            return foundDelivery;
        case frameAccepted:
            if (load(bytes + 17, 8) != (protocol->isDirect ? 1 : options->subscribers)) {
                frame->fault = "accepted for another number of recipients";
                return foundFault;
            }
            return foundAccepted;
        case frameWelcome:
            if (!connection->isPublisher) takeCredentials(options, bytes);
            return foundOpen;
        case framePong: return foundAnswer;
        case frameConfirmed: return foundOther;
        case frameTopicResult:
            if (load(bytes + 11, 2) == 0) return foundAccepted;
            frame->fault = "a topic change was not accepted for all";
            return foundFault;
        case frameError: {
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
    static uint8_t frame[requestBytesMax];
    if (options->loadFrom) return;
    if (options->saveTo) saveDevices(options);
    uint32_t batches = (deviceCount + topicChangeTokensMax - 1) / topicChangeTokensMax;
    uint32_t sent = 0, answered = 0;
    uint64_t began = nowNanoseconds();
    while (answered < batches) {
        while (sent < batches && sent - answered < 16) {
            uint32_t first = sent * topicChangeTokensMax, last = first + topicChangeTokensMax;
            if (last > deviceCount) last = deviceCount;
            frame[4] = frameTopicChange;
            uint8_t *at = put32(frame + 5, sent + 1);
            *at++ = 1;
            at = put16(putText(at, options->topic), last - first);
            for (uint32_t index = first; index < last; index++) at = putText(at, devices[index].token);
            writeAll(publisher, frame, finish(frame, at));
            sent++;
        }
        size_t bytes;
        uint8_t type = readFrame(publisher, frame, &bytes);
        if (type != frameTopicResult || load(frame + 6, 2) != 0) fail("a subscription was refused");
        answered++;
    }
    fprintf(
        stderr, "bench-load: %u subscriptions in %.1f ms\n", deviceCount,
        (double)(nowNanoseconds() - began) / 1e6);
}

size_t sendFrame(
    const struct options *options, uint64_t sequence, uint8_t kind, const char *target,
    uint32_t timeToLive, uint8_t *out, uint8_t **payload) {
    out[4] = frameSend;
    uint8_t *at = put32(out + 5, (uint32_t)sequence + 1);
    *at++ = 0;
    *at++ = kind;
    at = put32(putText(at, target), timeToLive);
    *at++ = 0;
    // No collapse key, package name or idempotency key; at once.
    if (!isFirstDialect) at = put64(putText(putText(putText(at, ""), ""), ""), 0);
    // One data entry with the key "d".
    *at++ = 4;
    at = put16(at, 3 + options->payloadBytes);
    *payload = putText(at, "d");
    return finish(out, *payload + options->payloadBytes);
}

static const char *tokenOf(const struct options *options, uint64_t sequence) {
    return martletToken((uint32_t)(sequence % options->subscribers));
}

static size_t publishLive(
    const struct options *options, uint64_t sequence, uint8_t *out, uint8_t **payload) {
    return sendFrame(options, sequence, targetTopic, options->topic, liveNever, out, payload);
}

static size_t publishDurable(
    const struct options *options, uint64_t sequence, uint8_t *out, uint8_t **payload) {
    return sendFrame(options, sequence, targetTopic, options->topic, liveAlways, out, payload);
}

static size_t publishLiveToOne(
    const struct options *options, uint64_t sequence, uint8_t *out, uint8_t **payload) {
    return sendFrame(
        options, sequence, targetToken, tokenOf(options, sequence), liveNever, out, payload);
}

static size_t publishDurableToOne(
    const struct options *options, uint64_t sequence, uint8_t *out, uint8_t **payload) {
    return sendFrame(
        options, sequence, targetToken, tokenOf(options, sequence), liveAlways, out, payload);
}

/// The devices one after another into a topic, then into the next.
static size_t subscribe(const struct options *options, uint64_t number, uint8_t *out) {
    char topic[32];
    uint64_t first = number * options->batch;
    snprintf(
        topic, sizeof topic, "s-%u-%llu", options->batch,
        (unsigned long long)(first / options->subscribers));
    out[4] = frameTopicChange;
    uint8_t *at = put32(out + 5, number + 1);
    *at++ = 1;
    at = put16(putText(at, topic), options->batch);
    for (uint32_t index = 0; index < options->batch; index++)
        at = putText(at, tokenOf(options, first + index));
    return finish(out, at);
}

static size_t acknowledge(uint64_t identity, uint8_t *out) {
    out[4] = frameAcknowledge;
    return finish(out, put16(put64(out + 5, identity), 0));
}

static size_t ping(uint8_t *out) {
    out[4] = framePing;
    return finish(out, put64(out + 5, 0));
}

// Messages to the topic, and messages to one token each, with a time to live of 0 and stored. Stored
// ones are acknowledged as the client library does (DeviceOptions, WireProtocol).

const struct protocol martletProtocol = {
    .name = "martlet", .isAccepted = true, .greetingsMax = 1024, .greet = greet, .parse = parse,
    .publish = publishLive, .prepare = prepare, .begin = begin};

const struct protocol martletTokenProtocol = {
    .name = "martlet-token", .isAccepted = true, .isDirect = true, .greetingsMax = 1024,
    .greet = greet, .parse = parse, .publish = publishLiveToOne, .begin = begin};

const struct protocol martletDurableProtocol = {
    .name = "martlet-durable", .isAccepted = true, .acknowledgedTogether = 10,
    .acknowledgementMilliseconds = 1000, .greetingsMax = 1024, .greet = greet, .parse = parse,
    .publish = publishDurable, .acknowledge = acknowledge, .ask = ping, .prepare = prepare,
    .begin = begin};

const struct protocol martletDirectProtocol = {
    .name = "martlet-direct", .isAccepted = true, .isDirect = true, .acknowledgedTogether = 10,
    .acknowledgementMilliseconds = 1000, .greetingsMax = 1024, .greet = greet, .parse = parse,
    .publish = publishDurableToOne, .acknowledge = acknowledge, .ask = ping,
    .subscribe = subscribe, .begin = begin};
