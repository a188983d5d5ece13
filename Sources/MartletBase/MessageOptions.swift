// SPDX-License-Identifier: Apache-2.0
//
// The options of a message that go unchanged from SEND to DELIVER, and their bits in each format of bytes on the way. The
// values on the way carry the options as one, so a new option is added here and where something is decided by it. Rests on
// nothing.

/// The options of a message that are the same for all its recipients.
public struct MessageOptions: Sendable, Hashable {
    /// RCP-1: true if the broker keeps receipts for the project's senders.
    public var wantsReceipts: Bool

    /// By default, all options are off.
    @inlinable public init(wantsReceipts: Bool = false) { self.wantsReceipts = wantsReceipts }
}

extension MessageOptions {
    /// The bit of each option among the flags of a format. There are no defaults, so an option that one of the formats
    /// lacks does not compile.
    @usableFromInline package struct Bits: Sendable, Hashable {
        @usableFromInline let wantsReceipts: UInt8

        @inlinable init(wantsReceipts: UInt8) { self.wantsReceipts = wantsReceipts }

        /// SEND and MULTICAST.
        @inlinable package static var send: Bits { Bits(wantsReceipts: 1 << 1) }
        /// DELIVER.
        @inlinable package static var deliver: Bits { Bits(wantsReceipts: 1 << 0) }
        /// The record of a stored message.
        @inlinable package static var record: Bits { Bits(wantsReceipts: 1 << 2) }
        /// A message that waits in the store.
        @inlinable package static var waiting: Bits { Bits(wantsReceipts: 1 << 0) }
        /// A fanout among the events of a log row.
        @inlinable package static var event: Bits { Bits(wantsReceipts: 1 << 1) }
        /// A message that a node forwards.
        @inlinable package static var forwarded: Bits { Bits(wantsReceipts: 1 << 2) }
        /// The digest that recognises a repeated message (MSG-9). The letter r has several bits; a further option takes one
        /// of the others.
        @inlinable package static var digest: Bits { Bits(wantsReceipts: UInt8(ascii: "r")) }

        /// The bits of all options.
        @inlinable package var all: UInt8 { wantsReceipts }
    }

    /// The options among the flags of a format; other flags don't matter.
    @inlinable package init(_ flags: UInt8, in bits: Bits) {
        self.init(wantsReceipts: flags & bits.wantsReceipts != 0)
    }

    /// The options as flags of a format.
    @inlinable package func flags(in bits: Bits) -> UInt8 {
        wantsReceipts ? bits.wantsReceipts : 0
    }
}
