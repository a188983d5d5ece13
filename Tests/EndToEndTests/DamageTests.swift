// SPDX-License-Identifier: Apache-2.0
//
// A data file that was cut off or torn, as users of the `martlet` executable meet it: a sentence and an
// exit code, never a signal. The store is a real one, with instances, topics and messages. Rests on
// Desk and on the embedded broker.

import Foundation
import Martlet
import Testing

@Suite("Damaged data files", .timeLimit(.minutes(5)))
struct DamageTests {
    private static let pageBytes = 4096

    /// A folder's data file with something of everything in it. Made once for all tests.
    private static let made = Task { try await make() }

    private static func store() async throws -> Data { try await made.value }

    private static func make() async throws -> Data {
        let desk = try Desk()
        defer { desk.remove() }
        let configuration = BrokerConfiguration(folder: desk.folder.path + "/made", address: nil)
        let broker = try await Broker.open(configuration)
        _ = try await broker.createProject("tides")
        // Many at a time, so that they are few transactions: what those replace would be most of the file.
        let tokens = try await together(0..<600) { index in
            let app = index % 7 == 0 ? "com.example.other" : "com.example.tides"
            return try await broker.register(app: app, platform: .android, in: "tides").token
        }
        for topic in 0..<20 {
            _ = try await broker.subscribe(
                Array(tokens.dropFirst(topic * 10).prefix(120)), to: "topic-\(topic)", in: "tides")
        }
        for topic in 0..<20 {
            _ = try await broker.send(
                OutgoingMessage(
                    to: .topic("topic-\(topic)"),
                    Message(data: ["n": String(repeating: "x", count: 100 * topic)])),
                in: "tides")
        }
        let body = String(repeating: "y", count: 3500)
        _ = try await together(tokens.prefix(400)) { token in
            try await broker.send(
                OutgoingMessage(to: .token(token), Message(data: ["n": body])), in: "tides")
        }
        _ = try await together(tokens.suffix(50)) { token in
            try await broker.unregister(token, in: "tides")
        }
        try await broker.close()
        return try Data(contentsOf: URL(filePath: desk.folder.path + "/made/data.mdb"))
    }

