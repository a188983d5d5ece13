// SPDX-License-Identifier: Apache-2.0
//
// Shows ThreadSanitizer the locks of Synchronization.Mutex. Their contended paths lie in libswiftSynchronization.so, which is
// not instrumented: without this library (LD_PRELOAD) whatever a contended lock guards looks like a race.

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
