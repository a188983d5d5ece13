// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <features.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>

// spawn.h declares these functions only under _GNU_SOURCE, which a module cannot define.
extern int posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t *actions, const char *path);
extern int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int from);

// Kills this process when the thread that started it ends. Swift has no prctl, which takes any number of arguments.
static inline void martlet_end_with_parent(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); }
