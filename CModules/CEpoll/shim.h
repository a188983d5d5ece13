// SPDX-License-Identifier: Apache-2.0
//
// epoll and eventfd for Swift, whose Glibc module leaves both headers out, and two system calls that Glibc declares
// only as extensions. The header contains no logic.
#pragma once
#include <features.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

// Flags of accept4. Source: include/linux/net.h of Linux.
enum { martlet_accept_flags = 02000000 | 00004000 };

// Accepts a connection as a descriptor that is not blocking and is closed by exec, and tells the address of the peer:
// `address` has room for `*address_bytes` bytes. glibc declares accept4 only with _GNU_SOURCE, which would change types
// of other headers.
static inline int martlet_accept(int listener, void *address, unsigned *address_bytes) {
    return (int)syscall(
        SYS_accept4, listener, address, address_bytes, martlet_accept_flags);
}

// Waits with a resolution of nanoseconds; nanoseconds < 0: without a limit. glibc has no epoll_pwait2 before 2.35.
static inline int martlet_epoll_wait(
    int epoll, struct epoll_event *events, int count, int64_t nanoseconds) {
    struct { int64_t seconds, nanoseconds; } time = {
        nanoseconds / 1000000000, nanoseconds % 1000000000};
    return (int)syscall(
        SYS_epoll_pwait2, epoll, events, count, nanoseconds < 0 ? 0 : &time, 0, 0);
}
