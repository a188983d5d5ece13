// SPDX-License-Identifier: Apache-2.0
//
// What the documentation and the manifest say of the sources is true of them. Rests on the files of the
// repository, which are read as text.

import Foundation
import Testing

@Suite("Tidiness")
struct TidyTests {
    static let root = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    private static let articles = root.appending(path: "Sources/Martlet/Martlet.docc")

    static func text(_ path: String) throws -> String {
        try String(contentsOf: root.appending(path: path), encoding: .utf8)
    }

    /// The files below a folder that end so, by their paths from the root.
    static func files(below folder: String, ending: String) throws -> [String] {
        let names = try FileManager.default.subpathsOfDirectory(
            atPath: root.appending(path: folder).path())
        return names.filter { $0.hasSuffix(ending) }.map { folder + "/" + $0 }.sorted()
    }

    // MARK: Modules

    /// A library or program of the package, with the modules of the package that it names as dependencies.
    private struct Module {
        let name: String
        let folder: String
        let dependencies: Set<String>
    }

    private static func modules() throws -> [Module] {
        let manifest = try text("Package.swift")
        let pieces = manifest.split(separator: /\n {8}\.(?:target|executableTarget|testTarget)\(/)
        return pieces.dropFirst().compactMap { piece in
            guard let name = piece.firstMatch(of: /name: "([\w-]+)"/)?.1 else { return nil }
            let path = piece.firstMatch(of: /path: "([^"]+)"/).map { String($0.1) }
            let named = piece.matches(of: /"(Martlet\w*|EngineBench)"/).map { String($0.1) }
            let parent = name.hasSuffix("Tests") ? "Tests/" : "Sources/"
            return Module(
                name: String(name), folder: path ?? parent + name,
                dependencies: Set(named).subtracting([String(name)]))
        }
    }

    private static func sources() throws -> [Module] {
        try modules().filter { $0.folder.hasPrefix("Sources/") }
    }

    private static func imports(of module: Module) throws -> Set<String> {
        var found: Set<String> = []
        for file in try files(below: module.folder, ending: ".swift") {
            for match in try text(file).matches(
                of:
                    /(?m)^(?:@\w+(?:\(\w+\))? |public |package |internal )*import (Martlet\w*|EngineBench)$/
            ) {
                found.insert(String(match.1))
            }
        }
        return found
    }

