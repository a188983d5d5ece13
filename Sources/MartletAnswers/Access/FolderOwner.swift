// SPDX-License-Identifier: Apache-2.0
//
// Files that a command as root writes into another user's data folder belong to the folder's owner, because the broker must
// be able to write the files too. Rests on POSIX files.

import Glibc

enum FolderOwner {
    /// Gives an open file to the owner of a folder. Without root there is nothing to give.
    static func give(_ descriptor: Int32, in folder: String) {
        guard let (user, group) = owner(of: folder) else { return }
        _ = fchown(descriptor, user, group)
    }

    private static func owner(of folder: String) -> (uid_t, gid_t)? {
        var status = stat()
        guard geteuid() == 0, stat(folder, &status) == 0, status.st_uid != 0 else { return nil }
        return (status.st_uid, status.st_gid)
    }
}
