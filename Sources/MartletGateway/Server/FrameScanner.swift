// SPDX-License-Identifier: Apache-2.0
//
// Reads a peer's HTTP/2 bytes just far enough to bound them (OPS-5). The HTTP/2 library bounds every kind of frame that costs
// work without effect, except WINDOW_UPDATE, GOAWAY and frames unknown to RFC 9113. No other time limit covers an unfinished
// frame or an unfinished block of header fields. The scanner decides, and does not act. Rests on the standard library.

/// Reads the heads of frames. Source: RFC 9113 §4.1, §6.2, §6.9, §6.10.
package struct FrameScanner {
    /// The first bytes of an HTTP/2 client.
    package static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    /// WINDOW_UPDATE frames that are free in `updatesWindow`: as many as the library allows of PING and SETTINGS.
    /// GOAWAY and unknown frames count as updates.
    package static let updatesFree = 200
    /// Time after which the count of frames begins again.
    package static let updatesWindow = Duration.seconds(30)
    /// Further updates for each request: clients send two for each DATA frame of an answer.
    package static let updatesPerRequest = 8
    /// Bytes of answers that allow a further update: the smallest amount for which libraries send an update.
    static let bytesPerUpdate = 512

    private enum FrameType {
        static let headers: UInt8 = 1
        static let goAway: UInt8 = 7
        static let windowUpdate: UInt8 = 8
        static let continuation: UInt8 = 9
    }
    private static let endHeaders: UInt8 = 4
    private static let headBytes = 9

    private var head: [UInt8] = []
    private var payloadBytesLeft = 0
    private var isInHeaderBlock = false
    private var updatesSeen = 0
    private var updatesAllowed = updatesFree
    private var bytesWritten = 0
    private var windowBegan: ContinuousClock.Instant

    /// Frames and blocks of header fields begun so far.
    package private(set) var begunCount = 0

    package init(now: ContinuousClock.Instant) { windowBegan = now }

    /// True inside a frame or a block of header fields.
    package var isInside: Bool { !head.isEmpty || payloadBytesLeft > 0 || isInHeaderBlock }

    /// The error code if written bytes begin with a GOAWAY frame; 0: no error. The library writes each frame by itself.
    static func goAwayCode(_ bytes: some Collection<UInt8>) -> UInt32? {
        // The payload is the last stream, the code, and any bytes.
        let frame = Array(bytes.prefix(headBytes + 8))
        guard frame.count == headBytes + 8, frame[3] == FrameType.goAway,
            frame[4...8].allSatisfy({ $0 == 0 }),
            Int(frame[0]) << 16 | Int(frame[1]) << 8 | Int(frame[2]) <= bytes.count - headBytes
        else { return nil }
        return frame[(headBytes + 4)...].reduce(0) { $0 << 8 | UInt32($1) }
    }

    /// Counts bytes of answers. Answers allow updates, because a client that reads much sends many updates.
    package mutating func write(bytesCount: Int) { bytesWritten += bytesCount }

    /// Reads bytes of the peer.
    /// - Returns: false if the peer sends more WINDOW_UPDATE frames than reading answers explains.
    package mutating func read(_ bytes: some Collection<UInt8>, now: ContinuousClock.Instant)
        -> Bool
    {
        if windowBegan + Self.updatesWindow <= now {
            windowBegan = now
            (updatesSeen, updatesAllowed, bytesWritten) = (0, Self.updatesFree, 0)
        }
        var rest = bytes[...]
        while !rest.isEmpty {
            if payloadBytesLeft > 0 {
                let count = min(payloadBytesLeft, rest.count)
                payloadBytesLeft -= count
                rest = rest.dropFirst(count)
                continue
            }
            if head.isEmpty, !isInHeaderBlock { begunCount += 1 }
            let count = Self.headBytes - head.count
            head += rest.prefix(count)
            rest = rest.dropFirst(count)
            if head.count == Self.headBytes { takeHead() }
        }
        return updatesSeen <= updatesAllowed + bytesWritten / Self.bytesPerUpdate
    }

    private mutating func takeHead() {
        payloadBytesLeft = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
        let isLast = head[4] & Self.endHeaders != 0
        switch head[3] {
        case FrameType.headers:
            updatesAllowed += Self.updatesPerRequest
            isInHeaderBlock = !isLast
        case FrameType.continuation: isInHeaderBlock = !isLast
        case FrameType.windowUpdate, FrameType.goAway, (FrameType.continuation + 1)...:
            updatesSeen += 1
        default: break
        }
        head = []
    }
}
