// SPDX-License-Identifier: Apache-2.0
//
// The whole window of a terminal, rewritten in place. Text beyond the window is left out. Rests on POSIX.

import Glibc

enum Screen {
    static func clear() { Terminal.write("\u{1B}[2J\u{1B}[H") }

    /// Writes lines over the previous lines.
    static func show(_ lines: [String]) {
        let (columns, rows) = size
        var text = "\u{1B}[H"
        for line in lines.prefix(rows - 1) {
            text += line.prefix(columns) + "\u{1B}[K\n"
        }
        Terminal.write(text + "\u{1B}[J")
    }

    private static var size: (columns: Int, rows: Int) {
        var window = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &window) == 0, window.ws_row > 1,
            window.ws_col > 0
        else { return (80, 24) }
        return (Int(window.ws_col), Int(window.ws_row))
    }
}
