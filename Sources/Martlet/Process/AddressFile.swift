// SPDX-License-Identifier: Apache-2.0
//
// The file `serve.address`: the address at which the broker of a data folder listens. Commands on this machine send
// the administrator key to the address, so the address of a broker that has ended must not count: another program may
// listen there by now. The broker holds a lock on the file for as long as it listens, and the kernel drops the lock
// with the process. So a file without a lock was left by a crash.
//
// A reader keeps the file open and looks at the lock twice: when it reads the address, and on the new connection
// before the key leaves. The broker takes its lock once, so a lock found both times means that the broker listened at
// the moment of the connection, and nobody else can have had the port. Rests on POSIX files.

import Glibc
import MartletFiles
import Synchronization

/// The address file of a broker that listens.
struct AddressFile: Sendable {
    private let path: String
    /// Open, and so locked, until `remove`.
    private let descriptor: Int32

    private let words: String
    private let isSecure: Bool

    /// Writes the file.
    /// - Parameter fingerprint: SHA-256 of the port's certificate; nil: the port speaks plain text.
    /// - Throws: `StoreOpenError.folder`.
    init(host: String, port: UInt16, fingerprint: [UInt8]?, in folder: String) throws {
        path = Self.path(in: folder)
        words = "\(host) \(port)"
        isSecure = fingerprint != nil
        descriptor = try DataFolder.write(
            Self.text(words, fingerprint), to: path, isLocked: true
        ).leaveOpen()
    }

    /// Writes the fingerprint of another certificate over the old, in one call of the same length. Has no effect if the
    /// port speaks plain text.
    func change(fingerprint: [UInt8]) {
        guard isSecure else { return }
        let text = Array(Self.text(words, fingerprint).utf8)
        _ = text.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, 0) }
    }

    private static func text(_ words: String, _ fingerprint: [UInt8]?) -> String {
        guard let fingerprint else { return words }
        return words + " " + Hexadecimal.encode(fingerprint)
    }

    /// Removes the file and the lock. The broker calls this once, before the port is free again.
    func remove() {
        unlink(path)
        // A process that is being started holds copies of this process's descriptors until exec.
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }

    /// Removes the file that a crash left.
    static func removeLeft(in folder: String) { unlink(path(in: folder)) }

    static func path(in folder: String) -> String { folder + "/serve.address" }
}

/// Bytes as hexadecimal digits.
enum Hexadecimal {
    static func encode(_ bytes: [UInt8]) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(
            decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] },
            as: UTF8.self)
    }

    /// nil: the text is no SHA-256.
    static func decode(_ text: some StringProtocol) -> [UInt8]? {
        let digits = Array(text.utf8)
        guard digits.count == 64 else { return nil }
        var bytes: [UInt8] = []
        for at in stride(from: 0, to: digits.count, by: 2) {
            let pair = String(decoding: digits[at...at + 1], as: UTF8.self)
            guard let byte = UInt8(pair, radix: 16) else { return nil }
            bytes.append(byte)
        }
        return bytes
    }
}

/// The address of a broker, as another process finds it.
package final class ServedAddress: Sendable {
    private let folder: String
    private let file: Mutex<FoundFile>
    /// The address of the broker's listening sockets, which may stand for all addresses of the machine.
    package let host: String
    package let port: Int
    /// SHA-256 of the port's certificate; nil: the port speaks plain text.
    package let fingerprint: [UInt8]?

    /// Reads the address of the folder's broker. nil: no broker listens.
    package init?(in folder: String) {
        guard let found = FoundFile(in: folder) else { return nil }
        self.folder = folder
        (host, port, fingerprint) = (found.host, found.port, found.fingerprint)
        file = Mutex(found)
    }

    /// Whether the broker that wrote the address still listens. If another broker has taken the address over, later
    /// calls look at the other broker. This call returns false, because a connection may be older than that broker.
    package func isServed() -> Bool {
        file.withLock { file in
            if file.isLocked { return true }
            if let next = FoundFile(in: folder), next.host == file.host, next.port == file.port {
                file = next
            }
            return false
        }
    }
}

/// An address file of a broker that listened when the file was read.
private struct FoundFile: ~Copyable, Sendable {
    let host: String
    let port: Int
    let fingerprint: [UInt8]?
    private let descriptor: Int32

    /// Opens and reads the file. nil: no broker listens.
    init?(in folder: String) {
        descriptor = open(AddressFile.path(in: folder), O_RDONLY | O_CLOEXEC)
        let words = (descriptor < 0 ? nil : DataFolder.read(descriptor))?.split(separator: " ")
        host = words?.first.map(String.init) ?? ""
        port = words?.dropFirst().first.flatMap { Int($0) } ?? 0
        fingerprint = words?.dropFirst(2).first.flatMap { Hexadecimal.decode($0) }
        guard let words, words.count == (fingerprint == nil ? 2 : 3),
            (1...65_535).contains(port), isLocked
        else { return nil }
    }

    deinit { close(descriptor) }

    /// Readers do not disturb each other: only the broker's lock refuses a shared lock.
    var isLocked: Bool { flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK }
}
