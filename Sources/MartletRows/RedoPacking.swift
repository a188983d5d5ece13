// SPDX-License-Identifier: Apache-2.0
//
// The port between a store and a compression library, for the rows of a log. Pure.

/// A way to make the bodies of rows shorter. The store has none, so that a broker alone needs no library for it.
package protocol RedoPacking: Sendable {
    /// The number in a body, at least 1. Each packing has another number.
    var number: UInt8 { get }
    func pack(_ bytes: [UInt8]) -> [UInt8]
    /// - Parameter byteCount: bytes before the packing.
    /// - Returns: nil if the bytes are not `byteCount` packed bytes.
    func unpack(_ bytes: UnsafeRawBufferPointer, byteCount: Int) -> [UInt8]?
}
