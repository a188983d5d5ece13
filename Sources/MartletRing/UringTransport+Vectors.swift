// SPDX-License-Identifier: Apache-2.0
//
// Sending several pieces as one. Rests on UringTransport+Operations.

public import MartletTransport

extension UringTransport {
    /// Queues a send of several pieces. More than 1024 vectors, or a second send before `.sent`, end the process.
    public mutating func send(_ connection: ConnectionID, vectors: UnsafeBufferPointer<SendPiece>) {
        gather(connection, vectors: vectors.baseAddress, count: vectors.count)
    }
}
