// SPDX-License-Identifier: Apache-2.0
//
// A disk that fails or is slow, for one process: a library for LD_PRELOAD that stands before the calls which write to
// files. The file named by FAILING_DISK says what goes wrong, and may change at any time: lines of
//
//     ID NAME CALLS ERROR COUNT MICROSECONDS
//
// NAME is the end of the path of the files concerned, or *. CALLS has w for writes and for taking room, s for syncs.
// ERROR is the number of the system's error; 0: the call is carried out. COUNT is how many calls are concerned; -1: all.
// MICROSECONDS is the delay before each. A line that is written anew with another ID begins to count anew.
//
// Only calls through libc are caught. So the broker must link liblmdb dynamically, and write its journal with pwrite.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { rules_max = 8, text_max = 1024, path_max = 4096 };

struct counted {
    _Atomic long id;
    _Atomic long left;
};

static struct counted counted[rules_max];

static long take(int place, long id, long count) {
    if (count < 0) return 1;
    struct counted *rule = &counted[place];
    if (atomic_load(&rule->id) != id) {
        atomic_store(&rule->left, count);
        atomic_store(&rule->id, id);
    }
    return atomic_fetch_sub(&rule->left, 1) > 0;
}

// The error of a call on a file; 0: the call is carried out.
static int fault(int descriptor, char call) {
    const char *rules = getenv("FAILING_DISK");
    if (!rules) return 0;
    int kept = errno, found = 0;
    char text[text_max + 1], path[path_max + 1], link[64];
    // The calls of the kernel themselves, because libc's are caught.
    int file = (int)syscall(SYS_openat, AT_FDCWD, rules, O_RDONLY | O_CLOEXEC);
    long count = file < 0 ? 0 : syscall(SYS_read, file, text, text_max);
    if (file >= 0) syscall(SYS_close, file);
    text[count < 0 ? 0 : count] = 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    long length = count > 0 ? readlink(link, path, path_max) : -1;
    if (length >= 0) {
        path[length] = 0;
        char *rest = NULL, *line = strtok_r(text, "\n", &rest);
        for (int place = 0; line && place < rules_max && !found; place++) {
            long id, left;
            char name[256], calls[8];
            int error;
            unsigned delay;
            size_t end = 0;
            if (sscanf(line, "%ld %255s %7s %d %ld %u", &id, name, calls, &error, &left, &delay) == 6
                && strchr(calls, call)
                && (!strcmp(name, "*")
                    || ((end = strlen(name)) <= (size_t)length && !strcmp(path + length - end, name)))
                && take(place, id, left)) {
                if (delay) usleep(delay);
                found = error;
            }
            line = strtok_r(NULL, "\n", &rest);
        }
    }
    errno = found ? found : kept;
    return found;
}

#define CAUGHT(result, name, call, parameters, arguments)                                        \
    result name parameters {                                                                     \
        static result(*_Atomic next) parameters;                                                 \
        if (!next) next = (result(*) parameters)dlsym(RTLD_NEXT, #name);                         \
        return fault(descriptor, call) ? (result)-1 : next arguments;                            \
    }

CAUGHT(ssize_t, pwrite, 'w', (int descriptor, const void *bytes, size_t count, off_t offset),
       (descriptor, bytes, count, offset))
CAUGHT(ssize_t, pwrite64, 'w', (int descriptor, const void *bytes, size_t count, off64_t offset),
       (descriptor, bytes, count, offset))
CAUGHT(ssize_t, pwritev, 'w', (int descriptor, const struct iovec *parts, int count, off_t offset),
       (descriptor, parts, count, offset))
CAUGHT(ssize_t, pwritev64, 'w',
       (int descriptor, const struct iovec *parts, int count, off64_t offset),
       (descriptor, parts, count, offset))
CAUGHT(ssize_t, write, 'w', (int descriptor, const void *bytes, size_t count),
       (descriptor, bytes, count))
CAUGHT(int, fallocate, 'w', (int descriptor, int mode, off_t offset, off_t count),
       (descriptor, mode, offset, count))
CAUGHT(int, fallocate64, 'w', (int descriptor, int mode, off64_t offset, off64_t count),
       (descriptor, mode, offset, count))
CAUGHT(int, fsync, 's', (int descriptor), (descriptor))
CAUGHT(int, fdatasync, 's', (int descriptor), (descriptor))
CAUGHT(int, sync_file_range, 's',
       (int descriptor, off64_t offset, off64_t count, unsigned flags),
       (descriptor, offset, count, flags))
