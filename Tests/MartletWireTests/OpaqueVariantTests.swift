// SPDX-License-Identifier: Apache-2.0
//
// Opaque messages: bytes that the broker passes on without a look (MSG-11).

import MartletBase
import MartletWire
import Testing

@Suite("Opaque messages")
struct OpaqueVariantTests {
    @Test("MSG-11 4096 bytes of any value are taken as they are, and not one more")
    func size() throws {
        let content = (0..<4096).map { UInt8(truncatingIfNeeded: $0) }
        let variant = try #require(try variants(Message(opaque: content)).first)
        #expect(variant.platforms == .all && variant.collapse == .opaque(topic: nil))
        #expect(try read(variant).opaque == content)
        #expect(refusal(Message(opaque: content + [0]))?.field == "message.opaque")
        #expect(try read(try variants(Message(opaque: []))[0]).opaque == [])
    }

    @Test("MSG-11 with options it is for web instances, and its topic is no collapse key")
    func options() throws {
        let message = Message(
            opaque: [1], webpush: .init(topic: "news", options: [.init(key: "k", value: "v")]))
        let variant = try #require(try variants(message).first)
        #expect(variant.platforms == .init(.web))
        #expect(variant.collapse == .opaque(topic: "news") && !variant.collapse.isCollapsible)
        #expect(try read(variant).options == [.init(key: "k", value: "v")])
    }

    @Test("MSG-11 it is for one token, and has no other content")
    func alone() throws {
        let encoded = try Message(opaque: [1]).encoded()
        for kind in [TargetKind.topic, .condition, .group, .several] {
            #expect(throws: MartletError.self) {
                try Message.variants(of: encoded, target: kind)
            }
        }
        var mixed = Message(opaque: [1])
        mixed.data = [.init(key: "k", value: "v")]
        #expect(refusal(mixed)?.field == "message.opaque")
        mixed = Message(opaque: [1], webpush: .init(notification: .init(title: "t")))
        #expect(refusal(mixed)?.word == .invalidArgument)
        mixed = Message(opaque: [1])
        mixed.android = .init(priority: .high)
        #expect(refusal(mixed)?.field == "message.opaque")
    }
}
