// SPDX-License-Identifier: Apache-2.0
//
// Shows ThreadSanitizer, by LD_PRELOAD, what libraries do that are not instrumented:
//
// - The locks of Synchronization.Mutex. Their contended paths lie in libswiftSynchronization.so, and without this library
//   whatever a contended lock guards looks like a race.
// - Continuations that are resumed before their task waits. The runtime tells ThreadSanitizer only of those that come later.
// - Rings that end. liburing maps and unmaps by system calls of its own, so a new ring at the address of an old one looks as
//   if two threads used the same memory.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

// In programs that are built for ThreadSanitizer; elsewhere there is nothing to tell.
extern void __tsan_acquire(void *) __attribute__((weak));
extern void __tsan_release(void *) __attribute__((weak));

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context)) void *self

// Mangled names of _MutexHandle's _lockSlow(_:), _unlockSlow() and _tryLockSlow().
#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"
#define TRY_LOCK "$s15Synchronization12_MutexHandleV12_tryLockSlowSbyF"

static SWIFT void (*next_lock)(uint32_t, SELF);
static SWIFT void (*next_unlock)(SELF);
static SWIFT bool (*next_try_lock)(SELF);

__attribute__((constructor)) static void find_next(void) {
    *(void **)&next_lock = dlsym(RTLD_NEXT, LOCK);
    *(void **)&next_unlock = dlsym(RTLD_NEXT, UNLOCK);
    *(void **)&next_try_lock = dlsym(RTLD_NEXT, TRY_LOCK);
}

SWIFT void lock(uint32_t thread, SELF) __asm__(LOCK);
SWIFT void lock(uint32_t thread, SELF) {
    if (!next_lock) find_next();
    next_lock(thread, self);
    if (__tsan_acquire) __tsan_acquire(self);
}

SWIFT void unlock(SELF) __asm__(UNLOCK);
SWIFT void unlock(SELF) {
    if (!next_unlock) find_next();
    if (__tsan_release) __tsan_release(self);
    next_unlock(self);
}

SWIFT bool try_lock(SELF) __asm__(TRY_LOCK);
SWIFT bool try_lock(SELF) {
    if (!next_try_lock) find_next();
    bool locked = next_try_lock(self);
    if (locked && __tsan_acquire) __tsan_acquire(self);
    return locked;
}

extern SWIFT void *swift_task_getCurrent(void);

#define RESUME(function, parameters, ...)                  \
    SWIFT void function parameters;                        \
    SWIFT void function parameters {                       \
        SWIFT void (*next) parameters;                     \
        *(void **)&next = dlsym(RTLD_NEXT, #function);     \
        if (__tsan_release) __tsan_release(task);          \
        next(__VA_ARGS__);                                 \
    }

RESUME(swift_continuation_resume, (void *task), task)
RESUME(swift_continuation_throwingResume, (void *task), task)
RESUME(swift_continuation_throwingResumeWithError, (void *task, void *error), task, error)

__attribute__((swiftasynccall)) void swift_continuation_await(void *context);
__attribute__((swiftasynccall)) void swift_continuation_await(void *context) {
    __attribute__((swiftasynccall)) void (*next)(void *);
    *(void **)&next = dlsym(RTLD_NEXT, "swift_continuation_await");
    if (__tsan_acquire) __tsan_acquire(swift_task_getCurrent());
    __attribute__((musttail)) return next(context);
}

struct io_uring;
struct io_uring_params;

static char rings;

int io_uring_queue_init_params(unsigned entries, struct io_uring *ring, struct io_uring_params *parameters) {
    int (*next)(unsigned, struct io_uring *, struct io_uring_params *);
    *(void **)&next = dlsym(RTLD_NEXT, "io_uring_queue_init_params");
    int result = next(entries, ring, parameters);
    if (__tsan_acquire) __tsan_acquire(&rings);
    return result;
}

void io_uring_queue_exit(struct io_uring *ring) {
    void (*next)(struct io_uring *);
    *(void **)&next = dlsym(RTLD_NEXT, "io_uring_queue_exit");
    if (__tsan_release) __tsan_release(&rings);
    next(ring);
}
