// SPDX-License-Identifier: Apache-2.0
//
// What a mistyped word is answered with: the word that was meant (OPS-1), and where a command looks for its data folder
// (OPS-2).

import Foundation
import MartletCommand
import Testing

@Suite("Mistyped words")
struct MistypedTests {
    @Test(
        "OPS-1 the closest name is meant, if it is close",
        arguments: [
            ("sned", "send"), ("lisen", "listen"), ("projects", "project"), ("hlep", nil),
            ("harbor", "harbour"), ("x", nil), ("", nil), ("publish", nil), ("send", "send"),
            ("MARTLET_LOGLEVEL", "MARTLET_LOG_LEVEL"),
        ] as [(String, String?)])
    func nearest(typed: String, meant: String?) {
        let names = ["listen", "send", "project", "key", "harbour", "MARTLET_LOG_LEVEL"]
        #expect(Nearest.name(to: typed, among: names) == meant)
    }

    @Test(
        "OPS-1 a mistyped command is named, whatever stands behind it",
        arguments: [
            ("sned --project x", "There is no command 'martlet sned'. Did you mean 'send'?"),
            (
                "project craete x",
                "There is no command 'martlet project craete'. Did you mean 'create'?"
            ),
            ("apns key lits", "There is no command 'martlet apns key lits'. Did you mean 'list'?"),
            ("help lissten", "There is no command 'martlet lissten'. Did you mean 'listen'?"),
            ("publish -h", "There is no command 'martlet publish'."),
            ("send --project x", nil), ("report sned", nil), ("help project create", nil),
            ("--version", nil), ("", nil),
        ] as [(String, String?)])
    func command(line: String, fault: String?) {
        let words = line.split(separator: " ").map { String($0) }
        do throws(Misuse) {
            try RootCommand.requireCommand(words)
            #expect(fault == nil)
        } catch {
            #expect(error.description == fault)
        }
    }

    @Test("OPS-2 a command finds the folder in the environment, else in the file of settings")
    func folder() throws {
        let place = FileManager.default.temporaryDirectory.appending(
            path: "martlet-settings-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: place) }
        func file(_ name: String, _ text: String) throws -> String {
            let file = place.appending(path: name)
            try Data(text.utf8).write(to: file)
            return file.path
        }
        let system = try file("system.conf", "port = 1\ndata = /var/lib/martlet\n")
        let own = try file("own.conf", "data = own\n")
        let silent = try file("silent.conf", "port = 1\n")
        func folder(_ environment: [String: String], _ systemFile: String) throws -> String? {
            try Settings.folder(in: environment, systemFile: systemFile)
        }
        let both = ["MARTLET_DATA": "told", "MARTLET_CONFIG": own]
        #expect(try folder(both, system) == "told")
        #expect(try folder(["MARTLET_CONFIG": own], system) == "own")
        #expect(try folder([:], system) == "/var/lib/martlet")
        #expect(try folder(["MARTLET_CONFIG": silent], system) == nil)
        #expect(try folder([:], place.path + "/nosuch.conf") == nil)
        let error = #expect(throws: Misuse.self) {
            try folder(["MARTLET_CONFIG": place.path + "/nosuch.conf"], system)
        }
        #expect(error?.description.contains("nosuch.conf") == true)
    }
}
