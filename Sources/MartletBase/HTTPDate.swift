// SPDX-License-Identifier: Apache-2.0
//
// Dates in headers of HTTP: `Sun, 06 Nov 1994 08:49:37 GMT`. Source: RFC 9110 §5.6.7. Rests on Day.

/// Writes the dates of HTTP.
package enum HTTPDate {
    /// Names by the remainder of a day's number, because 1970-01-01 was a Thursday.
    private static let weekdays = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// The second of an instant. An instant before 1970 is written as the beginning of 1970.
    package static func text(of instant: Instant) -> String {
        let second = max(instant.millisecondsSince1970, 0) / 1000
        let day = Day(of: instant)
        // Year, month and day of the month.
        let parts = day.description.split(separator: "-")
        let month = Int(parts[1]).map { months[$0 - 1] } ?? ""
        let clock = [second / 3600 % 24, second / 60 % 60, second % 60].map {
            ($0 < 10 ? "0" : "") + String($0)
        }
        return weekdays[Int(day.rawValue % 7)] + ", \(parts[2]) \(month) \(parts[0]) "
            + clock.joined(separator: ":") + " GMT"
    }
}
