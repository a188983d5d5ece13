// SPDX-License-Identifier: Apache-2.0
//
// A file for a secret that a command shows once, named by the user. Rests on PrivateFile.

import Glibc
import Martlet
import MartletFiles

/// A new file for a secret.
struct SecretFile {
    private let path: String

    /// Creates the file, which the user has named with the option `field`. An existing file is left alone, because the file may hold another secret.
    /// - Throws: `ALREADY_EXISTS` for an existing file; `INVALID_ARGUMENT` if no file can be made; `INTERNAL` if the
    ///   file cannot be written. No new file is left then.
    init(creating path: String, holding text: String, field: String) throws(MartletError) {
        self.path = path
        let file: PrivateFile
        do throws(PrivateFile.Failure) {
            file = try PrivateFile(creating: path)
        } catch {
            throw MartletError(
                error.code == EEXIST ? .alreadyExists : .invalidArgument,
                "'\(path)' cannot be made: \(error.text).", field: field)
        }
        do throws(PrivateFile.Failure) {
            try file.write(Array(text.utf8))
            try PrivateFile.syncFolder(of: path)
        } catch {
            remove()
            throw MartletError(.internal, "'\(path)' cannot be written: \(error.text).")
        }
    }

    func remove() { unlink(path) }
}
