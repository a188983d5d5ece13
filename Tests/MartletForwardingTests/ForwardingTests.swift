// SPDX-License-Identifier: Apache-2.0
//
// Commands and outcomes as bytes between nodes (OPS-7). What is read equals what was written, by reflection over every stored
// property; bytes that no writer makes are refused, and none of them makes the reader trap.

import EngineBench
import MartletBase
import MartletCluster
import MartletEngine
import MartletRows
import Testing

@Suite("Forwarding")
struct ForwardingTests {
    private static let seeds: [UInt64] = Array(1...60)

    @Test(
        "OPS-7 a command that was forwarded has every value of the original",
        arguments: CommandKind.allCases)
    func commands(kind: CommandKind) throws {
        var seen: Set<String> = []
        for seed in Self.seeds {
            var random = RandomCommands(seed: seed)
            let command = random.command(kind)
            let bytes = try command.forwarded()
            #expect(bytes[0] == ForwardingFormat.current)
            #expect(bytes[1] == kind.rawValue)
            let text = everything(in: command)
            #expect(everything(in: try Command(forwarded: bytes)) == text)
            seen.insert(text)
        }
        // The comparison tells commands apart.
        #expect(kind == .touch ? seen.count == 1 : seen.count > 20)
    }

    @Test(
        "OPS-7 an outcome that was forwarded has every value of the original",
        arguments: OutcomeKind.allCases)
    func outcomes(kind: OutcomeKind) throws {
        var seen: Set<String> = []
        for seed in Self.seeds {
            var random = RandomCommands(seed: seed)
            let outcome = try random.outcome(kind)
            let bytes = try outcome.forwarded()
            #expect(bytes[0] == ForwardingFormat.current)
            #expect(bytes[1] == kind.rawValue)
            let text = everything(in: outcome)
            #expect(everything(in: try Outcome(forwarded: bytes)) == text)
            seen.insert(text)
        }
        #expect(kind == .done ? seen.count == 1 : seen.count > 20)
    }

    @Test("OPS-7 the work of an outcome for loops stays at home, and the answer travels")
    func workStays() throws {
        var random = RandomCommands(seed: 7)
        let header = MessageHeader(
            sequence: MessageSequence(3), number: 3, accepted: random.instant(),
            expires: random.instant(), kind: .token, priority: .high, from: "1")
        let fanout = Fanout(
            project: ProjectNumber(1), header: header, body: [1, 2, 3],
            recipients: .one(Ordinal(4)), position: MessageSequence(3))
        let acceptance = random.acceptance()
        let accepted = try Outcome(
            forwarded: try Outcome.accepted(acceptance, fanouts: [fanout]).forwarded())
        guard case .accepted(acceptance, let fanouts) = accepted else {
            Issue.record("another outcome")
            return
        }
        #expect(fanouts.isEmpty)

        let passing = UpstreamMessage(
            number: 9, token: random.token(), appName: "app", messageID: "m",
            accepted: random.instant(), expires: random.instant(), body: [4])
        var upstream = UpstreamAcceptance(
            project: ProjectNumber(1), number: 9, isForSenders: true, passing: passing)
        let answered = try Outcome(
            forwarded: try Outcome.upstreamAccepted(upstream, fanouts: [fanout]).forwarded())
        upstream.passing = nil
        guard case .upstreamAccepted(upstream, let others) = answered else {
            Issue.record("another outcome")
            return
        }
        #expect(others.isEmpty)
    }

