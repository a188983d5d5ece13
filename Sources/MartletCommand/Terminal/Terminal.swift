// SPDX-License-Identifier: Apache-2.0
//
// Standard output and standard error, and whether people sit at them. Whole lines are written at
// once, so that lines of concurrent tasks do not mix. Rests on POSIX.

import Glibc

enum Terminal {
    /// Whether somebody can type and read.
    static var isInteractive: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 }

    /// Whether results are shown to somebody as they are.
    static var hasScreen: Bool { isatty(STDOUT_FILENO) == 1 }

    /// Whether progress is of use to anybody.
    static var showsProgress: Bool { isatty(STDERR_FILENO) == 1 }

    /// Without a new line.
    static func write(_ text: String) { write(text, to: STDOUT_FILENO) }

    static func print(_ text: String) { write(text + "\n", to: STDOUT_FILENO) }

    static func printError(_ text: String) { write(text + "\n", to: STDERR_FILENO) }

    /// Replaces the last line of a terminal.
    static func replaceLine(_ text: String) { write("\r\u{1B}[2K" + text, to: STDERR_FILENO) }

    private static func write(_ text: String, to descriptor: Int32) {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0 {
                if errno == EINTR || errno == EAGAIN { continue }
                return
            }
            bytes = bytes.dropFirst(count)
        }
    }
}
