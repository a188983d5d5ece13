// SPDX-License-Identifier: Apache-2.0
//
// The commit that a program was built from.

#pragma once

/// The first digits of the commit; empty in a build that was not told, such as that of a source archive.
const char *_Nonnull martlet_commit(void);
