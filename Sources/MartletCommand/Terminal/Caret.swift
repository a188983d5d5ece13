// SPDX-License-Identifier: Apache-2.0
//
// Points at a byte of a text, as compilers do: prints the line with the byte, and a caret below the byte. Rests on
// SafeText. Pure.

enum Caret {
    /// - Parameter byteOffset: offset in the UTF-8 of `text`; past the end, the caret stands behind the last byte.
    static func pointing(at byteOffset: Int, of text: String, indent: String = "  ") -> String {
        let bytes = Array(text.utf8)
        let offset = max(0, min(byteOffset, bytes.count))
        let newline = UInt8(ascii: "\n")
        let start = bytes[..<offset].lastIndex(of: newline).map { $0 + 1 } ?? 0
        let end = bytes[offset...].firstIndex(of: newline) ?? bytes.count
        let line = String(decoding: bytes[start..<end], as: UTF8.self).withoutControls
        let before = String(decoding: bytes[start..<offset], as: UTF8.self).withoutControls
        return "\(indent)\(line)\n\(indent)\(String(repeating: " ", count: before.count))^"
    }
}
