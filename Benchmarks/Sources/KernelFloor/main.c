// SPDX-License-Identifier: Apache-2.0
//
// The kernel floor: what a fanout costs on io_uring when a server does nothing else. Whoever sends
// bytes is the publisher; its frames (u32 length, payload) go unchanged to everybody else. What it
// sends lies once in one ring of bytes; each socket has a position in it and at most one send in
// flight, which takes all that has gathered. No parsing per receiver, no bounds, no bookkeeping, no
// receive armed on the receivers: no broker can do less.
//
//     bench-floor PORT [BATCH [ARMED]]
//
// BATCH: operations handed to the kernel at once; 512 is best, since the kernel's requests of one
// batch then stay in its core's cache and system calls are few. ARMED 1: with a receive armed on every socket, as
// a real server has. The ring of bytes is 64 MB: receivers that are further behind end the process.

#include <arpa/inet.h>
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    connectionsMax = 19000,
    receiveBufferBytes = 65536,
    receiveBufferCount = 256,
    // A send never wraps, so a longest run of bytes is repeated behind the end.
    historyBytes = 64 << 20,
    sendBytesMax = 1 << 20,
};

enum operation { operationAccept = 1, operationReceive, operationSend };

struct receiver {
    uint64_t position;
    uint32_t inFlight;
    bool isOpen;
};

static struct io_uring uring;
static struct receiver receivers[connectionsMax];
static int highest = -1, publisher = -1;
static uint8_t *history;
static uint64_t tail, whole;
static struct io_uring_buf_ring *buffers;
static uint8_t *bufferMemory;
static int batch = 512;
static bool isArmed;

static void die(const char *what, int code) {
    fprintf(stderr, "bench-floor: %s: %s\n", what, strerror(code));
    exit(1);
}

static struct io_uring_sqe *next(void) {
    if (io_uring_sq_ready(&uring) >= (unsigned)batch) io_uring_submit(&uring);
    struct io_uring_sqe *entry = io_uring_get_sqe(&uring);
    if (entry) return entry;
    io_uring_submit(&uring);
    return io_uring_get_sqe(&uring);
}

static uint64_t tag(enum operation operation, int index) {
    return (uint64_t)operation << 32 | (uint32_t)index;
}

static void receive(int index) {
    struct io_uring_sqe *entry = next();
    io_uring_prep_recv_multishot(entry, index, NULL, 0, 0);
    entry->flags = IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT;
    entry->buf_group = 0;
    entry->user_data = tag(operationReceive, index);
}

static void sendTo(int index) {
    struct receiver *receiver = receivers + index;
    uint64_t waiting = whole - receiver->position;
    if (waiting == 0 || receiver->inFlight > 0) return;
    if (waiting > sendBytesMax) waiting = sendBytesMax;
    receiver->inFlight = (uint32_t)waiting;
    struct io_uring_sqe *entry = next();
    io_uring_prep_send(
        entry, index, history + receiver->position % historyBytes, waiting, MSG_NOSIGNAL);
    entry->flags = IOSQE_FIXED_FILE;
    entry->user_data = tag(operationSend, index);
}

static void append(const uint8_t *bytes, size_t count) {
    size_t at = tail % historyBytes;
    for (size_t done = 0; done < count;) {
        size_t part = count - done < historyBytes - at ? count - done : historyBytes - at;
        memcpy(history + at, bytes + done, part);
        // The start of the ring once more behind its end.
        if (at < sendBytesMax) {
            size_t repeated = at + part > sendBytesMax ? sendBytesMax - at : part;
            memcpy(history + historyBytes + at, bytes + done, repeated);
        }
        done += part;
        at = (at + part) % historyBytes;
    }
    tail += count;
    for (;;) {
        uint32_t length;
        if (tail - whole < 4) break;
        memcpy(&length, history + whole % historyBytes, 4);
        if (tail - whole < 4 + (uint64_t)length) break;
        whole += 4 + length;
    }
}

static void giveBack(int buffer) {
    io_uring_buf_ring_add(
        buffers, bufferMemory + (size_t)buffer * receiveBufferBytes, receiveBufferBytes,
        (unsigned short)buffer, io_uring_buf_ring_mask(receiveBufferCount), 0);
    io_uring_buf_ring_advance(buffers, 1);
}

