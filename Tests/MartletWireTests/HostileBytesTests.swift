// SPDX-License-Identifier: Apache-2.0
//
// Whatever bytes arrive, decoding throws one of its typed errors or returns a value that says exactly these bytes (NET-3). It
// never traps and never takes a part for the whole.

import MartletBase
import MartletWire
import TestSupport
import Testing

@Suite struct HostileBytesTests {
    /// Frames that end in a message or in bytes of a node, which are the rest of the frame, whatever their length.
    private static let withMessage = [
        FrameType.send, .multicast, .deliver, .upstream, .upstreamMessage, .nodeUpstream,
        .forward, .backupPart, .nodeFanout, .nodeRow,
    ].map(\.rawValue)

    /// Bytes of the body of `hello-new-device`, and of the vectors that continue it.
    private static let olderHello = 33

    @Test(
        "NET-3 every truncation of every vector is refused", arguments: vectorValues.keys.sorted())
    func truncations(name: String) throws {
        let bytes = try Vectors.bytes(name)
        let value = try #require(vectorValues[name])
        for count in 0..<(bytes.count - 5) {
            let body = Array(bytes[5..<(5 + count)])
            do {
                let shorter = try value.decodeSame(type: bytes[4], body: body)
                // Their message is the rest of the frame, whatever its length. The HELLO of a new device may end
                // before its credential, as from an older client.
                let isOlder = name.hasPrefix("hello-new-device-") && count == Self.olderHello
                #expect(Self.withMessage.contains(bytes[4]) || isOlder)
                #expect(Array(shorter.encoded[5...]) == body)
            } catch {
                guard case .truncated(let needed, let available) = error else {
                    Issue.record("\(name) cut to \(count) bytes: \(error)")
                    continue
                }
                #expect(needed > available)
                #expect(error.martletError.word == .protocolViolation)
            }
        }
    }

