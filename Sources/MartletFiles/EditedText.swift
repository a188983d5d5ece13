// SPDX-License-Identifier: Apache-2.0
//
// Texts that a person may have edited, on any machine and with any editor. Editors end lines with LF, CR LF or CR alone,
// and some put a byte-order mark in front, or write UTF-16. Every file that a person hands to Martlet is read here, so that
// its readers know one form alone. Rests on POSIX files.

#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#elseif canImport(Android)
    import Android
#else
    import Glibc
#endif

/// A text in the form of this program: no byte-order mark, and lines that end with LF.
package struct EditedText: Sendable {
    /// Longest file that is read. The longest text is a bundle of authorities, with some hundred kilobytes.
    package static let bytesMax = 1 << 20

    private static let mark: [UInt8] = [0xEF, 0xBB, 0xBF]

    package let bytes: [UInt8]

    /// Brings a text into the form. The bytes need not be UTF-8 otherwise.
    package init(_ given: [UInt8]) {
        let utf8 = Self.decodedUTF16(given) ?? given
        let start = utf8.starts(with: Self.mark) ? Self.mark.count : 0
        var bytes: [UInt8] = []
        bytes.reserveCapacity(utf8.count)
        var isBehindCR = false
        for byte in utf8[start...] {
            if byte == UInt8(ascii: "\r") || (byte == UInt8(ascii: "\n") && !isBehindCR) {
                bytes.append(UInt8(ascii: "\n"))
            } else if byte != UInt8(ascii: "\n") {
                bytes.append(byte)
            }
            isBehindCR = byte == UInt8(ascii: "\r")
        }
        self.bytes = bytes
    }

    /// Reads a file.
    /// - Throws: the system's reason; EFBIG for a file of more bytes than `bytesMax`.
    package init(
        contentsOf path: String, bytesMax: Int = Self.bytesMax
    ) throws(PrivateFile.Failure) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .last }
        defer { close(descriptor) }
        try self.init(descriptor: descriptor, bytesMax: bytesMax)
    }

    /// Reads an open file to its end.
    /// - Throws: as above.
    package init(
        descriptor: Int32, bytesMax: Int = Self.bytesMax
    ) throws(PrivateFile.Failure) {
        self.init(try Self.bytes(of: descriptor, bytesMax: bytesMax))
    }

    /// The bytes of an open file as they are, to its end.
    /// - Throws: as above.
    package static func bytes(
        of descriptor: Int32, bytesMax: Int = Self.bytesMax
    ) throws(PrivateFile.Failure) -> [UInt8] {
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(descriptor, &part, part.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw .last }
            guard count > 0 else { return bytes }
            bytes += part[..<count]
            guard bytes.count <= bytesMax else { throw PrivateFile.Failure(code: EFBIG) }
        }
    }

    /// The lines, without their ends.
    package var lines: [ArraySlice<UInt8>] {
        bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
    }

    /// The text; nil: the bytes are not UTF-8.
    package var text: String? { String(validating: bytes, as: UTF8.self) }

    /// UTF-8 for a text in UTF-16; nil for bytes without a mark of UTF-16.
    private static func decodedUTF16(_ bytes: [UInt8]) -> [UInt8]? {
        guard bytes.count.isMultiple(of: 2), bytes.count >= 2 else { return nil }
        let high: Int
        switch (bytes[0], bytes[1]) {
        case (0xFE, 0xFF): high = 0
        case (0xFF, 0xFE): high = 1
        default: return nil
        }
        let units = stride(from: 2, to: bytes.count, by: 2).map {
            UInt16(bytes[$0 + high]) << 8 | UInt16(bytes[$0 + 1 - high])
        }
        return String(validating: units, as: UTF16.self).map { Array($0.utf8) }
    }
}
