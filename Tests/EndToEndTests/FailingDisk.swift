// SPDX-License-Identifier: Apache-2.0
//
// A disk that fails for one process, as its operator tells it to: the library of Tests/Faults before the process's
// calls. Rests on the C compiler of the Swift toolchain.

import Foundation
import Glibc

/// The disk of a process that starts with `environment`.
final class FailingDisk {
    /// What goes wrong with one kind of file.
    struct Fault {
        /// The end of the paths.
        var name: String
        /// `w` writes, `s` syncs.
        var calls: String
        var code: Int32
        /// nil: all calls until the disk is mended.
        var count: Int?
        /// How long each call takes before it fails, or is carried out for code 0.
        var microseconds = 0
    }

    struct NoLibrary: Error { let text: String }

    private static let library: Result<URL, NoLibrary> = {
        let source = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Faults/failing_disk.c")
        let built = FileManager.default.temporaryDirectory.appending(
            path: "failing-disk-\(UUID().uuidString).so")
        let compiler = Process()
        compiler.executableURL = URL(filePath: "/usr/bin/env")
        compiler.arguments = [
            "clang", "-O2", "-shared", "-fPIC", "-o", built.path, source.path, "-ldl",
        ]
        do { try compiler.run() } catch { return .failure(NoLibrary(text: "\(error)")) }
        compiler.waitUntilExit()
        guard compiler.terminationStatus == 0 else {
            return .failure(NoLibrary(text: "clang does not compile \(source.path)"))
        }
        return .success(built)
    }()

    private let rules: URL
    private var lineCount = 0
    let environment: [String: String]

    /// - Parameter folder: keeps the file that tells what goes wrong.
    init(in folder: URL) throws {
        rules = folder.appending(path: "failing-disk")
        try Data().write(to: rules)
        // A tool that looks at the tests may have a library of its own there.
        let others = ProcessInfo.processInfo.environment["LD_PRELOAD"].map { ":" + $0 } ?? ""
        environment = [
            "LD_PRELOAD": try Self.library.get().path + others, "FAILING_DISK": rules.path,
        ]
    }

    /// From now on these faults, in place of the former ones.
    func fail(_ faults: [Fault]) throws {
        var text = ""
        for fault in faults {
            lineCount += 1
            let count = fault.count ?? -1
            text +=
                "\(lineCount) \(fault.name) \(fault.calls) \(fault.code) \(count) \(fault.microseconds)\n"
        }
        try Data(text.utf8).write(to: rules, options: .atomic)
    }

    /// From now on each sync takes this long.
    func slow(milliseconds: Int) throws {
        lineCount += 1
        try Data("\(lineCount) * s 0 -1 \(milliseconds * 1000)\n".utf8)
            .write(to: rules, options: .atomic)
    }

    func mend() throws { try fail([]) }
}
