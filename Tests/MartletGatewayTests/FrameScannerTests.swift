// SPDX-License-Identifier: Apache-2.0
//
// Which HTTP/2 frames are a flood, and when a frame has not arrived whole (OPS-5). Rests on FrameScanner.

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