    @Test("A module imports what the manifest says, all of it and nothing else")
    func imports() throws {
        let modules = try Self.modules()
        #expect(modules.count > 10)
        for module in modules {
            #expect(
                try Self.imports(of: module) == module.dependencies,
                "\(module.name) imports other modules than Package.swift names")
        }
    }

    @Test(
        "The arrows between modules that the Architecture article draws are those of the manifest")
    func arrows() throws {
        let article = try Self.text("Sources/Martlet/Martlet.docc/Architecture.md")
        let rows = article.matches(
            of: /(?m)^([Mm]artlet[\w-]*) .*?(?:→ (.*)|imports nothing of ours)$/)
        let modules = try Self.sources()
        let names = Set(modules.map(\.name))
        var drawn: [String: Set<String>] = [:]
        for row in rows {
            let arrows = row.2.map { $0.split(separator: ",") } ?? []
            drawn[String(row.1)] = Set(
                arrows.map { arrow in
                    let name = arrow.trimmingCharacters(in: .whitespaces)
                    return names.contains("Martlet" + name) ? "Martlet" + name : name
                }.filter { names.contains($0) })
        }
        for module in modules where module.name != "martlet-sim" {
            #expect(
                drawn[module.name] == module.dependencies,
                "the article draws other arrows of \(module.name) than Package.swift")
        }
    }

    @Test("DEV-6 a client is built without a C module: it runs wherever Swift and SwiftNIO run")
    func clientWithoutEngine() throws {
        let modules = try Self.modules()
        var reached: Set<String> = []
        var next: Set<String> = ["MartletClient", "MartletClientTLS"]
        while let name = next.popFirst() {
            reached.insert(name)
            let module = try #require(modules.first { $0.name == name })
            next.formUnion(module.dependencies.subtracting(reached))
            for file in try Self.files(below: module.folder, ending: ".swift") {
                let shims = try Self.text(file).matches(of: /(?m)^.*\bimport (C[A-Z]\w*)$/)
                    .map { String($0.1) }
                #expect(shims.isEmpty, "\(file) imports \(shims)")
            }
        }
        #expect(
            reached
                == [
                    "MartletClient", "MartletClientTLS", "MartletWire", "MartletBase",
                    "MartletFiles",
                ]
        )
    }

    @Test("OPS-5 PrivateFile alone gives a file new content by renaming: others forgot to sync")
    func renaming() throws {
        // These move whole folders, and sync them.
        let movers = ["Backup/RestoredFolder.swift", "Migration/Migration.swift"]
            .map { "Sources/MartletStore/" + $0 }
        let found = try Self.files(below: "Sources", ending: ".swift").filter {
            try Self.text($0).contains(/\brename\(/)
        }
        #expect(Set(found) == Set(movers + ["Sources/MartletFiles/PrivateFile.swift"]))
    }

    // MARK: Targets

    @Test("make help lists each target that people call: each that no other target needs")
    func targets() throws {
        let makefiles =
            try ["Makefile", "Packaging/package.mk", "Benchmarks/bench.mk"]
            + Self.files(below: "Tests", ending: ".mk")
        let lines = try makefiles.flatMap { file in
            try Self.text(file).split(separator: "\n")
        }
        var targets: Set<Substring> = []
        var needed: Set<Substring> = []
        var helped: Set<Substring> = []
        var isHelp = false
        for line in lines where !line.hasPrefix("\t") {
            guard let rule = line.wholeMatch(of: /([^:=#\s]+):([^=].*)?/) else {
                isHelp = line.hasPrefix("## ") || isHelp && line.hasPrefix("#")
                continue
            }
            if isHelp { helped.insert(rule.1) }
            isHelp = false
            let names = (rule.2 ?? "").split { " |".contains($0) }
            if rule.1 == ".PHONY" {
                targets.formUnion(names.filter { !$0.contains(/[$(),]/) })
            } else if !names.contains(where: { $0.hasSuffix("=") }) {
                needed.formUnion(names)
            }
        }
        #expect(targets.count > 20)
        #expect(helped.isSubset(of: targets))
        #expect(targets.subtracting(needed).subtracting(helped) == [])
    }

    // MARK: Ledgers

    /// The ledgers, each with those that it rests on.
    private static func ledgers() throws -> [String: Set<String>] {
        var ledgers: [String: Set<String>] = [:]
        for file in try files(below: "Sources/MartletEngine/Ledger", ending: ".swift") {
            let source = try text(file)
            guard let name = source.firstMatch(of: /struct (\w+): Ledger\b/)?.1 else {
                #expect(!source.contains("(context)") || file.hasSuffix("/Transaction.swift"))
                continue
            }
            let named = source.matches(of: /\b([A-Z]\w+)\(context\)/).map { String($0.1) }
            ledgers[String(name)] = Set(named)
        }
        return ledgers
    }

    @Test("The arrows between ledgers that the Architecture article draws are those of the sources")
    func ledgerArrows() throws {
        let ledgers = try Self.ledgers()
        let article = try Self.text("Sources/Martlet/Martlet.docc/Architecture.md")
        var drawn: [String: Set<String>] = [:]
        for row in article.matches(of: /(?m)^([A-Z]\w+) +→ (.*)$/)
        where ledgers[String(row.1)] != nil {
            drawn[String(row.1)] = Set(row.2.split(separator: ", ").map(String.init))
        }
        let alone = try #require(article.firstMatch(of: /(?m)^rows alone +← (.*)$/))
        for name in alone.1.split(separator: ", ") { drawn[String(name)] = [] }
        #expect(drawn == ledgers)
    }

    @Test("No ledger rests, over others, on itself")
    func ledgersWithoutCircle() throws {
        let ledgers = try Self.ledgers()
        #expect(ledgers.count > 20)
        #expect(Self.circle(in: ledgers) == [])
    }

    @Test("The arrows between the broker's folders are those that Architecture draws")
    func folderArrows() throws {
        let folders = try Self.folders()
        let article = try Self.text("Sources/Martlet/Martlet.docc/Architecture.md")
        var drawn: [String: Set<String>] = [:]
        for row in article.matches(of: /(?m)^([A-Z]\w+) +→ (.*)$/)
        where folders[String(row.1)] != nil {
            drawn[String(row.1)] = Set(row.2.split(separator: ", ").map(String.init))
        }
        let alone = try #require(article.firstMatch(of: /(?m)^alone +← (.*)$/))
        for name in alone.1.split(separator: ", ") { drawn[String(name)] = [] }
        #expect(drawn == folders)
        #expect(Self.circle(in: folders) == [])
    }

    /// The names that rest, over others, on themselves.
    private static func circle(in arrows: [String: Set<String>]) -> [String] {
        var left = arrows
        while true {
            let free = left.filter { $0.value.isDisjoint(with: left.keys) }
            guard !free.isEmpty else { return left.keys.sorted() }
            for name in free.keys { left[name] = nil }
        }
    }

    /// The folders of the broker, each with those whose types it names.
    private static func folders() throws -> [String: Set<String>] {
        let files = try files(below: "Sources/Martlet", ending: ".swift").map { file in
            (folder: String(file.split(separator: "/")[2]), text: try text(file))
        }
        var owners: [String: String] = [:]
        for file in files {
            let declared = file.text.matches(
                of: /(?m)^(?:(?:package|public|final) )*(?:class|struct|enum|protocol) (\w+)/)
            for match in declared { owners[String(match.1)] = file.folder }
        }
        var folders: [String: Set<String>] = [:]
        for file in files {
            let named = file.text.replacing(/\/\/.*/, with: "").matches(of: /\b[A-Z]\w+/)
            let others = Set(named.compactMap { owners[String($0.0)] }).subtracting([file.folder])
            folders[file.folder, default: []].formUnion(others)
        }
        return folders
    }

    // MARK: Names

    @Test("Files, types and functions that articles name exist")
    func names() throws {
        let sources = try Self.files(below: "Sources", ending: ".swift")
        let tests = try Self.files(below: "Tests", ending: ".swift")
        let all = try (sources + tests).map { try Self.text($0) }.joined(separator: "\n")
        var declared: Set<String> = []
        for match in all.matches(
            of: /\b(?:struct|class|enum|protocol|actor|typealias|func|var|let|case) (\w+)/)
        {
            declared.insert(String(match.1))
        }
        for match in all.matches(of: /(?m)^ *case ([\w, ]+)$/) {
            for name in match.1.split(separator: ",") {
                declared.insert(name.trimmingCharacters(in: .whitespaces))
            }
        }
        let modules = Set(
            (sources + tests).map { String($0.split(separator: "/")[1]) })
        // These two name types of other people's libraries.
        let foreign = ["/AdminSDK.md", "/Gateway.md"]
        for article in try Self.files(below: "Sources/Martlet/Martlet.docc", ending: ".md")
        where !foreign.contains(where: article.hasSuffix) {
            let prose = try Self.text(article).replacing(/(?ms)^```.*?^```$/, with: "")
            for match in prose.matches(of: /`([^`\n]+)`/) {
                let name = String(match.1)
                if name.hasSuffix(".h") || name == "Package.swift" {
                    continue
                } else if name.hasSuffix(".swift") {
                    let isThere = (sources + tests).contains {
                        $0.hasSuffix("/" + name)
                    }
                    #expect(isThere, "\(article) names the file \(name)")
                } else if let type = name.wholeMatch(of: /([A-Z][a-z]\w+)(?:\.(\w+)(?:\(.*\))?)?/) {
                    let isKnown = declared.contains(String(type.1)) || modules.contains(name)
                    let hasMember = type.2.map { declared.contains(String($0)) || $0 == "init" }
                    #expect(isKnown && hasMember ?? true, "\(article) names \(name)")
                } else if article.hasSuffix("/Architecture.md"),
                    let member = name.wholeMatch(of: /([a-z]\w*[A-Z]\w*|[a-z]\w+(?=\(\)))(?:\(\))?/)
                {
                    #expect(declared.contains(String(member.1)), "\(article) names \(name)")
                }
            }
        }
    }

    @Test(
        "Files, folders, targets and links that CONTRIBUTING and SECURITY name exist",
        arguments: ["CONTRIBUTING.md", "SECURITY.md"])
    func places(page: String) throws {
        let text = try Self.text(page)
        let swift = try
            (Self.files(below: "Sources", ending: ".swift")
            + Self.files(below: "Tests", ending: ".swift")).map { "/" + $0 }
        var count = 0
        for match in text.matches(of: /`((?:Sources|Tests)\/[^`]*)`|\]\(([^)]*)\)/) {
            let path = String(match.1 ?? match.2!)
            count += 1
            #expect(
                FileManager.default.fileExists(atPath: Self.root.appending(path: path).path()),
                "\(page) names \(path)")
        }
        for match in text.matches(of: /`(\w+\.swift)`/) {
            #expect(swift.contains { $0.hasSuffix("/" + match.1) }, "\(page) names \(match.1)")
        }
        let makefiles = try ["Makefile", "Benchmarks/bench.mk", "Tests/Sanitizers/sanitize.mk"]
            .map { try "\n" + Self.text($0) }.joined()
        for match in text.matches(of: /`make ([a-z-]+)/) {
            #expect(makefiles.contains("\n\(match.1):"), "\(page) names make \(match.1)")
        }
        #expect(count > 0)
    }

    // MARK: Numbers

    /// The values of the integer literals of a source, products and shifts worked out. Bytes are scanned, because
    /// a regular expression over all sources takes a minute.
    private static func integers(of source: String) -> Set<Int> {
        var found: Set<Int> = []
        for line in source.utf8.split(separator: UInt8(ascii: "\n")) {
            found.formUnion(integers(ofLine: Array(line)))
        }
        return found
    }

    private static func integers(ofLine line: [UInt8]) -> Set<Int> {
        var found: Set<Int> = []
        var value: Int?
        var operation: UInt8?
        var index = 0
        while index < line.count {
            let byte = line[index]
            let next = index + 1 < line.count ? line[index + 1] : 0
            if byte == UInt8(ascii: "/"), next == byte { break }
            if isDigit(byte) {
                var number = 0
                while index < line.count, isWordByte(line[index]) {
                    if isDigit(line[index]) {
                        number = number &* 10 &+ Int(line[index] - UInt8(ascii: "0"))
                    }
                    index += 1
                }
                switch (value, operation) {
                case (let before?, UInt8(ascii: "<")): value = before << number
                case (let before?, UInt8(ascii: "*")): value = before &* number
                default:
                    if let value { found.insert(value) }
                    value = number
                }
                operation = nil
                continue
            }
            if byte == UInt8(ascii: "*") || byte == UInt8(ascii: "<") && next == byte {
                operation = byte
                index += byte == next ? 2 : 1
                continue
            }
            if byte != UInt8(ascii: " ") {
                if let value { found.insert(value) }
                (value, operation) = (nil, nil)
                // A name with a digit in it is not a number.
                while index + 1 < line.count, isWordByte(byte), isWordByte(line[index + 1]) {
                    index += 1
                }
            }
            index += 1
        }
        if let value { found.insert(value) }
        return found
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
    }

    private static func isWordByte(_ byte: UInt8) -> Bool {
        isDigit(byte) || byte == UInt8(ascii: "_")
            || UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte | 0x20
    }

    /// The types that a source declares.
    private static func types(of source: String) -> Set<Substring> {
        let words = source.split { !($0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_")) }
        return Set(
            zip(words, words.dropFirst())
                .filter { ["struct", "enum", "class"].contains($0.0) }.map(\.1))
    }

    /// The numbers of a text with their units, each with the values that a constant for it may have.
    private static func numbers(in text: String) -> [(text: Substring, values: [Int])] {
        text.matches(of: /(\d[\d,]*\d|\d)(?: (KiB|MiB|ms|µs|days))?/).map { match in
            let number = Int(match.1.replacing(",", with: ""))!
            let values =
                switch match.2 {
                case "KiB": [number << 10]
                case "MiB": [number << 20, number]
                case "ms": [number, number * 1000, number * 1_000_000]
                case "µs": [number, number * 1000]
                case "days": [number, number * 86_400]
                default: [number]
                }
            return (match.0, values)
        }
    }

    @Test("The numbers in the prose of the Architecture article are constants of the sources")
    func proseNumbers() throws {
        let article = try Self.text("Sources/Martlet/Martlet.docc/Architecture.md")
        let prose = try #require(article.split(separator: "## Bounds").first)
            .replacing(/(?ms)^```.*?^```$/, with: "").replacing(/`[^`\n]*`/, with: "")
        let constants = try Self.files(below: "Sources", ending: ".swift")
            .reduce(into: Set<Int>()) { $0.formUnion(Self.integers(of: try Self.text($1))) }
        let numbers = Self.numbers(in: String(prose)).filter { $0.values.max()! >= 50 }
        #expect(numbers.count > 30)
        for number in numbers {
            #expect(!constants.isDisjoint(with: number.values), "\(number.text)")
        }
    }

    @Test("The bounds of the Architecture article are constants of the files that it names")
    func bounds() throws {
        let article = try Self.text("Sources/Martlet/Martlet.docc/Architecture.md")
        let table = try #require(article.split(separator: "## Bounds").last)
        let sources = try Self.files(below: "Sources", ending: ".swift")
        let limits = try sources.filter { $0.contains("Limits") }
            .reduce(into: Set<Int>()) { $0.formUnion(Self.integers(of: try Self.text($1))) }
        let declaring = try sources.map { (file: $0, types: Self.types(of: try Self.text($0))) }
        var rowCount = 0
        for row in table.split(separator: "\n") {
            let cells = row.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            guard cells.count == 4, let name = cells[3].wholeMatch(of: /`([\w+]+)`/)?.1 else {
                continue
            }
            rowCount += 1
            let named = declaring.filter {
                $0.file.contains("/\(name).swift") || $0.file.contains("/\(name)+")
                    || $0.types.contains(name[...])
            }.map(\.file)
            #expect(!named.isEmpty, "\(cells[0])")
            let known = try named.reduce(into: limits) {
                $0.formUnion(Self.integers(of: try Self.text($1)))
            }
            for number in Self.numbers(in: cells[1]) {
                #expect(
                    !known.isDisjoint(with: number.values),
                    "\(cells[0]): \(number.text) in \(name)")
            }
        }
        #expect(rowCount > 30)
    }
}
