// SPDX-License-Identifier: Apache-2.0
//
// The queue between a serving process and the reader of its log. Rests on MartletCommand and pipes.

import Glibc
import MartletCommand
import Synchronization
import Testing

@Suite("Commands: the writer of lines", .timeLimit(.minutes(1)))
struct LineWriterTests {
    /// A pipe whose reader reads only when it is told to.
    private struct Pipe: ~Copyable {
        let reading: Int32
        let writing: Int32

        init() {
            var ends: [Int32] = [-1, -1]
            pipe(&ends)
            (reading, writing) = (ends[0], ends[1])
            // F_SETPIPE_SZ: the pipe holds a page.
            _ = fcntl(writing, 1031, 4096)
        }

        deinit {
            close(reading)
            close(writing)
        }

        /// Reads the next line.
        func line() -> String {
            var bytes: [UInt8] = []
            var byte: UInt8 = 0
            while read(reading, &byte, 1) == 1, byte != UInt8(ascii: "\n") { bytes.append(byte) }
            return String(decoding: bytes, as: UTF8.self)
        }

        func lines(_ count: Int) -> [String] { (0..<count).map { _ in line() } }
    }

    private static func writer(of pipe: borrowing Pipe, bytesMax: Int) throws -> LineWriter {
        try LineWriter(bytesMax: bytesMax, lossDescriptor: pipe.writing) { "\($0) missing\n" }
    }

    /// A hundred bytes that begin with the number.
    private static func line(_ number: Int) -> String {
        let text = "\(number) "
        return text + String(repeating: "x", count: 99 - text.utf8.count)
    }

    @Test("OPS-15 OPS-11 lines that find no room are counted, and the log says so in their place")
    func gap() throws {
        let pipe = Pipe()
        let writer = try Self.writer(of: pipe, bytesMax: 8000)
        for number in 0..<1000 { writer.write(Self.line(number) + "\n", to: pipe.writing) }
        var (numbers, missing, gaps) = ([Int](), 0, 0)
        // Only now somebody reads. Each line is read, or counted at its place.
        while numbers.count + missing < 1000 {
            let line = pipe.line()
            let number = try #require(Int(line.prefix { $0 != " " }))
            if line.hasSuffix("missing") {
                missing += number
                gaps += 1
            } else {
                #expect(number == numbers.count + missing)
                numbers.append(number)
            }
        }
        // A pipe and a queue, each taken once and once by the half while the lines came.
        #expect(missing > 500 && gaps < 20, "\(missing) in \(gaps)")
        writer.write("afterwards\n", to: pipe.writing)
        #expect(pipe.line() == "afterwards")
    }

    @Test(
        "OPS-11 what has room is written whole and in its order, also to a descriptor that does not block"
    )
    func order() throws {
        let pipe = Pipe()
        let flags = fcntl(pipe.writing, F_GETFL)
        _ = fcntl(pipe.writing, F_SETFL, flags | O_NONBLOCK)
        let writer = try Self.writer(of: pipe, bytesMax: 1 << 20)
        for number in 0..<1000 { writer.write(Self.line(number) + "\n", to: pipe.writing) }
        #expect(pipe.lines(1000) == (0..<1000).map(Self.line))
    }

    @Test("OPS-11 lines that cannot be written are told when lines can be written again")
    func failure() throws {
        let pipe = Pipe()
        let writer = try Self.writer(of: pipe, bytesMax: 1 << 20)
        // A disk without room.
        let full = open("/dev/full", O_WRONLY | O_CLOEXEC)
        defer { close(full) }
        for number in 0..<3 { writer.write(Self.line(number) + "\n", to: full) }
        writer.write("afterwards\n", to: pipe.writing)
        #expect(pipe.lines(2) == ["3 missing", "afterwards"])
        // What cannot be written there silences no other descriptor.
        let other = Pipe()
        let failures = Mutex<[[Int32]]>([])
        let lost = try LineWriter(
            bytesMax: 1 << 20, lossDescriptor: full,
            failed: { descriptor, code in failures.withLock { $0.append([descriptor, code]) } },
            loss: { "\($0) missing\n" })
        lost.write("lost\n", to: full)
        lost.write("result\n", to: other.writing)
        #expect(other.lines(1) == ["result"])
        #expect(failures.withLock { $0 } == [[full, ENOSPC]])
    }

    @Test(
        "OPS-11 the end of a process waits for a reader that reads, and not for one that does not")
    func end() throws {
        let pipe = Pipe()
        let writer = try Self.writer(of: pipe, bytesMax: 1 << 20)
        writer.write("first\n", to: pipe.writing)
        writer.flush(milliseconds: 50_000)
        // What the flush waited for is in the pipe.
        var waiting: Int32 = 0
        _ = ioctl(pipe.reading, UInt(FIONREAD), &waiting)
        #expect(waiting == 6)
        for number in 0..<100 { writer.write(Self.line(number) + "\n", to: pipe.writing) }
        writer.flush(milliseconds: 10)
        #expect(pipe.lines(101).last == Self.line(99))
    }
}
