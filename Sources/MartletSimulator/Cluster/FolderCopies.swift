// SPDX-License-Identifier: Apache-2.0
//
// Copies of a data folder for the nodes of a cluster, as an operator makes them. Rests on POSIX files.

import Glibc

/// Makes and removes the folders of a world.
enum FolderCopies {
    /// Copies the files of a folder into folders inside of it.
    /// - Returns: the paths of the copies.
    static func make(_ count: Int, of folder: String) throws -> [String] {
        let names = files(in: folder)
        return try (0..<count).map { number in
            let copy = "\(folder)/node-\(number)"
            guard mkdir(copy, 0o700) == 0 else { throw failure() }
            for name in names { try copyFile("\(folder)/\(name)", to: "\(copy)/\(name)") }
            return copy
        }
    }

    /// Removes a folder with its files and copies.
    static func remove(_ folder: String) {
        for name in entries(of: folder) {
            let path = "\(folder)/\(name)"
            // A file that a thread of the world still holds open would keep the machine's memory.
            truncate(path, 0)
            if unlink(path) != 0 { remove(path) }
        }
        rmdir(folder)
    }

    private static func entries(of folder: String) -> [String] {
        guard let directory = opendir(folder) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { name in
                name.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names.sorted()
    }

    private static func files(in folder: String) -> [String] {
        entries(of: folder).filter { name in
            var status = stat()
            return stat("\(folder)/\(name)", &status) == 0
                && status.st_mode & S_IFMT == S_IFREG
        }
    }

    private static func copyFile(_ path: String, to copy: String) throws {
        let source = open(path, O_RDONLY)
        guard source >= 0 else { throw failure() }
        defer { close(source) }
        let target = open(copy, O_WRONLY | O_CREAT | O_EXCL, 0o600)
        guard target >= 0 else { throw failure() }
        defer { close(target) }
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(source, &buffer, buffer.count)
            guard count > 0 else {
                guard count == 0 else { throw failure() }
                return
            }
            guard write(target, buffer, count) == count else { throw failure() }
        }
    }

    private static func failure() -> SimulationError {
        .noFolder(String(cString: strerror(errno)))
    }
}
