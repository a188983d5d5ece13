// SPDX-License-Identifier: Apache-2.0
//
// Integers in bytes, at any alignment. Frames, records, blobs, the journal and backups are all written with these. Rests on
// nothing.

extension UnsafeRawBufferPointer {
    /// Reads a little-endian integer.
    @inlinable @inline(__always)
    package func loadLittleEndian<T: FixedWidthInteger>(_ type: T.Type, at offset: Int) -> T {
        unsafe T(littleEndian: loadUnaligned(fromByteOffset: offset, as: type))
    }

    /// Reads a big-endian integer, as keys of rows have them.
    @inlinable @inline(__always)
    package func loadBigEndian<T: FixedWidthInteger>(_ type: T.Type, at offset: Int) -> T {
        unsafe T(bigEndian: loadUnaligned(fromByteOffset: offset, as: type))
    }
}

extension UnsafeMutableRawPointer {
    /// Writes a little-endian integer.
    @inlinable @inline(__always)
    package func storeLittleEndian<T: FixedWidthInteger>(_ value: T, at offset: Int) {
        unsafe storeBytes(of: value.littleEndian, toByteOffset: offset, as: T.self)
    }
}

extension [UInt8] {
    /// Appends a little-endian integer.
    @inlinable
    package mutating func append(littleEndian value: some FixedWidthInteger) {
        unsafe Swift.withUnsafeBytes(of: value.littleEndian) { unsafe append(contentsOf: $0) }
    }
}
