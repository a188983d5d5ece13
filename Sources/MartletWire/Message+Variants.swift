// SPDX-License-Identifier: Apache-2.0
//
// Makes the variants of a message, the forms in which the instances of each platform get it (MSG-5). The broker
// checks the blocks and merges them into the common fields once, when it accepts the message. Whether a variant is
// collapsible (COL-2) depends on the merged fields, so the decision is here. Rests on `Message+Validation`.

public import MartletBase

extension Message {
    /// Checks an encoded message by the broker's rules and merges the blocks. Sizes and times to live are left to
    /// the engine, because their limits depend on the project.
    ///
    /// A message without blocks has one variant, for all platforms. Else each platform with a block has a variant,
    /// and the other platforms share a variant of the common fields. Equal variants become one. If the common
    /// fields have neither a notification nor data, platforms without a block get nothing. The parameters hold
    /// where a block does not override them; an empty text means none.
    /// - Throws: `INVALID_ARGUMENT` with the field at fault.
    public static func variants(
        of bytes: [UInt8], target kind: TargetKind, lifespan: Lifespan = .longest,
        priority: MessagePriority = .normal, collapseKey: String = "",
        restrictedPackageName: String = ""
    ) throws(MartletError) -> [OutgoingVariant] {
        let common = Traits(
            lifespan: lifespan, priority: priority, collapseKey: collapseKey,
            restrictedPackageName: restrictedPackageName)
        try common.check()
        return try bytes.span.bytes.withUnsafeBytes { (memory) throws(MartletError) in
            let outline = try checkedOutline(memory)
            if let opaque = outline.opaque {
                return [try opaqueVariant(opaque, outline, common, kind)]
            }
            guard !outline.blocks.isEmpty else {
                let body = collapseKey.isEmpty ? bytes : merge(memory, nil, [], common)
                return [common.variant(.all, kind, outline.summary, body)]
            }
            let plain = UnsafeRawBufferPointer(rebasing: memory[..<outline.plainBytes])
            return try merged(plain, outline, common, kind)
        }
    }

    /// MSG-11: the only variant of an opaque message. With a block for the web, the message is for web instances.
    private static func opaqueVariant(
        _ opaque: Field, _ outline: Outline, _ common: Traits, _ kind: TargetKind
    ) throws(MartletError) -> OutgoingVariant {
        let path = Place.common.path(of: Tag.opaque)
        guard kind == .token else {
            throw refusal("An opaque message is for one token.", path)
        }
        guard outline.summary.isEmpty, outline.blocks.allSatisfy({ $0.platform == .web }) else {
            throw refusal(
                "An opaque message has no notification, no data and no block but the web's.", path)
        }
        try checkLength(
            opaque.content.count, Limits.opaqueBytesMax, "opaque content", path)
        var traits = common
        var writer = WireWriter(reservingBytes: Field.headBytes + opaque.content.count)
        writer.field(opaque)
        for block in outline.blocks {
            _ = try checkBlock(block.content, block.platform, kind, &traits)
            var own = Cursor(block.content)
            while let field = own.field {
                guard field.tag > Tag.data else {
                    throw refusal(
                        "The block of an opaque message has no texts and no data.",
                        Place.block(.web).path(of: field.tag))
                }
                if field.tag >= Tag.option { writer.field(field) }
                own.advance()
            }
        }
        return OutgoingVariant(
            platforms: outline.blocks.isEmpty ? .all : .init(.web), lifespan: traits.lifespan,
            priority: traits.priority,
            collapse: .opaque(topic: traits.collapseKey.isEmpty ? nil : traits.collapseKey),
            restrictedPackageName: traits.restrictedPackageName.isEmpty
                ? nil : traits.restrictedPackageName,
            body: writer.bytes)
    }

    private static func merged(
        _ plain: UnsafeRawBufferPointer, _ outline: Outline, _ common: Traits, _ kind: TargetKind
    ) throws(MartletError) -> [OutgoingVariant] {
        var variants: [OutgoingVariant] = []
        var rest = PlatformSet.all
        for block in outline.blocks {
            let place = Place.block(block.platform)
            var traits = common
            let ownData = try checkBlock(block.content, block.platform, kind, &traits)
            let body = merge(plain, block, ownData, common)
            let summary = count(body)
            guard summary.dataEntries <= Limits.dataEntriesMax else {
                throw tooManyEntries(place.path)
            }
            var variant = traits.variant(.init(block.platform), kind, summary, body)
            variant.size.blockBytes = block.content.count
            variants.append(variant)
            rest.remove(.init(block.platform))
        }
        if !rest.isEmpty, outline.summary.hasContent {
            let body = merge(plain, nil, [], common)
            variants.append(common.variant(rest, kind, outline.summary, body))
        }
        return joined(variants)
    }

    /// Joins equal variants into a single variant for all their platforms. Variants may be equal although their blocks
    /// were not; the longest block counts.
    private static func joined(_ variants: [OutgoingVariant]) -> [OutgoingVariant] {
        var distinct: [OutgoingVariant] = []
        for variant in variants {
            let same = distinct.firstIndex { other in
                var other = other
                other.platforms = variant.platforms
                other.size.blockBytes = variant.size.blockBytes
                return other == variant
            }
            if let same {
                distinct[same].platforms.formUnion(variant.platforms)
                distinct[same].size.blockBytes = max(
                    distinct[same].size.blockBytes, variant.size.blockBytes)
            } else {
                distinct.append(variant)
            }
        }
        return distinct
    }

