// SPDX-License-Identifier: Apache-2.0
//
// How a waiting message is stored; the store keeps the bytes without looking into them. Rests on Command and RecordBytes.
//
//     u8 version (1 or 2) ‖ u8 target kind ‖ text target ‖ u8 flags (1: an option, 2: an earlier message's
//     number follows) ‖ [u64 number] ‖ u8 variants, each
//     u8 platforms ‖ u8 priority ‖ u8 lifespan kind (0 seconds, 1 until) ‖ i64 lifespan ‖
//     u8 collapse (0 none, 1 app, 2 named) ‖ text key ‖ u8 restricted? ‖ text package name ‖ text body
//     ‖ from version 2 on, u32 addressees, each u8 0, or u8 1 ‖ u32 ordinal ‖ u64 holder
//
// The addressees belong to the target's tokens, in order. Version 1 has none, so the tokens are looked up at sending. A
// text is a u32 length and as many bytes. The text of several targets is their concatenation, each with its kind.

import MartletBase
import MartletRows

enum ScheduledSend {
    private static let version: UInt8 = 2
    private static let versionWithoutAddressees: UInt8 = 1
    /// Flag, beside those of the options, of a message with the number of an earlier one.
    private static let notReceivedFlag: UInt8 = 1 << 1

    static func bytes(of message: SendCommand, to addressees: Addressees) -> [UInt8] {
        // A check does not wait. The kept answer and the time have rows of their own.
        let (target, variants, _, _, options, _, _, _, notReceived) = message.fields
        var writer = RecordWriter()
        writer.append(version)
        write(target, to: &writer)
        writer.append(
            options.flags(in: .waiting) | (notReceived != nil ? notReceivedFlag : 0))
        if let notReceived { writer.append(notReceived) }
        writer.append(UInt8(variants.count))
        for variant in variants { write(variant, to: &writer) }
        writer.append(UInt32(addressees.inOrder.count))
        for addressee in addressees.inOrder {
            writer.append(addressee == nil ? 0 : 1 as UInt8)
            guard let addressee else { continue }
            writer.append(addressee.ordinal.rawValue)
            writer.append(addressee.holder.word)
        }
        return writer.bytes
    }

    private static func write(_ target: SendCommand.Target, to writer: inout RecordWriter) {
        func put(_ kind: TargetKind, _ content: some Collection<UInt8>) {
            writer.append(kind.rawValue)
            writer.append(bytes: content)
        }
        switch target {
        case .token(let text): put(.token, text.utf8)
        case .topic(let text): put(.topic, text.utf8)
        case .condition(let text): put(.condition, text.utf8)
        case .group(let text): put(.group, text.utf8)
        case .several(let targets):
            var entries = RecordWriter()
            for target in targets { write(target, to: &entries) }
            put(.several, entries.bytes)
        }
    }

    private static func write(_ variant: OutgoingVariant, to writer: inout RecordWriter) {
        func put(_ kind: UInt8, _ text: String = "") {
            writer.append(kind)
            writer.append(bytes: text.utf8)
        }
        // The size was checked at acceptance.
        let (platforms, lifespan, priority, collapse, name, body, _) = variant.fields
        writer.append(platforms.rawValue)
        writer.append(priority.rawValue)
        switch lifespan {
        case .seconds(let seconds):
            writer.append(0 as UInt8)
            writer.append(Int64(seconds))
        case .until(let end):
            writer.append(1 as UInt8)
            writer.append(end.millisecondsSince1970)
        case .longest: invariantFailure("A message waits with the end of its life.")
        }
        switch collapse {
        case .none: put(0)
        case .app: put(1)
        case .named(let key): put(2, key)
        case .opaque(let topic): put(3, topic ?? "")
        }
        if let name { put(1, name) } else { put(0) }
        writer.append(bytes: body)
    }

    static func message(_ bytes: [UInt8]) throws(StorageError) -> SendCommand {
        try read(bytes).message
    }

    static func read(
        _ bytes: [UInt8]
    ) throws(StorageError) -> (message: SendCommand, addressees: Addressees) {
        try bytes.withUnsafeBufferPointer { (bytes) throws(StorageError) in
            try read(RecordReader(UnsafeRawBufferPointer(bytes), of: .scheduled))
        }
    }

    private static func read(
        _ record: RecordReader
    ) throws(StorageError) -> (message: SendCommand, addressees: Addressees) {
        var reader = record
        let version = try reader.read(UInt8.self)
        guard version == Self.version || version == versionWithoutAddressees else {
            throw reader.damaged()
        }
        let target = try self.target(&reader)
        let flags = try reader.read(UInt8.self)
        let notReceived = flags & notReceivedFlag != 0 ? try reader.read(UInt64.self) : nil
        var variants: [OutgoingVariant] = []
        for _ in 0..<(try reader.read(UInt8.self)) { variants.append(try variant(&reader)) }
        var addressees: [Addressee?] = []
        if version == Self.version {
            for _ in 0..<(try reader.read(UInt32.self)) {
                addressees.append(try addressee(&reader))
            }
        }
        guard reader.isAtEnd else { throw reader.damaged() }
        let message = SendCommand(
            target: target, variants: variants, options: MessageOptions(flags, in: .waiting),
            notReceived: notReceived)
        return (message, Addressees(addressees, of: target))
    }

    private static func target(
        _ reader: inout RecordReader
    ) throws(StorageError) -> SendCommand.Target {
        let kind = TargetKind(rawValue: try reader.read(UInt8.self))
        let bytes = try reader.countedBytes()
        let text = String(decoding: bytes, as: UTF8.self)
        switch kind {
        case .token: return .token(text)
        case .topic: return .topic(text)
        case .condition: return .condition(text)
        case .group: return .group(text)
        case .several:
            var entries = RecordReader(bytes, of: .scheduled)
            var targets: [SendCommand.Target] = []
            while !entries.isAtEnd { targets.append(try target(&entries)) }
            return .several(targets)
        case nil: throw reader.damaged()
        }
    }

    private static func variant(
        _ reader: inout RecordReader
    ) throws(StorageError) -> OutgoingVariant {
        func text() throws(StorageError) -> String {
            String(decoding: try reader.countedBytes(), as: UTF8.self)
        }
        let platforms = PlatformSet(rawValue: try reader.read(UInt8.self))
        guard let priority = MessagePriority(rawValue: try reader.read(UInt8.self)) else {
            throw reader.damaged()
        }
        let isUntil = try reader.read(UInt8.self) == 1
        let life = try reader.read(Int64.self)
        let collapseKind = try reader.read(UInt8.self)
        let key = try text()
        let isRestricted = try reader.read(UInt8.self) == 1
        let name = try text()
        let collapse: CollapseKey
        switch collapseKind {
        case 0: collapse = .none
        case 1: collapse = .app
        case 3: collapse = .opaque(topic: key.isEmpty ? nil : key)
        default: collapse = .named(key)
        }
        return OutgoingVariant(
            platforms: platforms,
            lifespan: isUntil
                ? .until(Instant(millisecondsSince1970: life)) : .seconds(UInt32(clamping: life)),
            priority: priority, collapse: collapse,
            restrictedPackageName: isRestricted ? name : nil,
            body: Array(try reader.countedBytes()))
    }

    private static func addressee(
        _ reader: inout RecordReader
    ) throws(StorageError) -> Addressee? {
        switch try reader.read(UInt8.self) {
        case 0: nil
        case 1:
            Addressee(
                ordinal: Ordinal(try reader.read(UInt32.self)),
                holder: Holder(word: try reader.read(UInt64.self)))
        default: throw reader.damaged()
        }
    }
}
