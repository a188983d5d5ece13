// SPDX-License-Identifier: Apache-2.0
//
// What an entry of a submission ring costs when there is nothing to do: NOPs in batches, through
// liburing, on a ring with the flags of Martlet's. What Martlet's entries cost above that is theirs.
//
//     bench-ring

#include <liburing.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { entries = 4096, operations = 2000000 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int measure(struct io_uring *ring, unsigned batch) {
    unsigned turns = operations / batch;
    double began = now();
    for (unsigned turn = 0; turn < turns; turn++) {
        for (unsigned index = 0; index < batch; index++)
            io_uring_prep_nop(io_uring_get_sqe(ring));
        if (io_uring_submit_and_wait(ring, batch) < 0) return 1;
        io_uring_cq_advance(ring, batch);
    }
    printf(
        "{\"kind\":\"SQE, NOP through liburing, %u a call\",\"count\":%u,\"nanoseconds\":%.2f}\n",
        batch, turns * batch, (now() - began) / ((double)turns * batch));
    return 0;
}

int main(void) {
    struct io_uring ring;
    struct io_uring_params parameters = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
            IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE,
        .cq_entries = 2 * entries};
    int result = io_uring_queue_init_params(entries, &ring, &parameters);
    if (result < 0) {
        fprintf(stderr, "bench-ring: io_uring_setup: %s\n", strerror(-result));
        return 1;
    }
    return measure(&ring, 1) || measure(&ring, 16) || measure(&ring, 256);
}