    @Test("NET-3 a byte after the last field is refused", arguments: vectorValues.keys.sorted())
    func trailing(name: String) throws {
        let bytes = try Vectors.bytes(name)
        let value = try #require(vectorValues[name])
        guard !Self.withMessage.contains(bytes[4]) else { return }
        // What follows is the kind of a credential there, and no kind is 0.
        let error: WireError =
            name == "hello-new-device"
            ? .unknownValue(field: "credential kind", value: 0) : .trailingBytes(count: 1)
        #expect(throws: error) {
            try value.decodeSame(type: bytes[4], body: Array(bytes[5...]) + [0])
        }
    }

    @Test("NET-3 any byte changed to any other never traps, and what is accepted says those bytes")
    func flips() throws {
        let step = 255 / rounds(255)
        for (name, value) in vectorValues {
            var bytes = try Vectors.bytes(name)
            for index in 4..<bytes.count {
                let original = bytes[index]
                for change in stride(from: 1 + index % step, through: 255, by: step) {
                    bytes[index] = original ^ UInt8(change)
                    check(bytes, like: value, name)
                }
                bytes[index] = original
            }
        }
    }

    private func mayHoldForeignWord(_ frame: AnyFrame) -> Bool {
        switch frame {
        case .broker(.error(let frame)): frame.error.word == .internal
        case .broker(.topicResult(let frame)): frame.failures.contains { $0.word == .internal }
        case .broker(.groupAccepted(let frame)): frame.failures.contains { $0.word == .internal }
        case .broker(.multicastResult(let frame)):
            frame.failures.contains { $0.word == .internal }
        case .node(.events(let frame)):
            frame.events.contains { event in
                if case .refused(let error) = event { error.word == .internal } else { false }
            }
        default: false
        }
    }

    private func check(_ bytes: [UInt8], like value: AnyFrame, _ name: String) {
        let body = Array(bytes[5...])
        guard let frame = try? value.decodeSame(type: bytes[4], body: body) else { return }
        // A word of a later version is taken for INTERNAL; everything else has one spelling.
        if frame.encoded != bytes, !mayHoldForeignWord(frame) {
            Issue.record("\(name): \(bytes) decodes as \(frame)")
        }
        switch frame {
        case .client(.send(let send)):
            _ = try? Message.variants(of: send.message, target: send.target.kind)
            _ = try? Message(decoding: send.message, unknownTags: .skip)
        case .broker(.deliver(let deliver)):
            _ = try? Message(decoding: deliver.message, unknownTags: .skip)
        default: break
        }
    }

    @Test("NET-3 random bytes of any type never trap")
    func randomBytes() {
        var random = SeededGenerator(seed: 5228)
        for _ in 0..<rounds(200_000) {
            let type = UInt8.random(in: 0...0xCF, using: &random)
            let count = Int.random(in: 0...48, using: &random)
            // Small numbers make counts that nearly fit.
            let body = (0..<count).map { _ in
                UInt8.random(in: 0...(Bool.random(using: &random) ? 4 : 255), using: &random)
            }
            _ = try? ClientFrame.decode(type: type, body: body.span.bytes)
            _ = try? BrokerFrame.decode(type: type, body: body.span.bytes)
            _ = try? NodeFrame.decode(type: type, body: body.span.bytes)
            _ = try? Message.variants(of: body, target: .topic)
            _ = try? Message(decoding: body, unknownTags: .skip)
        }
    }

    /// type | body | error
    static let faults: [(UInt8, [UInt8], WireError)] = [
        (0x00, [], .unknownFrameType(0)),
        (0x08, [], .unknownFrameType(8)),
        (0x1C, [], .unknownFrameType(0x1C)),
        (0xFF, [], .unknownFrameType(0xFF)),
        (0x02, [], .unexpectedFrame(.welcome)),
        (0x10, [], .unexpectedFrame(.deliver)),
        (0x14, [0, 0, 0, 0], .zeroCorrelation),
        (0x01, [0x47, 0x45, 0x54, 0x20], .wrongMagic(0x2054_4547)),
        (0x01, [0x4D, 0x52, 0x54, 0x4C, 2, 9, 9], .unsupportedVersion(2)),
        (0x01, [0x4D, 0x52, 0x54, 0x4C, 1, 6], .unknownValue(field: "role", value: 6)),
        (0x01, [0x4D, 0x52, 0x54, 0x4C, 1, 2, 1, 0, 0xFF], .invalidUTF8(byteOffset: 6)),
        (0x20, [1, 0, 0, 0, 8], .unknownValue(field: "flags", value: 8)),
        (0x15, [0], .unknownValue(field: "device state", value: 0)),
        (0x15, [4], .unknownValue(field: "device state", value: 4)),
        (0x16, [], .unexpectedFrame(.confirmed)),
        (0x17, [], .unexpectedFrame(.deleted)),
        (0x18, [1, 0, 0, 0, 4], .unknownValue(field: "receipt kind", value: 4)),
        (0x19, [0, 0, 0, 0], .zeroCorrelation),
        (0x40, [0, 0, 0, 0], .zeroCorrelation),
        (0x43, [], .unexpectedFrame(.receiptEvent)),
        (0x70, [0, 0, 0, 0], .zeroCorrelation),
        (0x71, [], .unexpectedFrame(.upstreamAccepted)),
        (0x73, [], .unexpectedFrame(.upstreamMessage)),
        (0x74, [2, 0, 1], .truncated(neededBytes: 16, availableBytes: 1)),
        (0x80, [0, 0, 0, 0], .zeroCorrelation),
        (0x81, [], .unexpectedFrame(.reportResult)),
        (0x83, [], .unexpectedFrame(.dayPage)),
        (0x84, [0, 0, 0, 0], .zeroCorrelation),
        (0x98, [65], .unknownValue(field: "channel", value: 65)),
        (0x9A, [], .unexpectedFrame(.detached)),
        (0x20, [1, 0, 0, 0, 0, 6], .unknownValue(field: "target kind", value: 6)),
        (0x20, [1, 0, 0, 0, 0, 5, 0, 0], .unknownValue(field: "target kind", value: 5)),
        (0x67, [1, 0, 0, 0, 0, 1, 0, 5, 0, 0], .unknownValue(field: "target kind", value: 5)),
        (0x22, [1, 0, 0, 0, 3], .unknownValue(field: "operation", value: 3)),
        (
            0x12, [1, 0, 0, 0, 0xFF, 0xFF, 0, 0],
            .truncated(neededBytes: 131_070, availableBytes: 2)
        ),
    ]

    @Test("NET-3 each fault has its own error", arguments: 0..<Self.faults.count)
    func fault(row: Int) {
        let (type, body, expected) = Self.faults[row]
        #expect(throws: expected) { try ClientFrame.decode(type: type, body: body.span.bytes) }
    }

    @Test("NET-3 flags that no field of DELIVER and CANCELLED has are refused")
    func brokerFlags() {
        let deliver = [UInt8](repeating: 0, count: 24) + [1, 1, 4, 0, 0]
        #expect(throws: WireError.unknownValue(field: "flags", value: 4)) {
            try BrokerFrame.decode(type: 0x10, body: deliver.span.bytes)
        }
        let cancelled: [UInt8] = [1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]
        #expect(throws: WireError.unknownValue(field: "flags", value: 2)) {
            try BrokerFrame.decode(type: 0x41, body: cancelled.span.bytes)
        }
    }

    @Test("NET-1 another version is an INVALID_ARGUMENT that names the version spoken")
    func version() {
        let error = WireError.unsupportedVersion(2).martletError
        #expect(error.word == .invalidArgument)
        #expect(error.message.contains("use version 1"))
    }

    @Test("NET-1 counts beyond the documented limits are well-formed and left to the broker")
    func counts() throws {
        for count in [0, 101, 1001] {
            let request = ClientFrame.deviceTopics(
                DeviceTopicsRequest(
                    operation: .subscribe, correlation: 1,
                    topics: Array(repeating: "a", count: count)))
            let bytes = AnyFrame.client(request).encoded
            let body = Array(bytes[5...])
            #expect(try ClientFrame.decode(type: bytes[4], body: body.span.bytes) == request)
        }
    }

    @Test("NET-1 a text too long for its count is cut at a whole character and reported")
    func clipped() throws {
        var writer = WireWriter()
        let text = String(repeating: "⚓", count: 30_000)
        ErrorFrame(correlation: 1, error: MartletError(.internal, text)).encode(into: &writer)
        #expect(writer.isClipped)
        let body = Array(writer.bytes[5...])
        let frame = try BrokerFrame.decode(type: writer.bytes[4], body: body.span.bytes)
        guard case .error(let error) = frame else {
            Issue.record("\(frame)")
            return
        }
        #expect(error.error.message == String(repeating: "⚓", count: 21_845))
        writer.reset()
        #expect(!writer.isClipped && writer.bytes.isEmpty)
    }
}
