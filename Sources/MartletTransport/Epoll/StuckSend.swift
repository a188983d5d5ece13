// SPDX-License-Identifier: Apache-2.0
//
// A send that its socket has not taken, because the peer reads too slowly. The caller's vectors are valid only until
// the next wait, so the transport keeps a copy until the socket has room. Rests on Glibc.

internal import Glibc

struct StuckSend {
    let vectors: UnsafeMutableBufferPointer<iovec>

    init(copying vectors: UnsafeBufferPointer<iovec>) {
        self.vectors = .allocate(capacity: vectors.count)
        _ = self.vectors.initialize(from: vectors)
    }

    func free() { vectors.deallocate() }
}
