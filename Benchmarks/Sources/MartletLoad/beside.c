// SPDX-License-Identifier: Apache-2.0
//
// What another project does while messages are measured: it changes topics, a thousand tokens a request
// and so many requests outstanding, as fast as they are answered. Requests are built once, and what a
// socket does not take waits, so that this costs the measuring little. Rests on martlet.h.

#include "martlet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    requestsOutstanding = 16,
    // Where the topic's name begins in a request: length, type, correlation, action, length of the name.
    topicOffset = 4 + 1 + 4 + 1 + 2,
    topicDigits = 8,
};

static struct { uint8_t *bytes; size_t count; } *requests;
static uint32_t requestCount, sent, answered;
// The request that is being written, and how far it is.
static size_t written;
static bool isOn, isWriting;
static int descriptor = -1, poller = -1;
static uint8_t carry[1 << 16];
static size_t carried;

static void watch(int operation, uint32_t events) {
    struct epoll_event event = {.events = events, .data.u32 = besideNumber};
    if (epoll_ctl(poller, operation, descriptor, &event) != 0)
        fail("epoll: %s", strerror(errno));
}

/// Each request names a thousand devices and a topic; all requests of a round have one topic.
static void buildRequests(const char *path) {
    FILE *list = fopen(path, "r");
    if (!list) fail("no devices in '%s'", path);
    struct credentials device;
    uint8_t *at = NULL;
    uint32_t tokens = 0;
    while (fscanf(list, "%63s %63s", device.token, device.deviceKey) == 2) {
        if (tokens++ % topicChangeTokensMax == 0) {
            requests = realloc(requests, (requestCount + 1) * sizeof *requests);
            uint8_t *out = requests[requestCount].bytes = malloc(requestBytesMax);
            out[4] = frameTopicChange;
            at = put32(out + 5, 1);
            *at++ = 1;
            at = put16(putText(at, "00000000"), topicChangeTokensMax);
        }
        at = putText(at, device.token);
        if (tokens % topicChangeTokensMax == 0) {
            requests[requestCount].count = finish(requests[requestCount].bytes, at);
            requestCount++;
        }
    }
    fclose(list);
    if (requestCount == 0) fail("fewer than %d devices in '%s'", topicChangeTokensMax, path);
}

static void nameTopic(uint8_t *request, uint32_t round) {
    for (int digit = topicDigits - 1; digit >= 0; digit--, round /= 10)
        request[topicOffset + digit] = (uint8_t)('0' + round % 10);
}

static void writeRequests(void) {
    while (isWriting || (isOn && sent - answered < requestsOutstanding)) {
        uint8_t *bytes = requests[sent % requestCount].bytes;
        size_t count = requests[sent % requestCount].count;
        if (!isWriting) nameTopic(bytes, sent / requestCount);
        isWriting = true;
        ssize_t took = send(descriptor, bytes + written, count - written, MSG_NOSIGNAL);
        if (took < 0 && errno == EINTR) continue;
        if (took < 0 && errno == EAGAIN) return;
        if (took < 0) fail("the connection that changes topics: %s", strerror(errno));
        written += (size_t)took;
        if (written < count) continue;
        written = 0;
        isWriting = false;
        sent++;
    }
}

void openBeside(const struct options *options, int pollerDescriptor) {
    static uint8_t frame[requestBytesMax];
    struct options others = *options;
    size_t bytes;
    others.project = "beside";
    buildRequests(options->besideDevices);
    poller = pollerDescriptor;
    descriptor = connectBlocking(&others);
    writeAll(descriptor, frame, administratorHello(frame, others.project));
    if (readFrame(descriptor, frame, &bytes) != frameWelcome)
        fail("the other project's administrator was not welcomed");
    fcntl(descriptor, F_SETFL, O_NONBLOCK);
    watch(EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT | EPOLLET);
}

void setBeside(bool isWanted) {
    isOn = isWanted;
    writeRequests();
}

uint32_t besideAnswered(void) { return answered; }

void handleBeside(void) {
    for (;;) {
        ssize_t got = recv(descriptor, carry + carried, sizeof carry - carried, 0);
        if (got < 0 && errno == EAGAIN) break;
        if (got <= 0) fail("the connection that changes topics ended");
        carried += (size_t)got;
        size_t at = 0;
        while (carried - at >= 5 && carried - at >= 4 + load(carry + at, 4)) {
            if (carry[at + 4] != frameTopicResult || load(carry + at + 11, 2) != 0)
                fail("the other project's topic change was refused");
            answered++;
            at += 4 + load(carry + at, 4);
        }
        memmove(carry, carry + at, carried - at);
        carried -= at;
    }
    writeRequests();
}
