// SPDX-License-Identifier: Apache-2.0
//
// Temporary data folders of commands. Rests on POSIX.

import FoundationEssentials
import Glibc
import Martlet

enum TemporaryFolder {
    /// Makes a folder in TMPDIR, or in `/tmp` without TMPDIR. Other users cannot read the folder.
    /// - Parameter name: begin of the folder's name.
    /// - Throws: `UNAVAILABLE` if no folder can be made.
    static func make(_ name: String) throws(MartletError) -> String {
        let named = ProcessInfo.processInfo.environment["TMPDIR"] ?? ""
        let parent = named.isEmpty ? "/tmp" : absolute(named)
        var template = Array((parent + "/" + name + "-XXXXXX").utf8CString)
        guard mkdtemp(&template) != nil else {
            throw MartletError(
                .unavailable,
                "No temporary folder in '\(parent)' (\(String(cString: strerror(errno)))). Set "
                    + "TMPDIR to one that can be written.")
        }
        return String(
            decoding: template.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// A path that programs in other folders can use.
    static func absolute(_ path: String) -> String {
        path.hasPrefix("/") ? path : FileManager.default.currentDirectoryPath + "/" + path
    }
}
