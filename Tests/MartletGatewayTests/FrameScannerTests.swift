// SPDX-License-Identifier: Apache-2.0
//
// Which HTTP/2 frames are a flood, and when a frame of HTTP/2 or a message of a WebSocket has not arrived whole (OPS-5,
// GW-15). Rests on FrameScanner and MessageScanner.

import MartletGateway
import Testing

@Suite("Gateway: frames of HTTP/2")
final class FrameScannerTests {
    private static let start = ContinuousClock.now
    private var scanner = FrameScanner(now: start)

    private func frame(_ type: UInt8, flags: UInt8 = 0, payloadBytes: Int) -> [UInt8] {
        [0, UInt8(payloadBytes >> 8), UInt8(payloadBytes & 0xFF), type, flags, 0, 0, 0, 1]
            + [UInt8](repeating: 0, count: payloadBytes)
    }

    private var update: [UInt8] { frame(8, payloadBytes: 4) }
    private var request: [UInt8] { frame(1, flags: 5, payloadBytes: 60) }

    private func read(_ bytes: some Collection<UInt8>, after seconds: Int = 0) -> Bool {
        scanner.read(bytes, now: Self.start + .seconds(seconds))
    }

    @Test("OPS-5 updates of windows without requests are a flood, in one piece or byte by byte")
    func flood() {
        for _ in 0..<FrameScanner.updatesFree {
            #expect(read(update))
        }
        for byte in update.dropLast(5) { #expect(read([byte])) }
        #expect(!read(update.suffix(5)))
    }

    @Test("OPS-5 a client that reads what it asks for, or takes its time, is no flood")
    func honest() {
        for _ in 0..<1000 {
            #expect(read(request + update + update))
        }
        scanner.write(bytesCount: 10 << 20)
        for _ in 0..<10_000 { #expect(read(update)) }
        scanner = FrameScanner(now: Self.start)
        for number in 0..<2000 { #expect(read(update, after: number / 5)) }
    }

    @Test(
        "OPS-5 a frame, and a block of header fields, is one thing from its first byte to its last")
    func whole() {
        #expect(!scanner.isInside)
        for (bytes, isInside, begunCount) in [
            (Array(update.prefix(3)), true, 1), (Array(update.dropFirst(3)), false, 1),
            // HEADERS without END_HEADERS, CONTINUATION without and with it.
            (frame(1, payloadBytes: 5), true, 2), (frame(9, payloadBytes: 5), true, 2),
            (frame(9, flags: 4, payloadBytes: 0), false, 2),
            (update + frame(0, payloadBytes: 300).prefix(100), true, 4),
        ] {
            #expect(read(bytes))
            #expect(scanner.isInside == isInside && scanner.begunCount == begunCount)
        }
    }
}

@Suite("Gateway: messages of a WebSocket")
struct MessageScannerTests {
    private static let text: UInt8 = 0x81
    private static let part: UInt8 = 0x01
    private static let last: UInt8 = 0x80
    private static let ping: UInt8 = 0x89

    /// A frame of a client; `lengthBytes` as the client chose them.
    private static func frame(_ first: UInt8, _ payloadBytes: Int, lengthBytes: Int = 0) -> [UInt8]
    {
        let length = (0..<lengthBytes).reversed().map { UInt8(payloadBytes >> (8 * $0) & 0xFF) }
        let short = lengthBytes == 0 ? UInt8(payloadBytes) : lengthBytes == 2 ? 126 : 127
        return [first, 0x80 | short] + length + [UInt8](repeating: 1, count: 4 + payloadBytes)
    }

    private static let cases: [(bytes: [UInt8], begun: Int, unfinished: Int)] = [
        ([], 0, 0), ([text], 1, 1), ([text, 0x81], 1, 2), (frame(text, 0), 1, 0),
        (frame(text, 125), 1, 0), (frame(text, 300, lengthBytes: 2), 1, 0),
        (frame(text, 70_000, lengthBytes: 8), 1, 0), (frame(text, 3, lengthBytes: 8), 1, 0),
        (Array(frame(text, 300, lengthBytes: 2).dropLast()), 1, 307),
        (Array(frame(text, 70_000, lengthBytes: 8).dropLast()), 1, 70_013),
        ([text] + [UInt8](repeating: 0xFF, count: 9), 1, 10),
        (frame(text, 5) + Array(frame(text, 5).prefix(7)), 2, 7),
        (frame(part, 5), 1, 11), (frame(part, 5) + frame(0, 6), 1, 23),
        (frame(part, 5) + frame(ping, 2) + frame(last, 6), 1, 0),
        (frame(part, 5) + frame(ping, 2), 1, 19), (frame(ping, 2) + frame(ping, 0), 2, 0),
        // A frame without a mask is a fault, and has an end all the same.
        ([text, 2, 1], 1, 3), ([text, 2, 1, 1], 1, 0),
    ]

    @Test(
        "GW-15 a message is unfinished from its first byte to the last of its last frame",
        arguments: cases.indices)
    func unfinished(index: Int) {
        let one = Self.cases[index]
        var (whole, apart) = (MessageScanner(), MessageScanner())
        whole.read(one.bytes)
        for byte in one.bytes { apart.read([byte]) }
        for scanner in [whole, apart] {
            #expect(scanner.begunCount == one.begun)
            #expect(scanner.unfinishedBytes == one.unfinished)
        }
    }
}
