// SPDX-License-Identifier: Apache-2.0
//
// Standard output and standard error, and tests for people at a terminal. Whole lines are written at once, so that
// lines of concurrent tasks do not mix. Rests on POSIX.

import Glibc

enum Terminal {
    /// Whether a person can type and read.
    static var isInteractive: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 }

    /// Whether a person sees results as they are printed.
    static var hasScreen: Bool { isatty(STDOUT_FILENO) == 1 }

    /// Whether a person sees progress.
    static var showsProgress: Bool { isatty(STDERR_FILENO) == 1 }

    /// Writes without a new line.
    static func write(_ text: String) { write(text, to: STDOUT_FILENO) }

    static func print(_ text: String) { write(text + "\n", to: STDOUT_FILENO) }

    static func printError(_ text: String) { write(text + "\n", to: STDERR_FILENO) }

    /// Replaces the last line of the terminal.
    static func replaceLine(_ text: String) { write("\r\u{1B}[2K" + text, to: STDERR_FILENO) }

    private static func write(_ text: String, to descriptor: Int32) {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0 {
                guard errno == EINTR || errno == EAGAIN else { return }
                if errno == EAGAIN { waitForRoom(descriptor) }
                continue
            }
            bytes = bytes.dropFirst(count)
        }
    }

    /// Waits until the descriptor takes bytes. Another process with the same terminal or pipe may have made writes
    /// non-blocking.
    private static func waitForRoom(_ descriptor: Int32) {
        var room = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        poll(&room, 1, -1)
    }
}
