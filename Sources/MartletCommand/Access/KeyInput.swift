// SPDX-License-Identifier: Apache-2.0
//
// Reads a secret or a public key from a file or from standard input. No command takes a secret as an argument, because
// every user of the machine can read the arguments of a process. Rests on EditedText.

import Glibc
import Martlet
import MartletFiles

/// The bytes of a key, as a user hands them over.
struct KeyInput {
    /// Longest file, in bytes: the text of the longest key that a broker takes (2048 bytes in DER), with a margin.
    private static let bytesMax = 16 * 1024

    /// All bytes of the file or of standard input.
    let bytes: [UInt8]

    /// - Parameter path: a file; nil for standard input.
    /// - Throws: `NOT_FOUND` for a file that cannot be read, `INVALID_ARGUMENT` for more than 16 KiB.
    init(path: String?) throws(MartletError) {
        let descriptor = path.map { open($0, O_RDONLY | O_CLOEXEC) } ?? STDIN_FILENO
        let name = path.map { "'\($0)'" } ?? "Standard input"
        guard descriptor >= 0 else { throw Self.unreadable(name, errno) }
        defer { if path != nil { close(descriptor) } }
        do throws(PrivateFile.Failure) {
            bytes = try EditedText.bytes(of: descriptor, bytesMax: Self.bytesMax)
        } catch {
            guard error.code == EFBIG else { throw Self.unreadable(name, error.code) }
            throw MartletError(
                .invalidArgument,
                "\(name) has more than \(Self.bytesMax) bytes, so it is no key.", field: "file")
        }
    }

    /// The bytes as a secret. A line end behind printable ASCII and a byte-order mark in front are not part of the
    /// secret, because editors and `echo` add them. A secret with any other byte keeps all bytes.
    var secret: [UInt8] {
        var text = EditedText(bytes).bytes[...]
        if text.last == UInt8(ascii: "\n") { text.removeLast() }
        return text.allSatisfy { (0x20...0x7E).contains($0) } ? Array(text) : bytes
    }

    /// The bytes as text.
    var text: String { String(decoding: EditedText(bytes).bytes, as: UTF8.self) }

    private static func unreadable(_ name: String, _ code: Int32) -> MartletError {
        MartletError(
            .notFound, "\(name) cannot be read: \(String(cString: strerror(code))).",
            field: "file")
    }
}
