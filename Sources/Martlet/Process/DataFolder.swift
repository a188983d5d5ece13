// SPDX-License-Identifier: Apache-2.0
//
// The small files beside the store: the administrator key, the secret of access tokens, and the addresses of a
// running broker and its gateway. Only the owner may read the files. Commands on this machine find the broker
// by the addresses. Rests on PrivateFile and EditedText.

import Glibc
import MartletBase
import MartletCrypto
import MartletFiles
import MartletStore

/// The files of a data folder.
enum DataFolder {
    /// Whether a broker has served the folder before.
    static func hasData(in folder: String) -> Bool {
        var status = stat()
        return stat(folder + "/data.mdb", &status) == 0 || Store.isMigrated(folder)
    }

    /// Refuses a folder that has keys and no data. Otherwise a new broker would begin in the place of another
    /// broker.
    /// - Throws: `StoreOpenError.lost`.
    static func requireData(in folder: String) throws {
        var status = stat()
        // The data file of a migrated folder may lie aside until the store is opened.
        guard access(folder + "/admin.key", F_OK) == 0, !Store.isMigrated(folder) else { return }
        guard stat(folder + "/data.mdb", &status) == 0, status.st_size > 0 else {
            throw StoreOpenError.lost(folder)
        }
    }

    /// Reads the administrator key, or makes a key.
    static func administratorKey(in folder: String) throws -> String {
        try secret(
            "admin.key", in: folder, byteCount: Limits.deviceKeyRandomBytes, Credentials.deviceKey)
    }

    /// REG-5: reads the secret that signs access tokens, or makes a secret. A new secret makes all earlier
    /// access tokens invalid.
    static func tokenSecret(in folder: String) throws -> [UInt8] {
        let text = try secret(
            "token.key", in: folder, byteCount: Limits.accessTokenSecretBytes,
            Credentials.tokenSecret)
        return Base64URL.decode(text)!
    }

    /// GW-12: reads the secret of Web Push endpoints, or makes a secret. A new secret makes all earlier endpoints
    /// invalid.
    /// - Parameter isShared: OPS-7: whether all nodes need the same secret.
    static func webPushSecret(in folder: String, isShared: Bool) throws -> [UInt8] {
        try laterSecret("web-push.key", in: folder, isShared: isShared)
    }

    /// GW-11: reads the secret that seals keys for push services, or makes a secret. A new secret opens no earlier key.
    /// - Parameter isShared: OPS-7: whether all nodes need the same secret.
    static func bridgeSecret(in folder: String, isShared: Bool) throws -> [UInt8] {
        try laterSecret("bridge.key", in: folder, isShared: isShared)
    }

    /// Reads a secret that is made when it is needed first. The folders of all nodes were copied before, so a shared
    /// secret is made of the secret of access tokens, which all folders have.
    private static func laterSecret(
        _ name: String, in folder: String, isShared: Bool
    ) throws -> [UInt8] {
        let common = isShared ? try tokenSecret(in: folder) : nil
        let text = try secret(name, in: folder, byteCount: Limits.accessTokenSecretBytes) {
            guard let common else { return Credentials.tokenSecret() }
            return Base64URL.encode(
                AuthenticationKey(common).code(of: Array("martlet \(name)".utf8)))
        }
        return Base64URL.decode(text)!
    }

    /// Reads the secret in a file, or makes a secret if the file is missing.
    /// - Throws: `StoreOpenError.file` for a file that cannot be read, or has another text than this program writes:
    ///   a short text could be guessed.
    private static func secret(
        _ name: String, in folder: String, byteCount: Int, _ make: () -> String
    ) throws -> String {
        let path = folder + "/" + name
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        defer { if descriptor >= 0 { close(descriptor) } }
        guard descriptor >= 0 || errno == ENOENT else {
            throw StoreOpenError.file(path, errno: errno)
        }
        if descriptor >= 0 {
            guard let text = read(descriptor) else {
                throw StoreOpenError.file(path, errno: errno)
            }
            guard Base64URL.decode(text)?.count == byteCount else {
                throw StoreOpenError.file(
                    path,
                    text: "it has no key of Martlet. Put the right file back, or delete it for a "
                        + "new key")
            }
            return text
        }
        let secret = make()
        try write(secret, to: path)
        return secret
    }

    /// The files with keys and messages that other users of the system may read or write.
    static func exposedFiles(in folder: String) -> [String] {
        [
            "admin.key", "token.key", "web-push.key", "bridge.key", "console.access",
            "console.sessions", "data.mdb", "journal.0", "journal.1",
        ].filter { mode(of: folder + "/" + $0) & 0o077 != 0 }
    }

    /// Whether every user of the system may put files into the folder, and replace those in it. A group that may is no
    /// fault: orchestrators give a volume to the group of its container.
    static func isOpenToAll(_ folder: String) -> Bool { mode(of: folder) & 0o002 != 0 }

    /// 0 for a file that is not there.
    private static func mode(of path: String) -> mode_t {
        var status = stat()
        return stat(path, &status) == 0 ? status.st_mode : 0
    }

    static func writeTokenURL(_ url: String, in folder: String) throws {
        try write(url, to: folder + "/http.address")
    }

    static func removeTokenURL(in folder: String) { unlink(folder + "/http.address") }

    static func read(_ path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        return read(descriptor)
    }

    /// Reads the text of a small file, without blanks at the end.
    /// - Returns: nil with `errno` for a file that cannot be read.
    static func read(_ descriptor: Int32) -> String? {
        let file: EditedText
        do throws(PrivateFile.Failure) { file = try EditedText(descriptor: descriptor) } catch {
            errno = error.code
            return nil
        }
        var text = String(decoding: file.bytes, as: UTF8.self)
        while text.last?.isWhitespace == true { text.removeLast() }
        return text
    }

    /// Writes a file whole or not at all, also in a crash.
    /// - Parameter isLocked: locks the file before it has its name.
    /// - Throws: `StoreOpenError.file`.
    @discardableResult
    static func write(
        _ text: String, to path: String, isLocked: Bool = false
    ) throws -> PrivateFile {
        do throws(PrivateFile.Failure) {
            return try PrivateFile.replace(path, with: Array((text + "\n").utf8)) {
                (file) throws(PrivateFile.Failure) in if isLocked { try PrivateFile.lock(file) }
            }
        } catch {
            throw StoreOpenError.file(path, text: error.text)
        }
    }
}
