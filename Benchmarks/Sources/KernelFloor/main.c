// SPDX-License-Identifier: Apache-2.0
//
// The kernel floor: what a fanout costs when a server does nothing else. Whoever sends bytes is the
// publisher; its frames (u32 length, payload) go unchanged to everybody else. What it sends lies once in one
// ring of bytes; each socket has a position in it and at most one send in flight, which takes all that has
// gathered. No parsing per receiver, no bounds, no bookkeeping, no receive armed on the receivers: no broker
// can do less.
//
//     bench-floor PORT [BATCH [ARMED]]
//     bench-floor PORT epoll [ARMED]
//
// BATCH: operations handed to io_uring at once; 512 is best, since the kernel's requests of one batch then stay
// in its core's cache and system calls are few. ARMED 1: with a receive armed on every socket, as a real server
// has. The ring of bytes is 64 MB: receivers that are further behind end the process.

#include "floor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

void tellReady(void) {
    puts("ready");
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fputs("usage: bench-floor PORT [BATCH | epoll [ARMED]]\n", stderr);
        return 2;
    }
    bool isEpoll = argc > 2 && !strcmp(argv[2], "epoll");
    int batch = argc > 2 && !isEpoll ? atoi(argv[2]) : 512;
    bool isArmed = argc > 3 && atoi(argv[3]);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    beginHistory();

    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1])),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4096))
        die("listen", errno);
    if (isEpoll) {
        fcntl(listener, F_SETFL, O_NONBLOCK);
        serveEpoll(listener, isArmed);
    } else {
        serveRing(listener, batch, isArmed);
    }
}
