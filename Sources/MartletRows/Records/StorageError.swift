// SPDX-License-Identifier: Apache-2.0
//
// Why rows could not be read or written. Rests on nothing.

/// The store could not do what it was asked: disk, map or file trouble, never the user's fault.
public struct StorageError: Error, Sendable, CustomStringConvertible {
    /// What was attempted (`"put"`, `"commit"`).
    public let operation: String
    /// The store's own error number.
    public let code: Int32
    public let text: String
    /// The store has no room left and can be grown; the transaction can then be applied again.
    public let isFull: Bool

    public init(operation: String, code: Int32, text: String, isFull: Bool) {
        self.operation = operation
        self.code = code
        self.text = text
        self.isFull = isFull
    }

    public var description: String { "store: \(operation): \(text) (\(code))" }
}
