// SPDX-License-Identifier: Apache-2.0
//
// The senders of a stress run, one for each project: at a rate, so many at once, or as fast as the
// broker accepts them with so many outstanding; to the topic that all devices of the project are in,
// or to one device after another. Rests on stress.h.

#include "stress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *const topic = "all";

static int openAdministrator(const char *project) {
    uint8_t frame[1024];
    int descriptor = connectBlocking(&fleet.load);
    uint8_t *at = putString(putString(putHello(frame, 4), fleet.administratorKey), project);
    writeAll(descriptor, frame, finishFrame(frame, at));
    readAll(descriptor, frame, 5);
    if (frame[4] != 0x02) fail("the administrator was not welcomed");
    readAll(descriptor, frame + 5, loadField(frame, 4) - 1);
    return descriptor;
}

static uint8_t answer(int descriptor, uint8_t *frame) {
    readAll(descriptor, frame, 5);
    readAll(descriptor, frame + 5, loadField(frame, 4) - 1);
    return frame[4];
}

/// PROJECT has the key behind the project's ID, which is 9 bytes into the frame, and 30 bytes of other fields.
static void keepRegistrationKey(struct project *project, const uint8_t *frame) {
    const uint8_t *key = frame + 9 + 2 + loadField(frame + 9, 2) + 30;
    size_t bytes = loadField(key, 2);
    if (bytes == 0 || bytes >= sizeof project->registrationKey) fail("unexpected registration key");
    memcpy(project->registrationKey, key + 2, bytes);
}

void makeProjects(void) {
    static uint8_t frame[1 << 18];
    int descriptor = openAdministrator("");
    for (uint32_t number = 0; number < fleet.projectCount; number++) {
        struct project *project = fleet.projects + number;
        frame[4] = 0x30;
        uint8_t *at = putString(putField(frame + 5, 1, 4), project->name);
        *at++ = 0;
        writeAll(descriptor, frame, finishFrame(frame, at));
        if (answer(descriptor, frame) != 0x31) fail("no project was made");
        keepRegistrationKey(project, frame);
    }
    close(descriptor);
}

void subscribeAll(void) {
    static uint8_t frame[1 << 18];
    for (uint32_t number = 0; number < fleet.projectCount; number++) {
        struct project *project = fleet.projects + number;
        int descriptor = openAdministrator(project->name);
        for (uint32_t first = 0; first < project->deviceCount; first += 1000) {
            uint32_t count = project->deviceCount - first;
            if (count > 1000) count = 1000;
            frame[4] = 0x22;
            uint8_t *at = putField(frame + 5, 1, 4);
            *at++ = 1;
            at = putField(putString(at, topic), count, 2);
            for (uint32_t index = 0; index < count; index++)
                at = putString(at, fleet.devices[project->firstDevice + first + index].token);
            writeAll(descriptor, frame, finishFrame(frame, at));
            if (answer(descriptor, frame) != 0x23 || loadField(frame + 9, 2) != count)
                fail("a subscription was refused");
        }
        close(descriptor);
    }
}

static uint32_t senderIndex(const struct project *project) {
    return fleet.deviceCount + (uint32_t)(project - fleet.projects);
}

static void watch(const struct project *project, uint32_t events, int operation) {
    struct epoll_event event = {.events = events, .data.u32 = senderIndex(project)};
    if (epoll_ctl(fleet.poller, operation, project->descriptor, &event) != 0)
        fail("epoll: %s", strerror(errno));
}

void openSenders(void) {
    for (uint32_t number = 0; number < fleet.projectCount; number++) {
        struct project *project = fleet.projects + number;
        project->descriptor = openAdministrator(project->name);
        fcntl(project->descriptor, F_SETFL, O_NONBLOCK);
        watch(project, EPOLLIN, EPOLL_CTL_ADD);
    }
}

// MARK: Publishing

static void encodeHexadecimal(uint8_t *out, uint64_t value) {
    for (int digit = 15; digit >= 0; digit--, value >>= 4) out[digit] = "0123456789abcdef"[value & 15];
}