    private static func together<Element: Sendable, Result: Sendable>(
        _ all: some Collection<Element>,
        _ body: @escaping @Sendable (Element) async throws -> Result
    ) async throws -> [Result] {
        try await withThrowingTaskGroup(of: Result.self) { group in
            for one in all { group.addTask { try await body(one) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
    }

    /// What `check` says of a data file.
    private func check(_ data: Data, _ more: String...) throws -> (Desk.Output, signal: Bool) {
        let desk = try Desk()
        defer { desk.remove() }
        let folder = desk.folder.appending(path: "martlet-data")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try data.write(to: folder.appending(path: "data.mdb"))
        let process = try desk.start(["check"] + more)
        let output = desk.finish(process)
        let left = try Data(contentsOf: folder.appending(path: "data.mdb"))
        #expect(left == data, "A check writes nothing.")
        return (output, process.terminationReason == .uncaughtSignal)
    }

    private static let sentence = "Keep a copy of the folder"

    @Test("OPS-3 a whole store is found whole, and a check does not write")
    func whole() async throws {
        let data = try await Self.store()
        let (output, isSignal) = try check(data)
        #expect(!isSignal && output.status == 0, "\(output)")
        #expect(output.out.hasSuffix("Everything agrees.\n"))
        // Bytes behind the last page are no part of it.
        let (longer, _) = try check(data + Data(repeating: 7, count: 5000))
        #expect(longer.status == 0, "\(longer)")
    }

    @Test("OPS-3 a check of a file that was cut off ends with a sentence, however much is left")
    func cutOff() async throws {
        let data = try await Self.store()
        let pages = data.count / Self.pageBytes
        var sizes = [0, 1, 100, 4095, 4096, 8191, 8192, 8193, data.count - 1]
        sizes += (1...8).map { $0 * pages / 9 * Self.pageBytes }
        sizes += [pages - 1, pages - 2].map { $0 * Self.pageBytes }
        for size in sizes {
            let (output, isSignal) = try check(data.prefix(size))
            #expect(!isSignal, "\(size) of \(data.count) bytes: \(output)")
            // The last pages may be free: then nothing is lacking, and the check has read everything.
            if size > data.count - 3 * Self.pageBytes, output.status == 0 { continue }
            #expect(output.status == 1, "\(size) of \(data.count) bytes: \(output)")
            #expect(
                output.err.contains("is damaged: ") && output.err.contains(Self.sentence),
                "\(size) of \(data.count) bytes: \(output)")
        }
        let (json, _) = try check(data.prefix(data.count / 2), "--json")
        struct Failure: Decodable {
            struct Body: Decodable { var message: String }
            var error: Body
        }
        let failure = try JSONDecoder().decode(Failure.self, from: Data(json.err.utf8))
        #expect(failure.error.message.contains("it was cut off"))
    }

    /// The page from which all tables are reached: by chance, all other damaged pages may be free.
    private static func rootPage(_ data: Data) -> Int {
        func word(_ page: Int, _ offset: Int) -> UInt64 {
            data.withUnsafeBytes {
                $0.loadUnaligned(fromByteOffset: page * pageBytes + offset, as: UInt64.self)
            }
        }
        // Offsets in a meta page of LMDB's format 1: the root of the main tree, and the transaction of the page.
        let (root, transaction) = (128, 144)
        return Int(word(word(0, transaction) > word(1, transaction) ? 0 : 1, root))
    }

    @Test("OPS-3 a check of a file with a torn page ends with a sentence", arguments: 0..<4)
    func torn(part: Int) async throws {
        let data = try await Self.store()
        var random = DamageRandom(state: UInt64(4711 + part))
        let pages = data.count / Self.pageBytes
        var found = 0
        for place in 0..<16 {
            var torn = data
            let page =
                switch place {
                case 0: part
                case 1: Self.rootPage(data)
                default: Int(random.next() % UInt64(pages))
                }
            let start = page * Self.pageBytes
            switch place % 4 {
            case 0: torn.replaceSubrange(start..<(start + 4096), with: Data(count: 4096))
            case 1: torn.replaceSubrange((start + 2048)..<(start + 4096), with: Data(count: 2048))
            case 2:
                // The page is another one, as after a write that went astray.
                let other = Int(random.next() % UInt64(pages)) * Self.pageBytes
                torn.replaceSubrange(
                    start..<(start + 4096), with: data[other..<(other + Self.pageBytes)])
            default:
                for byte in start..<(start + 4096) {
                    torn[byte] = UInt8(truncatingIfNeeded: random.next())
                }
            }
            let (output, isSignal) = try check(torn)
            let what = "part \(part), place \(place), page \(page) of \(pages)"
            #expect(!isSignal, "\(what): \(output)")
            // A page that nothing needs may say anything.
            #expect(output.status == 0 || output.status == 1, "\(what): \(output)")
            if output.status == 1 {
                found += 1
                #expect((output.out + output.err).contains(Self.sentence), "\(what): \(output)")
            }
        }
        #expect(found > 0, "No damage was found.")
    }

    @Test("OPS-3 OPS-5 a broker and commands refuse a file that was cut off, and say what to do")
    func refused() async throws {
        let data = try await Self.store()
        for size in [8192, data.count / 4 / 4096 * 4096, data.count / 2] {
            let desk = try Desk()
            defer { desk.remove() }
            let folder = desk.folder.appending(path: "martlet-data")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            try data.prefix(size).write(to: folder.appending(path: "data.mdb"))
            for arguments in [["serve", "--port", "0"], ["topics", "--project", "tides"]] {
                let process = try desk.start(arguments)
                let output = desk.finish(process)
                #expect(
                    process.terminationReason == .exit, "\(arguments), \(size) bytes: \(output)")
                #expect(output.status == 1, "\(arguments), \(size) bytes: \(output)")
                #expect(output.err.contains(Self.sentence), "\(arguments), \(size): \(output)")
            }
        }
    }
}

/// SplitMix64: the same places in each run.
private struct DamageRandom {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
