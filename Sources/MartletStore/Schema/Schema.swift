// SPDX-License-Identifier: Apache-2.0
//
// Every table, every key and every value of the store, in one place. Keys are big-endian, so that
// their order is the order of the numbers in them; values are little-endian. p = project number
// (u32), o = ordinal (u32), t = topic number (u32), s = message sequence (u64).
//
//  table           key                        value
//  ──────────────  ─────────────────────────  ──────────────────────────────────────────────────────
//  meta            "format"                   u32 format version
//                  "projects"                 u32 next project number
//  projects        p                          project record
//  projectIDs      ID                         u32 p
//  keys            key ID                     server key record
//  apps            p ‖ app number u32         u8 platform ‖ name
//  appNames        p ‖ u8 platform ‖ name     u32 app number
//  tokens          token (24 bytes)           u32 p ‖ u32 o
//  instances       p ‖ o                      instance record
//  topics          p ‖ t                      u64 subscribers ‖ name
//  topicNames      p ‖ name*                  u32 t ‖ name            * names over 440 bytes: below
//  sets            p ‖ set u32 ‖ block u32    one block of a set      (see `SetKey`)
//  instanceTopics  p ‖ o                      sorted u32 list of t
//  messages        p ‖ s                      message record
//  recipients      p ‖ s                      recipients blob (`RecipientSet`); messages with many
//  inbox           p ‖ o ‖ s                  empty; messages with few: one row per recipient
//  watermarks      p ‖ o                      u64 s: everything up to here is acknowledged
//  acknowledged    p ‖ o ‖ s                  empty; acknowledged, but above the watermark
//  free            p ‖ u8 kind ‖ number u32   empty; ordinals and topic numbers to use again
//
// Blocks of a set. An ordinal's block is its upper 17 bits. A value of 4080 bytes is a bitmap (with
// LMDB's page header exactly one overflow page); any other is a sorted list of u16 bit positions, of
// at most 500. A topic of at most 2044 subscribers lies under the block number 0xFFFFFFFF alone, as a
// sorted list of u32 ordinals, read in one piece instead of a row a block.
//
// LMDB's keys have at most 511 bytes and topic names up to 900: a name of more than 440 bytes is
// keyed by its first 440 bytes and the SHA-256 of the whole; the value has the name.

import Crypto
import MartletBase
import MartletEngine

/// The version of everything drawn above. A folder of a newer one is refused.
let storeFormatVersion: UInt32 = 1

/// The tables, in the order in which they are opened.
enum Table: Int, CaseIterable {
    case meta, projects, projectIDs, keys, apps, appNames, tokens, instances, topics, topicNames
    case sets, instanceTopics, messages, recipients, inbox, watermarks, acknowledged, free

    var name: String { String(describing: self) }
}

/// Sets that are no topic have the upper four bits set to their kind.
enum SetKey {
    static let smallTopicBlock: UInt32 = 0xFFFF_FFFF
    /// Where a topic's one list becomes blocks: 2044 × 4 bytes and LMDB's page header are exactly two
    /// pages. At half of it blocks become one list again.
    static let smallTopicMembersMax = 2044
    /// Where a block's list becomes a bitmap: a quarter of the bitmap's bytes.
    static let listMembersMax = 500

    static func number(of set: InstanceSet) -> UInt32 {
        switch set {
        case .topic(let topic): topic.rawValue
        case .everyone: 0x8000_0000
        case .platform(let platform): 0x9000_0000 | UInt32(platform.rawValue)
        case .app(let app): 0xA000_0000 | app.rawValue
        }
    }

    static func isTopic(_ set: UInt32) -> Bool { set < 0x1000_0000 }
}

/// A key of at most 511 bytes under construction.
struct Key {
    static let nameBytesMax = 440

    private(set) var bytes: [UInt8]

    init(_ project: ProjectNumber) {
        bytes = []
        bytes.reserveCapacity(24)
        append(project.rawValue)
    }

    init(bytes: [UInt8]) { self.bytes = bytes }

    mutating func append(_ value: UInt32) {
        for shift in stride(from: UInt32(24), through: 0, by: -8) {
            bytes.append(UInt8(truncatingIfNeeded: value >> shift))
        }
    }

    mutating func append(_ value: UInt64) {
        append(UInt32(truncatingIfNeeded: value >> 32))
        append(UInt32(truncatingIfNeeded: value))
    }

    mutating func append(byte: UInt8) { bytes.append(byte) }
    mutating func append(name: some Sequence<UInt8>) { bytes.append(contentsOf: name) }

    static func ordinal(_ ordinal: Ordinal, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(ordinal.rawValue)
        return key
    }

    static func sequence(_ sequence: MessageSequence, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(sequence.rawValue)
        return key
    }

    static func inbox(
        _ ordinal: Ordinal, _ sequence: MessageSequence, in project: ProjectNumber
    ) -> Key {
        var key = Key.ordinal(ordinal, in: project)
        key.append(sequence.rawValue)
        return key
    }

    static func topic(_ number: TopicNumber, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(number.rawValue)
        return key
    }

    static func block(_ block: UInt32, of set: UInt32, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(set)
        key.append(block)
        return key
    }

    static func topicName(_ name: String, in project: ProjectNumber) -> Key {
        var key = Key(project)
        let bytes = Array(name.utf8)
        guard bytes.count > nameBytesMax else {
            key.append(name: bytes)
            return key
        }
        key.append(name: bytes.prefix(nameBytesMax))
        key.append(name: SHA256.hash(data: bytes))
        return key
    }

    static func app(_ number: AppNumber, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(number.rawValue)
        return key
    }

    static func appName(_ name: String, _ platform: Platform, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(byte: platform.rawValue)
        key.append(name: name.utf8)
        return key
    }

    static func free(_ kind: FreeNumberKind, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(byte: kind.rawValue)
        return key
    }
}
