// SPDX-License-Identifier: Apache-2.0
//
// Which form of the protocol a broker speaks. Commits before the collapse key (1101c67 is one) have
// a SEND without it and what follows it, and a HELLO without the device's state. The same generator
// has to measure both, so it sends one message to an empty topic in today's form: an older broker
// cannot read that frame.

#include "martlet.h"

#include <unistd.h>

bool isFirstDialect;

void findDialect(const struct options *options) {
    static uint8_t frame[8192];
    uint8_t *payload;
    size_t bytes;
    int descriptor = connectBlocking(options);
    writeAll(descriptor, frame, administratorHello(frame, options->project));
    if (readFrame(descriptor, frame, &bytes) != frameWelcome)
        fail("the administrator was not welcomed");
    bytes = sendFrame(options, 0, targetTopic, "nobody", liveNever, frame, &payload);
    memset(payload, 'x', options->payloadBytes);
    writeAll(descriptor, frame, bytes);
    // ERROR or the end of the connection: an older broker.
    isFirstDialect = receiveSome(descriptor, frame, 5) != 5 || frame[4] != frameAccepted;
    close(descriptor);
}