    @Test("OPS-7 a cut command or outcome is refused at every length")
    func cuts() throws {
        for kind in CommandKind.allCases {
            for seed in Self.seeds.prefix(5) {
                var random = RandomCommands(seed: seed)
                let bytes = try random.command(kind).forwarded()
                for count in bytes.indices {
                    #expect(throws: ForwardingError.self, "\(kind) cut to \(count) bytes") {
                        try Command(forwarded: Array(bytes[..<count]))
                    }
                }
                #expect(throws: ForwardingError.trailing(byteCount: 1)) {
                    try Command(forwarded: bytes + [0])
                }
            }
        }
        for kind in OutcomeKind.allCases {
            for seed in Self.seeds.prefix(5) {
                var random = RandomCommands(seed: seed)
                let bytes = try random.outcome(kind).forwarded()
                for count in bytes.indices {
                    #expect(throws: ForwardingError.self, "\(kind) cut to \(count) bytes") {
                        try Outcome(forwarded: Array(bytes[..<count]))
                    }
                }
                #expect(throws: ForwardingError.trailing(byteCount: 1)) {
                    try Outcome(forwarded: bytes + [0])
                }
            }
        }
    }

    /// Reads bytes that may be bad, and checks that accepted bytes are those that the writer makes of the value.
    private static func read(
        _ bytes: [UInt8], _ again: ([UInt8]) throws(ForwardingError) -> [UInt8]
    ) -> Bool {
        do throws(ForwardingError) {
            let made = try again(bytes)
            #expect(made == bytes, "a second form of a value was accepted")
            return true
        } catch {
            #expect(!error.description.isEmpty)
            return false
        }
    }

    @Test("OPS-7 a flipped bit is refused or says another value, and never traps")
    func flips() throws {
        var accepted = 0
        var refused = 0
        func count(_ isAccepted: Bool) {
            if isAccepted { accepted += 1 } else { refused += 1 }
        }
        for kind in CommandKind.allCases {
            for seed in Self.seeds.prefix(3) {
                var random = RandomCommands(seed: seed)
                var bytes = try random.command(kind).forwarded()
                for bit in 0..<min(bytes.count * 8, 4000) {
                    bytes[bit / 8] ^= 1 << (bit % 8)
                    count(
                        Self.read(bytes) { (bytes) throws(ForwardingError) in
                            try Command(forwarded: bytes).forwarded()
                        })
                    bytes[bit / 8] ^= 1 << (bit % 8)
                }
            }
        }
        for kind in OutcomeKind.allCases {
            for seed in Self.seeds.prefix(3) {
                var random = RandomCommands(seed: seed)
                var bytes = try random.outcome(kind).forwarded()
                for bit in 0..<min(bytes.count * 8, 4000) {
                    bytes[bit / 8] ^= 1 << (bit % 8)
                    count(
                        Self.read(bytes) { (bytes) throws(ForwardingError) in
                            try Outcome(forwarded: bytes).forwarded()
                        })
                    bytes[bit / 8] ^= 1 << (bit % 8)
                }
            }
        }
        #expect(accepted > 1000 && refused > 1000)
    }

    @Test("OPS-7 random bytes behind a known format and kind never trap")
    func noise() {
        var random = RandomCommands(seed: 99)
        for kind in CommandKind.allCases {
            for _ in 0..<300 {
                let bytes = [ForwardingFormat.current, kind.rawValue] + random.bytes()
                _ = Self.read(bytes) { (bytes) throws(ForwardingError) in
                    try Command(forwarded: bytes).forwarded()
                }
            }
        }
        for kind in OutcomeKind.allCases {
            for _ in 0..<300 {
                let bytes = [ForwardingFormat.current, kind.rawValue] + random.bytes()
                _ = Self.read(bytes) { (bytes) throws(ForwardingError) in
                    try Outcome(forwarded: bytes).forwarded()
                }
            }
        }
    }

    @Test("OPS-7 an unknown format, kind or choice is refused by its number")
    func unknown() {
        for format in [0, ForwardingFormat.current + 1, 255] as [UInt8] {
            #expect(throws: ForwardingError.format(format)) {
                try Command(forwarded: [format, CommandKind.touch.rawValue])
            }
            #expect(throws: ForwardingError.format(format)) {
                try Outcome(forwarded: [format, OutcomeKind.done.rawValue])
            }
        }
        #expect(throws: ForwardingError.unknown(field: "CommandKind", number: 27)) {
            try Command(forwarded: [1, 27])
        }
        #expect(throws: ForwardingError.unknown(field: "OutcomeKind", number: 0)) {
            try Outcome(forwarded: [1, 0])
        }
        #expect(throws: ForwardingError.truncated(offset: 0)) { try Command(forwarded: []) }
    }

    @Test("OPS-7 a value has one form: longer numbers, other flags and doubled marks are refused")
    func forms() {
        let refused: [(bytes: [UInt8], error: ForwardingError)] = [
            // Project 5 in two bytes.
            ([1, 19, 0x85, 0x00, 0x01], .malformed(field: "number", offset: 2)),
            // A number of 65 bits.
            (
                [1, 19, 5] + [UInt8](repeating: 0xFF, count: 9) + [2],
                .malformed(field: "number", offset: 3)
            ),
            // A project above 32 bits.
            (
                [1, 19, 0x80, 0x80, 0x80, 0x80, 0x10, 1],
                .malformed(field: "number", offset: 2)
            ),
            // A flag of 2.
            ([1, 9, 0, 0, 2], .malformed(field: "flag", offset: 4)),
            // Equal marks, written as four.
            ([1, 16, 1, 0, 0, 0, 0, 7, 7, 7, 7, 0, 0], .malformed(field: "marks", offset: 6)),
            // A flag of acknowledgements without a meaning.
            (
                [1, 16, 1, 0x20, 0, 0, 1, 7, 0, 0],
                .malformed(field: "acknowledgement flags", offset: 3)
            ),
            // A text that is not UTF-8.
            ([1, 10, 0, 2, 0xC3, 0x28], .notUTF8(offset: 3)),
            // More entries than bytes.
            ([1, 23, 0, 0xFF, 0xFF, 0x03, 1], .truncated(offset: 3)),
        ]
        for (bytes, error) in refused {
            #expect(throws: error) { try Command(forwarded: bytes) }
        }
    }

    @Test("OPS-7 longer lists, texts and targets than the bounds are refused on both ends")
    func bounds() throws {
        let numbers = [UInt64](repeating: 1, count: ForwardingFormat.listEntriesMax)
        let longest = Command.takeUpstream(project: ProjectNumber(0), numbers: numbers)
        _ = try Command(forwarded: try longest.forwarded())
        let longer = Command.takeUpstream(project: ProjectNumber(0), numbers: numbers + [1])
        let error = ForwardingError.tooLong(
            field: "a list", count: numbers.count + 1, max: numbers.count)
        #expect(throws: error) { try longer.forwarded() }
        // The count of the list stands in three bytes behind the project.
        var bytes = try longest.forwarded() + [1]
        #expect(Array(bytes[3...5]) == [0x80, 0x80, 0x10])
        bytes[3] = 0x81
        #expect(throws: error) { try Command(forwarded: bytes) }

        let text = String(repeating: "x", count: ForwardingFormat.bytesMax)
        let command = Command.unregisterToken(project: ProjectNumber(0), token: text)
        #expect(
            throws: ForwardingError.tooLong(
                field: "the command", count: text.utf8.count + 7, max: text.utf8.count)
        ) { try command.forwarded() }
        #expect(
            throws: ForwardingError.tooLong(
                field: "the outcome", count: text.utf8.count + 1, max: text.utf8.count)
        ) { try Outcome(forwarded: [UInt8](repeating: 1, count: text.utf8.count + 1)) }

        var target = SendCommand.Target.topic("t")
        for _ in 0..<ForwardingFormat.nestingMax { target = .several([target]) }
        let nested = Command.send(
            project: ProjectNumber(0), message: SendCommand(target: target, body: []))
        _ = try Command(forwarded: try nested.forwarded())
        let deeper = Command.send(
            project: ProjectNumber(0), message: SendCommand(target: .several([target]), body: []))
        let deep = ForwardingError.tooLong(
            field: "a nesting", count: ForwardingFormat.nestingMax + 1,
            max: ForwardingFormat.nestingMax)
        #expect(throws: deep) { try deeper.forwarded() }
        let lists = [UInt8](repeating: 1, count: 2 * 100_000).enumerated().map {
            $0.offset % 2 == 0 ? TargetKind.several.rawValue : $0.element
        }
        #expect(throws: deep) { try Command(forwarded: [1, 15, 0, 0] + lists) }
    }

    @Test("OPS-7 a limit of a project out of its bounds is refused, not trapped")
    func limits() throws {
        var random = RandomCommands(seed: 3)
        var project = random.projectRecord()
        project.id = ""
        project.number = ProjectNumber(0)
        project.senderID = 0
        project.limits = ProjectLimits()
        var bytes = try Outcome.project(project).forwarded()
        // The first limit stands behind format, kind, number, ID and sender ID.
        #expect(bytes[5] == 0)
        bytes.replaceSubrange(5...5, with: [1, 0])
        #expect(
            throws: ForwardingError.malformed(field: "topics-per-instance-max", offset: 5)
        ) { try Outcome(forwarded: bytes) }
    }

    @Test("OPS-7 an acknowledgement of a lone device takes few bytes")
    func compactness() throws {
        let one = Acknowledgement(
            project: ProjectNumber(3), ordinal: Ordinal(90_000), holder: Holder(digestStart: 1),
            through: LaneMarks(MessageSequence(1_000_000)))
        #expect(try Command.acknowledge([one]).forwarded().count == 2 + 1 + 18 + 1)
    }
}
