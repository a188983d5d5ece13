// SPDX-License-Identifier: Apache-2.0
//
// Martlet's shared connections: several apps, each an instance of its own, on one connection of role 5.
// Only for connections that stay idle, whose memory is what matters. Source: WireProtocol.md, Several
// apps on one connection.

#include "martlet.h"

extern const struct protocol martletProtocol;

/// All that a phone says at once: the connection's HELLO, and one on the channel of each app.
static size_t greet(
    const struct options *options, const struct connection *connection, uint8_t *out) {
    if (connection->isPublisher) return administratorHello(out, options->project);
    uint8_t *at = out + finish(out, helloHead(out, roleShared));
    for (uint32_t app = 0; app < options->appsEach; app++) {
        at[4] = frameChannel;
        at[5] = (uint8_t)(app + 1);
        at += finish(at, at + 6);
        at += deviceHello(options, at);
    }
    return (size_t)(at - out);
}

/// The connection is open when itself and all its apps are welcomed; `expected` counts that.
static enum found parse(
    const struct options *options, struct connection *connection, const uint8_t *bytes,
    size_t count, struct frame *frame) {
    if (count < 5) return foundNothing;
    size_t whole = 4 + load(bytes, 4);
    if (count < whole) return foundNothing;
    bool isWelcome = bytes[4] == frameWelcome && !connection->isPublisher;
    if (!isWelcome && bytes[4] != frameChannel)
        return martletProtocol.parse(options, connection, bytes, count, frame);
    frame->bytes = whole;
    if (!isWelcome) return foundOther;
    if (connection->expected > 0) takeCredentials(options, bytes);
    return ++connection->expected == options->appsEach + 1 ? foundOpen : foundOther;
}

static void prepare(const struct options *options, int publisher) {
    martletProtocol.prepare(options, publisher);
}

static void begin(struct options *options) {
    if (!options->idle) fail("shared connections are only held: --idle");
    martletProtocol.begin(options);
}

const struct protocol martletSharedProtocol = {
    .name = "martlet-shared", .isAccepted = true, .greetingsMax = 1024, .greet = greet,
    .parse = parse, .prepare = prepare, .begin = begin};