/// Returns whether the publisher sent something.
static bool handle(struct io_uring_cqe *entry) {
    int index = (int)(uint32_t)entry->user_data;
    bool isPublished = false;
    switch (entry->user_data >> 32) {
        case operationAccept:
            if (entry->res < 0) die("accept", -entry->res);
            index = entry->res;
            receivers[index] = (struct receiver){.position = whole, .isOpen = true};
            if (index > highest) highest = index;
            receive(index);
            break;
        case operationReceive:
            if (entry->res > 0) {
                int buffer = entry->flags >> IORING_CQE_BUFFER_SHIFT;
                publisher = index;
                append(bufferMemory + (size_t)buffer * receiveBufferBytes, (size_t)entry->res);
                giveBack(buffer);
                isPublished = true;
                if (!(entry->flags & IORING_CQE_F_MORE)) receive(index);
            } else if (entry->res == -ENOBUFS) {
                receive(index);
            } else if (entry->res != -ECANCELED) {
                // The generator has gone; so does the floor.
                exit(0);
            }
            break;
        case operationSend: {
            struct receiver *receiver = receivers + index;
            if (entry->res < 0) exit(0);
            receiver->position += (uint32_t)entry->res;
            receiver->inFlight = 0;
            if (receiver->position < whole) sendTo(index);
            break;
        }
    }
    return isPublished;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fputs("usage: bench-floor PORT [BATCH [ARMED]]\n", stderr);
        return 2;
    }
    if (argc > 2) batch = atoi(argv[2]);
    if (argc > 3) isArmed = atoi(argv[3]);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);

    struct io_uring_params parameters = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
        .cq_entries = 65536};
    int code = io_uring_queue_init_params(4096, &uring, &parameters);
    if (code < 0) die("io_uring", -code);
    io_uring_register_ring_fd(&uring);
    code = io_uring_register_files_sparse(&uring, connectionsMax);
    if (code < 0) die("direct descriptors", -code);
    if (posix_memalign((void **)&buffers, 4096, receiveBufferCount * sizeof(struct io_uring_buf)))
        die("memory", ENOMEM);
    struct io_uring_buf_reg registration = {
        .ring_addr = (uint64_t)(uintptr_t)buffers, .ring_entries = receiveBufferCount};
    code = io_uring_register_buf_ring(&uring, &registration, 0);
    if (code < 0) die("receive buffers", -code);
    io_uring_buf_ring_init(buffers);
    bufferMemory = malloc((size_t)receiveBufferCount * receiveBufferBytes);
    for (int buffer = 0; buffer < receiveBufferCount; buffer++) giveBack(buffer);
    history = malloc(historyBytes + sendBytesMax);

    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1])),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4096))
        die("listen", errno);
    struct io_uring_sqe *accept = next();
    io_uring_prep_multishot_accept_direct(accept, listener, NULL, NULL, 0);
    accept->user_data = tag(operationAccept, 0);
    puts("ready");
    fflush(stdout);

    for (;;) {
        code = io_uring_submit_and_wait(&uring, 1);
        if (code < 0 && code != -EINTR && code != -EAGAIN && code != -EBUSY) die("enter", -code);
        bool isPublished = false;
        unsigned head, count = 0;
        struct io_uring_cqe *entry;
        int before = publisher;
        io_uring_for_each_cqe(&uring, head, entry) {
            isPublished |= handle(entry);
            count++;
        }
        io_uring_cq_advance(&uring, count);
        if (!isPublished) continue;
        if (before < 0) {
            // Now that the publisher is known, the others need no receive.
            for (int index = 0; !isArmed && index <= highest; index++) {
                if (index == publisher || !receivers[index].isOpen) continue;
                struct io_uring_sqe *cancel = next();
                io_uring_prep_cancel64(cancel, tag(operationReceive, index), 0);
                cancel->flags = IOSQE_CQE_SKIP_SUCCESS;
            }
        }
        for (int index = 0; index <= highest; index++)
            if (index != publisher && receivers[index].isOpen) sendTo(index);
    }
}