static void flush(struct project *project) {
    while (project->outBegin < project->outEnd) {
        ssize_t sent = send(
            project->descriptor, project->out + project->outBegin,
            project->outEnd - project->outBegin, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) {
            watch(project, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
            return;
        }
        if (sent < 0) fail("a sender's connection ended: %s", strerror(errno));
        project->outBegin += (uint32_t)sent;
    }
    project->outBegin = project->outEnd = 0;
}

/// Whether another message can be asked for now.
static bool canPublish(const struct project *project, uint64_t now) {
    return project->askedCount < requestsMax && project->refusedUntil <= now &&
           project->outEnd + fleet.load.payloadBytes + 256 <= senderBytesMax;
}

static void publish(struct project *project, uint64_t now) {
    struct asked asked = {.device = UINT32_MAX};
    uint8_t *out = project->out + project->outEnd;
    uint32_t slot = (project->askedFirst + project->askedCount++) % requestsMax;
    out[4] = 0x20;
    uint8_t *at = putField(out + 5, slot + 1, 4);
    *at++ = 0;
    if (project->isDirect) {
        asked.device = project->nextDirect;
        project->nextDirect = (project->nextDirect + 1) % project->deviceCount;
        asked.sequence = project->publishedDirect[asked.device]++;
        *at++ = 1;
        at = putString(at, fleet.devices[project->firstDevice + asked.device].token);
    } else {
        asked.sequence = project->published++;
        *at++ = 2;
        at = putString(at, topic);
    }
    project->asked[slot] = asked;
    at = putField(at, UINT32_MAX, 4);
    *at++ = 0;
    at = putField(putString(putString(putString(at, ""), ""), ""), 0, 8);
    *at++ = 4;
    at = putString(putField(at, 3 + fleet.load.payloadBytes, 2), "d");
    at[0] = project->isDirect ? 'D' : 'T';
    encodeHexadecimal(at + 1, asked.sequence);
    encodeHexadecimal(at + 17, now);
    memset(at + 33, '.', fleet.load.payloadBytes - 33);
    project->outEnd += (uint32_t)finishFrame(out, at + fleet.load.payloadBytes);
}

void publishDue(uint64_t now) {
    for (uint32_t number = 0; number < fleet.projectCount; number++) {
        struct project *project = fleet.projects + number;
        while (project->interval && project->nextAt <= now && canPublish(project, now)) {
            publish(project, now);
            project->nextAt += project->interval;
        }
        while (project->left && project->askedCount < project->outstandingMax &&
               canPublish(project, now)) {
            project->left--;
            publish(project, now);
        }
        if (project->outBegin == 0 && project->outEnd > 0) flush(project);
    }
}

// MARK: Answers

static void answered(struct project *project, uint32_t correlation, bool isAccepted) {
    struct asked *asked = project->asked + (correlation - 1) % requestsMax;
    if (asked->isAnswered) fail("a request was answered twice");
    asked->isAnswered = true;
    if (isAccepted) {
        tallyAdd(
            asked->device == UINT32_MAX ? &project->accepted
                                        : project->acceptedDirect + asked->device,
            asked->sequence);
    }
    // A refusal may be faster than the answers before it.
    while (project->askedCount && project->asked[project->askedFirst].isAnswered) {
        project->askedFirst = (project->askedFirst + 1) % requestsMax;
        project->askedCount--;
    }
}

static void take(struct project *project, const uint8_t *frame, uint64_t now) {
    uint32_t correlation = (uint32_t)loadField(frame + 5, 4);
    switch (frame[4]) {
        case 0x21: answered(project, correlation, true); return;
        case 0x05: {
            uint64_t word = loadField(frame + 9, 2), delay = loadField(frame + 11, 4);
            // Only overload refuses: 9 and 11.
            if (correlation == 0 || (word != 9 && word != 11))
                fail("a sender got error %u", (unsigned)word);
            answered(project, correlation, false);
            fleet.refused++;
            if (delay != UINT32_MAX) project->refusedUntil = now + delay * 1000000u;
            return;
        }
        default: return;
    }
}

void handleSender(uint32_t number, uint32_t events) {
    struct project *project = fleet.projects + number;
    if (events & EPOLLOUT) {
        watch(project, EPOLLIN, EPOLL_CTL_MOD);
        flush(project);
    }
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
    memcpy(fleet.reading, project->carry, project->carried);
    ssize_t got = recv(
        project->descriptor, fleet.reading + project->carried, readBytes - project->carried, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) fail("a sender's connection ended");
    size_t count = project->carried + (size_t)got, at = 0;
    uint64_t now = nowNanoseconds();
    while (count - at >= 5) {
        size_t whole = 4 + loadField(fleet.reading + at, 4);
        if (count - at < whole) break;
        take(project, fleet.reading + at, now);
        at += whole;
    }
    project->carried = (uint32_t)(count - at);
    if (project->carried > carryBytesMax) fail("an answer too long");
    memcpy(project->carry, fleet.reading + at, project->carried);
}
