// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <features.h>
#include <zlib.h>

/// `inflateInit2` is a macro. 16 + 15: the gzip format alone, with any window.
static inline int martlet_inflate_begin_gzip(z_stream *stream) {
    return inflateInit2(stream, 16 + MAX_WBITS);
}
