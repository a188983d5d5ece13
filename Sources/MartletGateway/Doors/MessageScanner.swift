// SPDX-License-Identifier: Apache-2.0
//
// Reads the heads of a WebSocket's frames, just far enough to tell which bytes belong to no whole message yet (GW-15): the
// frames themselves are read by the WebSocket library, which keeps the beginning of one until the rest comes. Pure.

/// Finds the ends of messages. Source: RFC 6455, section 5.2.
package struct MessageScanner {
    private enum Head {
        static let final: UInt8 = 0x80
        static let control: UInt8 = 0x08
        static let masked: UInt8 = 0x80
        static let length: UInt8 = 0x7F
        static let wordLength: UInt8 = 126
        static let maskBytes = 4
        /// The bytes of the longest one.
        static let bytesMax = 14
    }

    private var head: [UInt8] = []
    private var payloadBytesLeft: UInt64 = 0
    /// Inside a message, between two of its frames too.
    private var isInMessage = false

    /// Messages begun so far. A control frame outside of a message counts as one.
    package private(set) var begunCount = 0
    /// Bytes since the beginning of the message that is not whole; 0 between two messages.
    package private(set) var unfinishedBytes = 0

    package init() { head.reserveCapacity(Head.bytesMax) }

    /// Reads bytes of the peer.
    package mutating func read(_ bytes: some Collection<UInt8>) {
        var rest = bytes[...]
        while !rest.isEmpty {
            if payloadBytesLeft == 0 {
                if unfinishedBytes == 0 { begunCount += 1 }
                head.append(rest.removeFirst())
                unfinishedBytes += 1
                takeHead()
            } else {
                let count = Int(min(payloadBytesLeft, UInt64(rest.count)))
                rest = rest.dropFirst(count)
                unfinishedBytes += count
                payloadBytesLeft -= UInt64(count)
                if payloadBytesLeft == 0 { frameEnded() }
            }
        }
    }

    /// Reads a head that has come whole.
    private mutating func takeHead() {
        guard head.count >= 2 else { return }
        let short = head[1] & Head.length
        let lengthBytes = short < Head.wordLength ? 0 : short == Head.wordLength ? 2 : 8
        let maskBytes = head[1] & Head.masked == 0 ? 0 : Head.maskBytes
        guard head.count == 2 + lengthBytes + maskBytes else { return }
        payloadBytesLeft =
            lengthBytes == 0
            ? UInt64(short) : head[2..<(2 + lengthBytes)].reduce(0) { $0 << 8 | UInt64($1) }
        if payloadBytesLeft == 0 { frameEnded() }
    }

    private mutating func frameEnded() {
        if head[0] & Head.control == 0 { isInMessage = head[0] & Head.final == 0 }
        head.removeAll(keepingCapacity: true)
        if !isInMessage { unfinishedBytes = 0 }
    }
}
