// SPDX-License-Identifier: Apache-2.0
//
// Frames leave the splitter whole and in order however the bytes were cut, and a length that is not allowed is refused before
// any of that frame is kept (NET-1, NET-3).

import MartletBase
import MartletWire
import Testing

/// A frame that was handed out, copied.
private struct Cut: Hashable {
    var type: UInt8
    var body: [UInt8]
}

/// What a splitter makes of the bytes, given in pieces.
private func split(
    _ pieces: [[UInt8]], with splitter: inout FrameSplitter
) throws(WireError) -> [Cut] {
    var cuts: [Cut] = []
    for piece in pieces {
        try piece.span.bytes.withUnsafeBytes { (bytes) throws(WireError) in
            var chunk = bytes
            while let frame = try splitter.next(from: &chunk) {
                cuts.append(Cut(type: frame.type, body: [UInt8](frame.body)))
            }
        }
    }
    return cuts
}

/// The naive model: all bytes at once, by the document's words.
private func model(_ bytes: [UInt8]) -> [Cut] {
    var cuts: [Cut] = []
    var rest = bytes[...]
    while rest.count >= 4 {
        let length = rest.prefix(4).reversed().reduce(0) { $0 << 8 | Int($1) }
        guard rest.count >= 4 + length else { break }
        let frame = rest.dropFirst(4).prefix(length)
        cuts.append(Cut(type: frame.first!, body: Array(frame.dropFirst())))
        rest = rest.dropFirst(4 + length)
    }
    return cuts
}

private func frame(type: UInt8, body: [UInt8]) -> [UInt8] {
    let length = UInt32(body.count + 1)
    return (0..<4).map { UInt8(truncatingIfNeeded: length >> (8 * $0)) } + [type] + body
}

@Suite struct FrameSplitterTests {
    @Test("NET-1 two frames cut at every point come out whole, and no memory is kept after them")
    func everyPoint() throws {
        let bytes = frame(type: 3, body: Array(0..<20)) + frame(type: 9, body: [])
        let expected = model(bytes)
        #expect(expected.count == 2)
        for point in 0...bytes.count {
            var splitter = FrameSplitter(frameBytesMax: 64)
            let pieces = [Array(bytes[..<point]), Array(bytes[point...]), []]
            let cuts = try split(pieces, with: &splitter)
            #expect(cuts == expected, "cut at \(point)")
            let idle = splitter.isIdle
            #expect(idle, "cut at \(point)")
        }
    }

    @Test("NET-1 byte by byte is as good as at once")
    func byteAtATime() throws {
        let bytes = try vectorValues.keys.sorted().flatMap { try Vectors.bytes($0) }
        var splitter = FrameSplitter(frameBytesMax: 65_536)
        let cuts = try split(bytes.map { [$0] }, with: &splitter)
        #expect(cuts == model(bytes))
        #expect(cuts.count == vectorValues.count)
    }

    @Test("NET-1 random frames in random pieces agree with the naive model")
    func randomPieces() throws {
        var random = SeededGenerator(seed: 1)
        for _ in 0..<2000 {
            var bytes: [UInt8] = []
            for _ in 0..<Int.random(in: 0...12, using: &random) {
                let count = Int.random(
                    in: 0...(Bool.random(using: &random) ? 3 : 300), using: &random)
                bytes += frame(
                    type: .random(in: 0...255, using: &random),
                    body: (0..<count).map { _ in .random(in: 0...255, using: &random) })
            }
            bytes = Array(bytes.dropLast(Int.random(in: 0...5, using: &random)))
            var pieces: [[UInt8]] = []
            var rest = bytes[...]
            while !rest.isEmpty {
                let count = Int.random(in: 0...min(rest.count, 400), using: &random)
                pieces.append(Array(rest.prefix(count)))
                rest = rest.dropFirst(count)
            }
            var splitter = FrameSplitter(frameBytesMax: 1000)
            let cuts = try split(pieces, with: &splitter)
            #expect(cuts == model(bytes))
        }
    }

    @Test("NET-1 a frame that lies whole inside a chunk is not copied")
    func borrowed() throws {
        let bytes = frame(type: 3, body: [1, 2, 3])
        var splitter = FrameSplitter(frameBytesMax: 64)
        try bytes.withUnsafeBytes { bytes in
            var chunk = bytes
            let frame = try splitter.next(from: &chunk)
            #expect(frame?.body.baseAddress == bytes.baseAddress.map { $0 + 5 })
            #expect(chunk.isEmpty)
        }
        let idle = splitter.isIdle
        #expect(idle)
    }

    @Test("NET-3 an announced length costs no memory until the bytes come")
    func proportional() throws {
        var splitter = FrameSplitter(frameBytesMax: 65_536)
        _ = try split([[0, 0, 1, 0, 7, 1, 2, 3]], with: &splitter)
        let kept = splitter.keptBytes
        #expect(kept == 4)
    }

    @Test("NET-3 length 0 and a length past the limit are refused, in one piece or byte by byte")
    func lengths() {
        let cases: [([UInt8], WireError)] = [
            ([0, 0, 0, 0], .emptyFrame),
            ([65, 0, 0, 0], .frameTooLong(bytes: 65, maxBytes: 64)),
            ([255, 255, 255, 255], .frameTooLong(bytes: 4_294_967_295, maxBytes: 64)),
        ]
        for (bytes, expected) in cases {
            for pieces in [[bytes], bytes.map { [$0] }] {
                var splitter = FrameSplitter(frameBytesMax: 64)
                do {
                    _ = try split(pieces, with: &splitter)
                    Issue.record("\(bytes) is accepted")
                } catch {
                    #expect(error == expected)
                }
                let kept = splitter.keptBytes
                #expect(kept == 0)
            }
        }
    }

    @Test("NET-3 the limit can be raised when HELLO has told the role")
    func raised() throws {
        var splitter = FrameSplitter(frameBytesMax: 64)
        splitter.frameBytesMax = ConnectionRole.sender.frameBytesMax
        let bytes = frame(type: 1, body: Array(repeating: 7, count: 65_535))
        let cuts = try split([bytes], with: &splitter)
        #expect(cuts.count == 1)
    }
}
