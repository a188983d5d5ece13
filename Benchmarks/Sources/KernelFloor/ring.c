// SPDX-License-Identifier: Apache-2.0
//
// The floor on io_uring: what gathered for a socket in one send, all sends of a batch in one system call.

#include "floor.h"

#include <liburing.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { receiveBufferCount = 256 };

enum operation { operationAccept = 1, operationReceive, operationSend };

static struct io_uring uring;
static struct io_uring_buf_ring *buffers;
static uint8_t *bufferMemory;
static int batch;

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

void serveRing(int listener, int batchMax, bool isArmed) {
    batch = batchMax;
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
    struct io_uring_sqe *accept = next();
    io_uring_prep_multishot_accept_direct(accept, listener, NULL, NULL, 0);
    accept->user_data = tag(operationAccept, 0);
    tellReady();

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
