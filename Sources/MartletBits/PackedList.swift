// SPDX-License-Identifier: Apache-2.0
//
// Sorted lists of small numbers in the form of the store: `UInt16` positions of a sparse block, `UInt32` ordinals
// of a small topic, `UInt32` topic numbers of one instance. The numbers are little-endian and without gaps. A
// changed list is always a new run of bytes, because the bytes read lie in LMDB's map and must not be written. Many
// values are inserted or removed in one merge. Rests on nothing.

/// Operations on sorted, distinct numbers in raw bytes of any alignment.
public enum PackedList {
    /// The number of elements in `bytes`.
    @inlinable
    public static func count<T: FixedWidthInteger & UnsignedInteger>(
        _ bytes: UnsafeRawBufferPointer, of type: T.Type
    ) -> Int {
        bytes.count / MemoryLayout<T>.size
    }

    /// The element at an index.
    /// - Parameter index: 0 ..< `count(_:of:)`.
    @inlinable
    public static func element<T: FixedWidthInteger & UnsignedInteger>(
        _ bytes: UnsafeRawBufferPointer, at index: Int, as type: T.Type
    ) -> T {
        let offset = index &* MemoryLayout<T>.size
        return T(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: T.self))
    }

    /// The first index whose element is not below `value`.
    @inlinable
    public static func lowerBound<T: FixedWidthInteger & UnsignedInteger>(
        _ bytes: UnsafeRawBufferPointer, _ value: T
    ) -> Int {
        var low = 0
        var high = bytes.count / MemoryLayout<T>.size
        while low < high {
            let middle = (low &+ high) &>> 1
            if element(bytes, at: middle, as: T.self) < value {
                low = middle &+ 1
            } else {
                high = middle
            }
        }
        return low
    }

    /// Whether the list has the value. The search is binary.
    @inlinable
    public static func contains<T: FixedWidthInteger & UnsignedInteger>(
        _ bytes: UnsafeRawBufferPointer, _ value: T
    ) -> Bool {
        let index = lowerBound(bytes, value)
        return index < count(bytes, of: T.self) && element(bytes, at: index, as: T.self) == value
    }

    /// Calls `body` with every element, in the order of the list.
    @inlinable
    public static func forEach<T: FixedWidthInteger & UnsignedInteger>(
        _ bytes: UnsafeRawBufferPointer, as type: T.Type, _ body: (T) -> Void
    ) {
        for index in 0..<count(bytes, of: T.self) { body(element(bytes, at: index, as: T.self)) }
    }

    // MARK: Into a buffer

    /// Writes the list with `values` merged in. `values` is sorted; repeated and present values count once.
    /// `target` has room for the list and all values.
    ///
    /// - Returns: the number of bytes written.
    @inlinable
    public static func inserting<T: FixedWidthInteger & UnsignedInteger>(
        _ bytes: UnsafeRawBufferPointer, sorted values: UnsafeBufferPointer<T>,
        into target: UnsafeMutableRawBufferPointer
    ) -> Int {
        let size = MemoryLayout<T>.size
        let old = count(bytes, of: T.self)
        precondition(
            target.count >= (old + values.count) * size, "No room for the merged list.")
        // Past this check every write is at most old + values.count elements in.
        guard let out = target.baseAddress else { return 0 }
        var (i, j, written) = (0, 0, 0)
        var last: T?
        while i < old || j < values.count {
            let next: T
            if j == values.count || (i < old && element(bytes, at: i, as: T.self) <= values[j]) {
                next = element(bytes, at: i, as: T.self)
                i &+= 1
            } else {
                next = values[j]
                j &+= 1
            }
            if next == last { continue }
            last = next
            out.storeBytes(of: next.littleEndian, toByteOffset: written, as: T.self)
            written &+= size
        }
        return written
    }

    /// Writes the list without `values`. `values` is sorted; absent values are ignored. `target` has room for the
    /// list.
    ///
    /// - Returns: the number of bytes written.
    @inlinable
    public static func removing<T: FixedWidthInteger & UnsignedInteger>(
        _ bytes: UnsafeRawBufferPointer, sorted values: UnsafeBufferPointer<T>,
        into target: UnsafeMutableRawBufferPointer
    ) -> Int {
        let size = MemoryLayout<T>.size
        let old = count(bytes, of: T.self)
        precondition(target.count >= old * size, "No room for the remaining list.")
        guard let out = target.baseAddress else { return 0 }
        var (j, written) = (0, 0)
        for i in 0..<old {
            let value = element(bytes, at: i, as: T.self)
            while j < values.count, values[j] < value { j &+= 1 }
            if j < values.count, values[j] == value { continue }
            out.storeBytes(of: value.littleEndian, toByteOffset: written, as: T.self)
            written &+= size
        }
        return written
    }

    // MARK: As an array

    /// The bytes of the list with `values` merged in. `values` is sorted; repeated and present values count once.
    @inlinable
    public static func inserting<T: FixedWidthInteger & UnsignedInteger>(
        _ bytes: UnsafeRawBufferPointer, sorted values: [T]
    ) -> [UInt8] {
        let room = (count(bytes, of: T.self) + values.count) * MemoryLayout<T>.size
        return [UInt8](unsafeUninitializedCapacity: room) { target, written in
            written = values.withUnsafeBufferPointer {
                inserting(bytes, sorted: $0, into: UnsafeMutableRawBufferPointer(target))
            }
        }
    }

    /// The bytes of the list without `values`. `values` is sorted; absent values are ignored.
    @inlinable
    public static func removing<T: FixedWidthInteger & UnsignedInteger>(
        _ bytes: UnsafeRawBufferPointer, sorted values: [T]
    ) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: bytes.count) { target, written in
            written = values.withUnsafeBufferPointer {
                removing(bytes, sorted: $0, into: UnsafeMutableRawBufferPointer(target))
            }
        }
    }

    /// The bytes of the list with one more value; equal to the list if the value is present.
    @inlinable
    public static func inserting<T: FixedWidthInteger & UnsignedInteger>(
        _ bytes: UnsafeRawBufferPointer, _ value: T
    ) -> [UInt8] {
        inserting(bytes, sorted: [value])
    }

    /// The bytes of the list without one value; equal to the list if the value is absent.
    @inlinable
    public static func removing<T: FixedWidthInteger & UnsignedInteger>(
        _ bytes: UnsafeRawBufferPointer, _ value: T
    ) -> [UInt8] {
        removing(bytes, sorted: [value])
    }

    /// The bytes of sorted, distinct values.
    @inlinable
    public static func bytes<T: FixedWidthInteger & UnsignedInteger>(of values: [T]) -> [UInt8] {
        inserting(UnsafeRawBufferPointer(start: nil, count: 0), sorted: values)
    }
}
