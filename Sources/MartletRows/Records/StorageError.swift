// SPDX-License-Identifier: Apache-2.0
//
// The error of reading and writing rows. Rests on nothing.

/// The store failed to read or write: trouble with the disk, the map or a file. The user's request is never the
/// cause.
public struct StorageError: Error, Sendable, CustomStringConvertible {
    /// The attempted operation, such as `"put"` or `"commit"`.
    public let operation: String
    /// The store's own error number; 0 if the engine found the fault.
    public let code: Int32
    /// Description of the fault, for people.
    public let text: String
    /// The store has no room left and can grow. After it has grown, the transaction can be applied again.
    public let isFull: Bool

    /// Makes an error. A `code` of 0 says that the engine found the fault.
    public init(operation: String, code: Int32, text: String, isFull: Bool) {
        self.operation = operation
        self.code = code
        self.text = text
        self.isFull = isFull
    }

    /// Operation, text and code, in one line.
    public var description: String { "store: \(operation): \(text) (\(code))" }
}
