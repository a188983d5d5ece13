// SPDX-License-Identifier: Apache-2.0
//
// The files of the console's pages, inside the program. The header contains no logic.
#pragma once
#include <stddef.h>

/// A file of the folder Sources/MartletConsole/Web.
typedef struct {
    const char *name;
    const unsigned char *bytes;
    size_t count;
} martlet_console_file_t;

extern const size_t martlet_console_file_count;

/// The file with a number below `martlet_console_file_count`.
martlet_console_file_t martlet_console_file(size_t index);
