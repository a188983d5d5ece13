// SPDX-License-Identifier: Apache-2.0
//
// The floor on epoll: what gathered for a socket in one send, a system call each. Every socket is registered once, for
// edges.

#define _GNU_SOURCE
#include "floor.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { eventsPerWait = 1024 };

static int epoll;

static void watch(int operation, int index, uint32_t events) {
    struct epoll_event event = {.events = events | EPOLLET, .data.u64 = (uint64_t)index};
    if (epoll_ctl(epoll, operation, receivers[index].descriptor, &event)) die("epoll_ctl", errno);
}

static void sendTo(int index) {
    struct receiver *receiver = receivers + index;
    while (receiver->position < whole && !receiver->inFlight) {
        uint64_t waiting = whole - receiver->position;
        if (waiting > sendBytesMax) waiting = sendBytesMax;
        ssize_t sent = send(
            receiver->descriptor, history + receiver->position % historyBytes, waiting,
            MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) exit(0);
        if (sent > 0) receiver->position += (uint64_t)sent;
        receiver->inFlight = sent < (ssize_t)waiting;
    }
}

static void acceptAll(int listener) {
    for (;;) {
        int descriptor = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        if (descriptor < 0 && errno == EAGAIN) return;
        if (descriptor < 0) die("accept", errno);
        int index = ++highest;
        if (index >= connectionsMax) die("connections", ENFILE);
        receivers[index] =
            (struct receiver){.position = whole, .isOpen = true, .descriptor = descriptor};
        watch(EPOLL_CTL_ADD, index, EPOLLIN | EPOLLOUT);
    }
}

/// Returns whether the publisher sent something.
static bool receive(int index) {
    static uint8_t bytes[receiveBufferBytes];
    ssize_t count = recv(receivers[index].descriptor, bytes, sizeof bytes, 0);
    if (count < 0 && errno == EAGAIN) return false;
    // The generator has gone; so does the floor.
    if (count <= 0) exit(0);
    publisher = index;
    append(bytes, (size_t)count);
    if (count == sizeof bytes) receive(index);
    return true;
}

void serveEpoll(int listener, bool isArmed) {
    static struct epoll_event events[eventsPerWait];
    epoll = epoll_create1(0);
    if (epoll < 0) die("epoll", errno);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = connectionsMax};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event)) die("epoll_ctl", errno);
    tellReady();
    for (;;) {
        int count = epoll_wait(epoll, events, eventsPerWait, -1);
        if (count < 0 && errno != EINTR) die("epoll_wait", errno);
        bool isPublished = false;
        int before = publisher;
        for (int place = 0; place < count; place++) {
            if (events[place].data.u64 == connectionsMax) {
                acceptAll(listener);
                continue;
            }
            int index = (int)events[place].data.u64;
            if (events[place].events & EPOLLOUT && receivers[index].inFlight) {
                receivers[index].inFlight = 0;
                sendTo(index);
            }
            if (events[place].events & ~(uint32_t)EPOLLOUT) isPublished |= receive(index);
        }
        if (!isPublished) continue;
        // Now that the publisher is known, the others need no receive.
        for (int index = 0; before < 0 && !isArmed && index <= highest; index++)
            if (index != publisher) watch(EPOLL_CTL_MOD, index, EPOLLOUT);
        for (int index = 0; index <= highest; index++)
            if (index != publisher) sendTo(index);
    }
}
