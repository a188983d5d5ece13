// SPDX-License-Identifier: Apache-2.0
//
// What the generator asks the system: clocks, the server's CPU time and memory, and sockets for what
// happens once. The CPU time is the kernel's clock of the whole process, all threads, ended ones and
// io_uring's workers included, in nanoseconds; it does not count what other processes took.

#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("bench-load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static uint64_t read_clock(clockid_t clock) {
    struct timespec time;
    if (clock_gettime(clock, &time) != 0) return 0;
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t nowNanoseconds(void) { return read_clock(CLOCK_MONOTONIC); }

uint64_t ownNanoseconds(void) { return read_clock(CLOCK_PROCESS_CPUTIME_ID); }

uint64_t processNanoseconds(pid_t process) {
    clockid_t clock;
    if (process == 0 || clock_getcpuclockid(process, &clock) != 0) return 0;
    return read_clock(clock);
}

struct memory processMemory(pid_t process) {
    struct memory memory = {0};
    char path[64], line[256];
    if (process == 0) return memory;
    snprintf(path, sizeof path, "/proc/%d/status", (int)process);
    FILE *file = fopen(path, "r");
    if (!file) return memory;
    while (fgets(line, sizeof line, file)) {
        if (!strncmp(line, "VmRSS:", 6)) memory.resident = strtoull(line + 6, NULL, 10) * 1024;
        if (!strncmp(line, "RssAnon:", 8)) memory.anonymous = strtoull(line + 8, NULL, 10) * 1024;
    }
    fclose(file);
    return memory;
}

uint64_t processBytesWritten(pid_t process) {
    uint64_t bytes = 0;
    char path[64], line[256];
    if (process == 0) return 0;
    snprintf(path, sizeof path, "/proc/%d/io", (int)process);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, "write_bytes:", 12)) bytes = strtoull(line + 12, NULL, 10);
    fclose(file);
    return bytes;
}

int connectBlocking(const struct options *options) {
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(options->port)};
    inet_pton(AF_INET, options->host, &address.sin_addr);
    if (connect(descriptor, (struct sockaddr *)&address, sizeof address) != 0)
        fail("connect to %s:%u: %s", options->host, options->port, strerror(errno));
    int one = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (!options->handshakes) secure(descriptor);
    return descriptor;
}

void writeAll(int descriptor, const void *bytes, size_t count) {
    const uint8_t *at = bytes;
    while (count > 0) {
        ssize_t written = sendSome(descriptor, at, count);
        if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (written <= 0) fail("write: %s", strerror(errno));
        at += written;
        count -= (size_t)written;
    }
}

void readAll(int descriptor, void *bytes, size_t count) {
    uint8_t *at = bytes;
    while (count > 0) {
        ssize_t got = receiveSome(descriptor, at, count);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got <= 0) fail("the server closed a connection: %s", got ? strerror(errno) : "end");
        at += got;
        count -= (size_t)got;
    }
}
