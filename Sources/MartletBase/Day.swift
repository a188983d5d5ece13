// SPDX-License-Identifier: Apache-2.0
//
// A calendar day in UTC: the unit by which reports over time count. Rests on Instant. Source of the conversion: H.
// Hinnant, "chrono-Compatible Low-Level Date Algorithms".

/// A calendar day, from midnight to midnight UTC.
public struct Day: RawRepresentable, Hashable, Sendable, Comparable {
    /// Days since 1970-01-01.
    public let rawValue: UInt32

    @inlinable public init(rawValue: UInt32) { self.rawValue = rawValue }
    /// The day `rawValue` days after 1970-01-01.
    @inlinable public init(_ rawValue: UInt32) { self.rawValue = rawValue }

    /// The day of an instant. An instant before 1970 belongs to the first day, 1970-01-01.
    public init(of instant: Instant) {
        self.init(UInt32(clamping: max(instant.millisecondsSince1970, 0) / Self.milliseconds))
    }

    @inlinable public static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }

    /// The day `count` days earlier, clamped to 1970-01-01.
    public func before(_ count: UInt32) -> Day { Day(rawValue - min(count, rawValue)) }

    private static let milliseconds: Int64 = 86_400 * 1000
    /// Days of 400 years: the calendar repeats after them.
    private static let eraDays = 146_097
    /// Days from 0000-03-01 to 1970-01-01.
    private static let epochDays = 719_468
}

extension Day: CustomStringConvertible {
    /// An ISO 8601 date, such as `2026-11-21`.
    public var description: String {
        // The computed year begins in March, so that the leap day is the last day of a year.
        let days = Int(rawValue) + Self.epochDays
        let dayOfEra = days % Self.eraDays
        let yearOfEra =
            (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let month = (5 * dayOfYear + 2) / 153
        let isNextYear = month >= 10
        let year = days / Self.eraDays * 400 + yearOfEra + (isNextYear ? 1 : 0)
        return Self.padded(year, 4) + "-" + Self.padded(isNextYear ? month - 9 : month + 3, 2)
            + "-" + Self.padded(dayOfYear - (153 * month + 2) / 5 + 1, 2)
    }

    private static func padded(_ value: Int, _ digits: Int) -> String {
        let text = String(value)
        return String(repeating: "0", count: max(0, digits - text.count)) + text
    }
}
