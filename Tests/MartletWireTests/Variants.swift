// SPDX-License-Identifier: Apache-2.0
//
// Splits messages into the variants of their platforms, for the tests of variants.

import MartletBase
import MartletWire

func variants(
    _ message: Message, target: TargetKind = .token, lifespan: Lifespan = .longest,
    priority: MessagePriority = .normal, collapseKey: String = "", package: String = ""
) throws -> [OutgoingVariant] {
    var writer = WireWriter()
    message.encode(into: &writer)
    return try Message.variants(
        of: writer.bytes, target: target, lifespan: lifespan, priority: priority,
        collapseKey: collapseKey, restrictedPackageName: package)
}

func refusal(_ message: Message) -> MartletError? {
    do {
        _ = try variants(message)
        return nil
    } catch {
        return error as? MartletError
    }
}

/// Reads a message as a device does: the collapse key is for push services, and devices skip the field.
func read(_ variant: OutgoingVariant) throws -> Message {
    try Message(decoding: variant.body, unknownTags: .skip)
}
