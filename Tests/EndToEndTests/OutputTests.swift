// SPDX-License-Identifier: Apache-2.0
//
// A command whose result cannot be printed fails: a key is printed only once (OPS-1). Rests on Desk, with real processes.

import Foundation
import Testing

@Suite("Standard output", .timeLimit(.minutes(2)))
struct OutputTests {
    /// A standard output that takes nothing.
    enum Output: String, CaseIterable {
        case full = ">/dev/full"
        case closed = ">&-"
    }

    /// Command lines that print a result and end by themselves, for a folder with the project `tides`.
    private static let lines = [
        "project create harbour", "project set tides --weight 2", "project list",
        "project list --json", "key create --project tides --name t", "key list --project tides",
        "service-account create --project tides", "service-account list --project tides",
        "registration-key create --project tides --json",
        "registration-key list --project tides", "ticket-key list --project tides --json",
        "apns key list --project tides --json", "webpush key list --project tides --json",
        "app list --project tides", "group list --project tides", "quotas --project tides",
        "topics --project tides", "subscribers storms --project tides --json",
        "audience \"'storms' in topics\" --project tides",
        "explain \"'storms' in topics\" --project tides",
        "send --project tides --topic storms --title x", "report --project tides", "fanouts --json",
        "check", "backup copy", "settings",
        "size --instances 1000 --connections 100 --messages-per-day 10", "audit --json",
        "demo --devices 20 --exit", "console user list --json", "--version", "--help", "help send",
        "send --help",
        "--generate-completion-script bash",
    ]

    @Test(
        "OPS-1 a command whose output takes nothing ends with 1, and says why",
        arguments: Output.allCases)
    func results(output: Output) throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        for line in Self.lines {
            // What has no result prints nothing that could be lost.
            let whole = desk.finish(try desk.shell("exec \"$0\" \(line)"))
            #expect(whole.status == 0 && !whole.out.isEmpty, "\(line): \(whole)")
            try? FileManager.default.removeItem(at: desk.folder.appending(path: "copy"))
            let again = line.replacing("harbour", with: "harbour2")
            let lost = desk.finish(try desk.shell("exec \"$0\" \(again) \(output.rawValue)"))
            #expect(lost.status == 1, "\(line) \(output.rawValue): \(lost)")
            #expect(
                lost.err.contains("The result could not be printed"),
                "\(line) \(output.rawValue): \(lost)")
        }
    }

    @Test(
        "OPS-9 an emulator that cannot tell its address ends with 1 at once, and leaves nothing",
        arguments: Output.allCases, ["", "--json"])
    func emulator(output: Output, form: String) throws {
        let desk = try Desk()
        defer { desk.remove() }
        let line = "emulator --http 127.0.0.1:0 --port 0 \(form)"
        let lost = desk.finish(
            try desk.shell("TMPDIR=\"$PWD\" exec \"$0\" \(line) \(output.rawValue)"))
        #expect(
            lost.status == 1 && lost.err.contains("The result could not be printed"), "\(lost)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: desk.folder.path).isEmpty)
    }

    @Test(
        "OPS-3 a backup that its reader does not take is no backup, and the folder is well",
        arguments: [">/dev/full", ">&-", ">&3"])
    func backup(end: String) throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        // Descriptor 3 is a pipe whose reader has ended. A pipe with a reader takes a small backup whole, read or not.
        let broken = desk.finish(
            try desk.shell("exec 3> >(:); wait $!; exec \"$0\" backup - \(end)"))
        #expect(broken.status != 0 && !broken.err.contains("damaged"), "\(broken)")
        #expect(try desk.run("check").status == 0)
    }

    @Test(
        "DEV-3 UPS-1 RCP-1 what could not be printed is not taken, and comes again",
        arguments: Output.allCases)
    func streams(output: Output) throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        let (broker, port) = try desk.serve()
        let listen = "listen --project tides --app a.b --topic storms --port \(port) --timeout 60"
        let first = try desk.run(
            "listen", "--project", "tides", "--app", "a.b", "--topic", "storms", "--port", port,
            "--count", "0", "--send-upstream", "ahoy")
        #expect(first.status == 0, "\(first)")
        let sent = try desk.run(
            "send", "--project", "tides", "--topic", "storms", "--title", "Gale", "--receipts")
        #expect(sent.status == 0, "\(sent)")
        for (line, text) in [
            (listen, "Gale"), ("receipts --project tides", "received"),
            ("upstream --project tides", "ahoy"),
        ] {
            let lost = desk.finish(try desk.shell("exec \"$0\" \(line) \(output.rawValue)"))
            #expect(
                lost.status == 1 && lost.err.contains("The result could not be printed"),
                "\(line): \(lost)")
            let shown = desk.finish(try desk.shell("exec \"$0\" \(line) --count 1"))
            #expect(shown.status == 0 && shown.out.contains(text), "\(line): \(shown)")
        }
        broker.terminate()
        #expect(desk.finish(broker).status == 0)
    }
}
