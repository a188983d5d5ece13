// SPDX-License-Identifier: Apache-2.0
//
// The dense numbers behind every name. Clients speak of project IDs, tokens and topic names. Inside the broker each
// name is a small integer, so that a set is a bitset and a key takes a few bytes. Rests on nothing.

/// The number of a project inside one broker, dense from 0.
public struct ProjectNumber: RawRepresentable, Hashable, Sendable, Comparable {
    /// The number, unique inside one broker.
    public let rawValue: UInt32
    @inlinable public init(rawValue: UInt32) { self.rawValue = rawValue }
    @inlinable public init(_ rawValue: UInt32) { self.rawValue = rawValue }
    @inlinable public static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
}

/// The dense number of an instance inside its project. A bit of every bitset stands for one ordinal.
public struct Ordinal: RawRepresentable, Hashable, Sendable, Comparable {
    /// The number, which is also the position of the bit. The last 128 ordinals of every block are never issued.
    public let rawValue: UInt32
    @inlinable public init(rawValue: UInt32) { self.rawValue = rawValue }
    @inlinable public init(_ rawValue: UInt32) { self.rawValue = rawValue }
    @inlinable public static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
}

/// The number of a topic inside its project, dense from 0.
public struct TopicNumber: RawRepresentable, Hashable, Sendable, Comparable {
    /// The number, unique inside the project.
    public let rawValue: UInt32
    @inlinable public init(rawValue: UInt32) { self.rawValue = rawValue }
    @inlinable public init(_ rawValue: UInt32) { self.rawValue = rawValue }
    @inlinable public static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
}

/// The number of an app inside its project, dense from 0.
public struct AppNumber: RawRepresentable, Hashable, Sendable, Comparable {
    /// The number, unique inside the project.
    public let rawValue: UInt32
    @inlinable public init(rawValue: UInt32) { self.rawValue = rawValue }
    @inlinable public init(_ rawValue: UInt32) { self.rawValue = rawValue }
    @inlinable public static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
}

/// A message's position in its project's order of acceptance, from 1. Devices acknowledge by the same number (the
/// stream ID), so a delivered frame is identical for all recipients.
public struct MessageSequence: RawRepresentable, Hashable, Sendable, Comparable {
    /// The position: 1 for the first message of the project, 0 before the first message.
    public let rawValue: UInt64
    @inlinable public init(rawValue: UInt64) { self.rawValue = rawValue }
    @inlinable public init(_ rawValue: UInt64) { self.rawValue = rawValue }
    @inlinable public static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
    /// The position before the first message.
    @inlinable public static var none: MessageSequence { MessageSequence(0) }
}

/// A wall-clock time in milliseconds since 1970-01-01T00:00:00Z. Pure modules take an instant as a parameter; only
/// the edges read a clock.
public struct Instant: RawRepresentable, Hashable, Sendable, Comparable {
    /// Milliseconds since 1970-01-01T00:00:00Z; negative for an earlier time.
    public let rawValue: Int64
    @inlinable public init(rawValue: Int64) { self.rawValue = rawValue }
    /// - Parameter millisecondsSince1970: milliseconds since 1970-01-01T00:00:00Z; negative for an earlier time.
    @inlinable public init(millisecondsSince1970: Int64) { self.rawValue = millisecondsSince1970 }
    /// The raw value under the name of its unit.
    @inlinable public var millisecondsSince1970: Int64 { rawValue }
    @inlinable public static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }

    /// The instant that is `seconds` later, or earlier for a negative number. Overflow wraps around.
    @inlinable public func advanced(bySeconds seconds: Int64) -> Instant {
        Instant(millisecondsSince1970: rawValue &+ seconds &* 1000)
    }
}

/// The platform of an app and of all its instances.
public enum Platform: UInt8, Sendable, CaseIterable, Hashable {
    case android = 1
    case apple = 2
    case web = 3

    /// The name as text: `android`, `apple` or `web`.
    public var name: String {
        switch self {
        case .android: "android"
        case .apple: "apple"
        case .web: "web"
        }
    }

    /// nil for any text except `android`, `apple` and `web`. Case-sensitive.
    public init?(name: some StringProtocol) {
        switch name {
        case "android": self = .android
        case "apple": self = .apple
        case "web": self = .web
        default: return nil
        }
    }
}
