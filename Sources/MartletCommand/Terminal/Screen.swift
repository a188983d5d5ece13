// SPDX-License-Identifier: Apache-2.0
//
// A terminal's whole window, written over in place. What does not fit is left out. Rests on POSIX.

import Glibc

enum Screen {
    static func clear() { Terminal.write("\u{1B}[2J\u{1B}[H") }

    /// Puts lines where those before them were.
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