    /// Merges the common fields with a block: a field of the block replaces the common field, and fields that only
    /// the block has follow. A push service that collapses by itself needs the collapse key, the block's or else SEND's, and
    /// Apple's needs the sender's expiration (GW-11, GW-17). Both inputs are in the order of the tags, and so is the result.
    private static func merge(
        _ plain: UnsafeRawBufferPointer, _ block: Block?, _ ownData: [UnsafeRawBufferPointer],
        _ common: Traits
    ) -> [UInt8] {
        let blockBytes = block?.content ?? UnsafeRawBufferPointer(start: nil, count: 0)
        let keyBytes = Field.headBytes + common.collapseKey.utf8.count
        var writer = WireWriter(reservingBytes: plain.count + blockBytes.count + keyBytes)
        var commonKey = common.collapseKey.isEmpty ? nil : common.collapseKey
        var pending = Cursor(plain)
        var own = Cursor(blockBytes)
        while let field = own.field, field.tag < Tag.data {
            while let other = pending.field, other.tag <= field.tag {
                if other.tag < field.tag { writer.field(other) }
                pending.advance()
            }
            writer.field(field)
            own.advance()
        }
        while let field = pending.field {
            let isOverridden =
                field.tag == Tag.data && ownData.contains { sameKey($0, field.content) }
            if !isOverridden { writer.field(field) }
            pending.advance()
        }
        while let field = own.field {
            if field.tag == Tag.collapseKey { commonKey = nil }
            if field.tag > Tag.collapseKey {
                text(Tag.collapseKey, commonKey, into: &writer)
                commonKey = nil
            }
            let isKept =
                field.tag == Tag.data || field.tag == Tag.expiration || field.tag >= Tag.option
                || field.tag == Tag.collapseKey && block?.platform != .android
            if isKept { writer.field(field) }
            own.advance()
        }
        text(Tag.collapseKey, commonKey, into: &writer)
        return writer.bytes
    }

    private static func sameKey(
        _ one: UnsafeRawBufferPointer, _ other: UnsafeRawBufferPointer
    ) -> Bool {
        let count = 2 + (Int(one[0]) | Int(one[1]) << 8)
        return other.count >= count && one.prefix(count).elementsEqual(other.prefix(count))
    }

    /// Size and kind of a merged message.
    private static func count(_ body: [UInt8]) -> Summary {
        body.span.bytes.withUnsafeBytes { bytes in
            var summary = Summary()
            var fields = Cursor(bytes)
            while let field = fields.field {
                summary.count(field)
                fields.advance()
            }
            return summary
        }
    }

    /// Walks over fields that have been checked before.
    private struct Cursor {
        private let bytes: UnsafeRawBufferPointer
        private var offset = 0
        init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

        var field: Field? {
            guard offset < bytes.count else { return nil }
            let count = Int(bytes[offset + 1]) | Int(bytes[offset + 2]) << 8
            let start = offset + Field.headBytes
            return Field(
                tag: bytes[offset], offset: start,
                content: UnsafeRawBufferPointer(rebasing: bytes[start..<start + count]))
        }

        mutating func advance() {
            guard let field else { return }
            offset = field.offset + field.content.count
        }
    }

    /// The sending options, from SEND and from a block.
    struct Traits {
        var lifespan: Lifespan
        var priority: MessagePriority
        var collapseKey: String
        var restrictedPackageName: String
        /// True if the collapse key also holds for notifications, as `apns-collapse-id` and the header `Topic` do.
        var isKeyForNotifications = false

        /// COL-2: the collapse key of a variant.
        private func collapse(_ kind: TargetKind, _ summary: Summary) -> CollapseKey {
            if summary.hasNotification, !isKeyForNotifications { return .app }
            if !collapseKey.isEmpty { return .named(collapseKey) }
            return kind == .topic && summary.isEmpty ? .app : .none
        }

        func variant(
            _ platforms: PlatformSet, _ kind: TargetKind, _ summary: Summary, _ body: [UInt8]
        ) -> OutgoingVariant {
            OutgoingVariant(
                platforms: platforms, lifespan: lifespan, priority: priority,
                collapse: collapse(kind, summary),
                restrictedPackageName: restrictedPackageName.isEmpty ? nil : restrictedPackageName,
                body: body, size: MessageSize(payloadBytes: summary.payloadBytes))
        }

        func check() throws(MartletError) {
            try Message.checkLength(
                collapseKey.utf8.count, Limits.collapseKeyBytesMax, "collapse key", "collapse_key")
            try Message.checkLength(
                restrictedPackageName.utf8.count, Limits.appNameBytesMax, "package name",
                "restricted_package_name")
            guard HTTPFieldText.isValue(collapseKey) else {
                throw refusal(HTTPFieldText.valueFault(of: "The collapse key"), "collapse_key")
            }
        }
    }
}

extension WireWriter {
    fileprivate mutating func field(_ field: Message.Field) {
        u8(field.tag)
        u16(UInt16(field.content.count))
        raw(field.content)
    }
}
