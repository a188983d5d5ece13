// SPDX-License-Identifier: Apache-2.0
//
// Sending several pieces as one. The function has a file of its own, because CLiburing declares `iovec` as well: where
// both modules are imported, the compiler takes CLiburing's type, which no public function may have. Rests on
// UringTransport+Operations.

public import Glibc
public import MartletTransport

extension UringTransport {
    /// Queues a send of several pieces. More than 1024 vectors, or a second send before `.sent`, end the process.
    public mutating func send(_ connection: ConnectionID, vectors: UnsafeBufferPointer<iovec>) {
        gather(connection, vectors: vectors.baseAddress, count: vectors.count)
    }
}
