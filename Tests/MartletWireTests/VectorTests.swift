// SPDX-License-Identifier: Apache-2.0
//
// The codec does what the document says (NET-1). Each golden vector decodes to its value of `vectorValues`, and the value
// encodes to the vector's bytes.

import MartletBase
import MartletWire
import Testing

@Suite struct VectorTests {
    @Test("NET-1 every vector has a value here, and every value a vector")
    func complete() {
        #expect(Vectors.names == vectorValues.keys.sorted())
    }

    @Test("NET-1 every type of frame is shown by a vector")
    func everyType() {
        let shown = Set(vectorValues.values.map { $0.encoded[4] })
        #expect(shown == Set(FrameType.allCases.map(\.rawValue)))
    }

    @Test("NET-1 a vector decodes to its value", arguments: vectorValues.keys.sorted())
    func decodes(name: String) throws {
        let bytes = try Vectors.bytes(name)
        let value = try #require(vectorValues[name])
        let length = bytes[0..<4].reversed().reduce(0) { $0 << 8 | Int($1) }
        #expect(length == bytes.count - 4)
        #expect(try value.decodeSame(type: bytes[4], body: Array(bytes[5...])) == value)
    }

    @Test("NET-1 a value encodes to its vector's bytes", arguments: vectorValues.keys.sorted())
    func encodes(name: String) throws {
        let value = try #require(vectorValues[name])
        #expect(try value.encoded == Vectors.bytes(name))
    }

    @Test("NET-1 DELIVER written straight into memory is the vector, byte for byte")
    func deliverHeader() throws {
        for name in vectorValues.keys where name.hasPrefix("deliver-") {
            let vector = try Vectors.bytes(name)
            guard case .broker(.deliver(let deliver)) = vectorValues[name] else { continue }
            let from = Array(deliver.from.utf8)
            let count = DeliverHeader.byteCount(
                fromBytes: from.count, hasOwnNumber: deliver.ownNumber != nil,
                bodyBytes: deliver.message.count)
            #expect(count == vector.count)
            var memory = [UInt8](repeating: 0xEE, count: count + 1)
            memory.withUnsafeMutableBytes { memory in
                from.withUnsafeBytes { from in
                    deliver.message.withUnsafeBytes { body in
                        let written = DeliverHeader.write(
                            streamID: deliver.streamID, accepted: deliver.accepted,
                            expires: deliver.expires, kind: deliver.kind,
                            priority: deliver.priority,
                            options: deliver.options, ownNumber: deliver.ownNumber,
                            from: from, body: body, into: memory)
                        #expect(written == count)
                    }
                }
            }
            #expect(memory == vector + [0xEE])
        }
    }
}
