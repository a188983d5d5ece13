// SPDX-License-Identifier: Apache-2.0
//
// A number of JSON that is no `Int64`. The digits stay as they came, because who passes a number on must not change it:
// 18446744073709551615 has no `Double`, and 1.50 may be a price.

/// A number with a fraction or an exponent, or outside the range of `Int64`.
public struct JSONNumber: Sendable, Hashable, ExpressibleByFloatLiteral {
    /// The nearest number that arithmetic has; finite in a parsed number.
    public let value: Double
    /// The number as it was written.
    public let text: String

    /// A number with the fewest digits that tell it from its neighbours.
    public init(_ value: Double) { self.init(value, as: "\(value)") }

    public init(floatLiteral value: Double) { self.init(value) }

    init(_ value: Double, as text: String) {
        self.value = value
        self.text = text
    }

    /// Numbers are equal by their value: 1.5 equals 15e-1.
    public static func == (left: JSONNumber, right: JSONNumber) -> Bool {
        left.value == right.value
    }

    public func hash(into hasher: inout Hasher) { hasher.combine(value) }
}
