// SPDX-License-Identifier: Apache-2.0
//
// The devices of a stress run. Each does what the client library does: takes a message once by its
// stream ID, acknowledges ten together or after a second, names in HELLO what it has taken and does
// not know to be confirmed. It ends the run if a message comes twice where it must not, or out of
// order. Rests on stress.h.

#include "stress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

enum {
    connectionsPerSource = 4000,
    acknowledgedTogether = 10,
    // What one that stops takes into its socket without reading.
    stoppedReceiveBytes = 4096,
};

static void watch(uint32_t index, uint32_t events, int operation) {
    struct epoll_event event = {.events = events, .data.u32 = index};
    if (epoll_ctl(fleet.poller, operation, fleet.devices[index].descriptor, &event) != 0)
        fail("epoll: %s", strerror(errno));
}

void openDevice(uint32_t index) {
    struct device *device = fleet.devices + index;
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor < 0) fail("socket %u: %s", index, strerror(errno));
    int one = 1, small = stoppedReceiveBytes;
    setsockopt(descriptor, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    // The same tenth stops every time.
    if (index % 10 == 7) setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    struct sockaddr_in from = {.sin_family = AF_INET};
    from.sin_addr.s_addr =
        htonl(0x7F000001u + (fleet.load.firstSource << 8) + index / connectionsPerSource);
    if (bind(descriptor, (struct sockaddr *)&from, sizeof from) != 0)
        fail("bind: %s", strerror(errno));
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(fleet.load.port)};
    inet_pton(AF_INET, fleet.load.host, &to.sin_addr);
    if (connect(descriptor, (struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS)
        fail("connect %u: %s", index, strerror(errno));
    device->descriptor = descriptor;
    device->phase = deviceConnecting;
    device->carried = 0;
    device->highest = 0;
    device->unacknowledged = 0;
    fleet.comingCount++;
    watch(index, EPOLLIN | EPOLLOUT, EPOLL_CTL_ADD);
}

void closeDevice(struct device *device) {
    if (device->phase == deviceAway) return;
    if (device->phase == deviceOpen) fleet.openCount--;
    else fleet.comingCount--;
    close(device->descriptor);
    device->descriptor = -1;
    device->phase = deviceAway;
}

/// The broker ended the connection, or refused it: again after a while.
static void lost(struct device *device, uint64_t delayMilliseconds) {
    closeDevice(device);
    uint64_t spread = (uint64_t)(rand() % 1000) * 100000u;
    device->connectAt = nowNanoseconds() + delayMilliseconds * 1000000u + spread;
}

static void tell(struct device *device, const uint8_t *bytes, size_t count) {
    // A device says so little that its socket has always room, or the connection has ended.
    ssize_t sent = send(device->descriptor, bytes, count, MSG_NOSIGNAL);
    if (sent >= 0 && (size_t)sent < count) fail("a device's socket is full");
}

static void greet(struct device *device) {
    static uint8_t frame[16384];
    const struct project *project = fleet.projects + device->project;
    device->phase = deviceGreeting;
    uint8_t *at;
    if (device->token[0]) {
        at = putString(putHello(frame, 1), project->name);
        at = putString(putString(at, device->token), device->key);
        *at++ = 1;
        uint32_t listed =
            device->takenCount < takenListedMax ? device->takenCount : takenListedMax;
        at = putField(at, listed, 2);
        if (listed) memcpy(at, device->taken + (device->takenCount - listed), listed * 8);
        at += listed * 8;
    } else {
        at = putString(putString(putHello(frame, 3), project->name), "com.example.stress");
        *at++ = 1;  // android
        *at++ = 1;  // a registration key
        at = putString(at, project->registrationKey);
    }
    tell(device, frame, finishFrame(frame, at));
}

static void acknowledge(struct device *device) {
    uint8_t frame[16];
    frame[4] = 0x11;
    device->unacknowledged = 0;
    tell(device, frame, finishFrame(frame, putField(putField(frame + 5, device->highest, 8), 0, 2)));
}

static void confirm(struct device *device, uint64_t through) {
    if (through > device->confirmed) device->confirmed = through;
    uint32_t first = 0;
    while (first < device->takenCount && device->taken[first] <= through) first++;
    device->takenCount -= first;
    if (first) memmove(device->taken, device->taken + first, device->takenCount * 8);
}

static void remember(struct device *device, uint64_t identity) {
    if (device->takenCount == device->takenCapacity) {
        device->takenCapacity = device->takenCapacity ? 2 * device->takenCapacity : 32;
        device->taken = realloc(device->taken, device->takenCapacity * 8);
    }
    device->taken[device->takenCount++] = identity;
}

static uint64_t hexadecimal(const uint8_t *at) {
    uint64_t value = 0;
    for (int digit = 0; digit < 16; digit++)
        value = value << 4 | (uint64_t)(at[digit] <= '9' ? at[digit] - '0' : at[digit] - 'a' + 10);
    return value;
}

static void deliver(struct device *device, const uint8_t *frame, size_t whole, uint64_t now) {
    if (whole < 34 + fleet.load.payloadBytes) fail("a message too short");
    uint64_t identity = loadField(frame + 5, 8);
    const uint8_t *payload = frame + whole - fleet.load.payloadBytes;
    uint64_t sequence = hexadecimal(payload + 1), stamp = hexadecimal(payload + 17);
    bool isDirect = payload[0] == 'D';
    uint64_t *expected = isDirect ? &device->expectedDirect : &device->expected;
    if (identity <= device->highest) fail("a message came twice on one connection");
    if (identity <= device->confirmed) fail("a confirmed message came again");
    device->highest = identity;
    if (device->unacknowledged++ == 0) device->acknowledgeAt = now + 1000000000u;
    if (device->unacknowledged >= acknowledgedTogether) acknowledge(device);
    if (sequence < *expected) {
        // It was taken before, and the broker had not heard of that: the ledger drops it.
        fleet.repeated++;
        return;
    }
    // What lies between was refused to the sender, or is lost: the tallies tell at the end.
    *expected = sequence + 1;
    tallyAdd(isDirect ? &device->gotDirect : &device->got, sequence);
    remember(device, identity);
    fleet.delivered++;
    if (device->isStopped || stamp < fleet.measuredSince) return;
    histogramAdd(&fleet.times, now - stamp, 1);
    histogramAdd(fleet.projects[device->project].times, now - stamp, 1);
}

static void welcomed(struct device *device, const uint8_t *frame) {
    fleet.comingCount--;
    fleet.openCount++;
    device->phase = deviceOpen;
    device->connectAt = 0;
    confirm(device, loadField(frame + 31, 8));
    if (device->token[0]) {
        fleet.reconnects++;
        return;
    }
    size_t token = loadField(frame + 39, 2), key = loadField(frame + 41 + token, 2);
    if (token > 63 || key > 63) fail("unexpected credentials");
    memcpy(device->token, frame + 41, token);
    memcpy(device->key, frame + 43 + token, key);
}

/// Returns false if the connection has ended.
static bool take(struct device *device, const uint8_t *frame, size_t whole, uint64_t now) {
    switch (frame[4]) {
        case 0x02: welcomed(device, frame); return true;
        case 0x10: deliver(device, frame, whole, now); return true;
        case 0x16: confirm(device, loadField(frame + 5, 8)); return true;
        case 0x05: {
            // 11: not now; 15: silent, where it was not read; both end the connection.
            uint64_t word = loadField(frame + 9, 2), delay = loadField(frame + 11, 4);
            if (word != 11 && word != 15) fail("a device got error %u", (unsigned)word);
            fleet.turnedAway++;
            lost(device, delay == UINT32_MAX ? 0 : delay);
            return false;
        }
        case 0x17: fail("messages of a device were discarded");
        default: return true;
    }
}

/// Reads until a frame is missing its end, which is carried to the next read.
static bool parseDevice(struct device *device, const uint8_t *bytes, size_t count, uint64_t now) {
    size_t at = 0;
    while (count - at >= 5) {
        size_t whole = 4 + loadField(bytes + at, 4);
        if (count - at < whole) break;
        if (!take(device, bytes + at, whole, now)) return false;
        at += whole;
    }
    device->carried = (uint32_t)(count - at);
    if (device->carried > device->carryCapacity) {
        device->carryCapacity = device->carried * 2;
        device->carry = realloc(device->carry, device->carryCapacity);
    }
    if (device->carried) memcpy(device->carry, bytes + at, device->carried);
    return true;
}

void handleDevice(uint32_t index, uint32_t events) {
    struct device *device = fleet.devices + index;
    if (device->phase == deviceAway) return;
    if (device->phase == deviceConnecting) {
        int error = 0;
        socklen_t bytes = sizeof error;
        getsockopt(device->descriptor, SOL_SOCKET, SO_ERROR, &error, &bytes);
        if (error) {
            fleet.disconnected++;
            lost(device, 100);
            return;
        }
        if (!(events & EPOLLOUT)) return;
        greet(device);
        watch(index, EPOLLIN, EPOLL_CTL_MOD);
        return;
    }
    if (device->isStopped && device->phase == deviceOpen) {
        if (events & (EPOLLERR | EPOLLHUP)) {
            fleet.disconnected++;
            lost(device, 1000);
        } else {
            watch(index, 0, EPOLL_CTL_MOD);
        }
        return;
    }
    // What was carried lies before what is read.
    if (device->carried) memcpy(fleet.reading, device->carry, device->carried);
    ssize_t got = recv(
        device->descriptor, fleet.reading + device->carried, readBytes - device->carried, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
        fleet.disconnected++;
        lost(device, 100);
        return;
    }
    parseDevice(device, fleet.reading, device->carried + (size_t)got, nowNanoseconds());
}

void stopReading(struct device *device, bool isStopped) {
    device->isStopped = isStopped;
    if (device->phase != deviceOpen) return;
    watch((uint32_t)(device - fleet.devices), isStopped ? 0 : EPOLLIN, EPOLL_CTL_MOD);
}

void tendDevices(uint64_t now) {
    for (uint32_t index = 0; index < fleet.deviceCount; index++) {
        struct device *device = fleet.devices + index;
        if (device->phase == deviceOpen) {
            if (device->unacknowledged && device->acknowledgeAt <= now) acknowledge(device);
        } else if (device->phase == deviceAway && device->wantsConnection &&
                   device->connectAt <= now && fleet.comingCount < fleet.comingMax) {
            openDevice(index);
        }
    }
}

bool isUpToDate(const struct device *device) {
    const struct project *project = fleet.projects + device->project;
    const struct tally *direct =
        project->acceptedDirect + (device - fleet.devices - project->firstDevice);
    return device->got.count == project->accepted.count && device->gotDirect.count == direct->count;
}
