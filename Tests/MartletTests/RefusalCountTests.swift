// SPDX-License-Identifier: Apache-2.0
//
// Refusals are counted by project and cause, wherever they are made (OPS-10). Rests on Support and KeptLog.

import Glibc
import Logging
import Martlet
import MartletBase
import MartletEngine
import MartletRows
import MartletThreads
import MartletWire
import Testing

@Suite("Counted refusals", .timeLimit(.minutes(2)))
struct RefusalCountTests {
    private func counts(_ test: TestBroker) -> Set<String> {
        Set(
            test.broker.metricsText.split(separator: "\n").filter {
                $0.hasPrefix("martlet_refusals_total{") && !$0.hasSuffix(" 0")
                    || $0.hasPrefix("martlet_project_refusals_total{")
            }.map { String($0) })
    }

    private func refusal<Result>(_ body: () throws -> Result) -> ErrorWord? {
        do {
            _ = try body()
            return nil
        } catch { return (error as? MartletError)?.word }
    }

    /// What refuses a request.
    enum Place: CaseIterable {
        case live, stored, embeddedLive, embeddedStored, form, question, hello
    }

    @Test(
        "OPS-10: a refusal is counted once, by project and cause, whoever makes it",
        arguments: Place.allCases)
    func counted(_ place: Place) async throws {
        let test = try await TestBroker.open(loops: 1)
        let sender = try test.sender()
        let count = 3
        for _ in 0..<count {
            switch place {
            // TTL-2: a loop refuses by itself.
            case .live:
                #expect(
                    refusal { try sender.send(to: .topic("no one"), timeToLiveSeconds: 0) }
                        == .invalidArgument)
            case .stored:
                #expect(refusal { try sender.send(to: .topic("no one")) } == .invalidArgument)
            case .embeddedLive, .embeddedStored:
                var message = OutgoingMessage(to: .topic("no one"), Message())
                message.timeToLiveSeconds = place == .embeddedLive ? 0 : nil
                await #expect(throws: MartletError.self) {
                    try await test.broker.send(message, in: TestBroker.project)
                }
            case .form:
                let wrong = OutgoingMessage(to: .topic("t"), Message(), notReceived: "x")
                await #expect(throws: MartletError.self) {
                    try await test.broker.send(wrong, in: TestBroker.project)
                }
            case .question:
                #expect(throws: MartletError.self) {
                    try test.broker.report(of: "77", in: TestBroker.project)
                }
            case .hello:
                let peer = try test.peer()
                try peer.send(.hello(.sender(projectID: TestBroker.project, serverKey: "wrong")))
                #expect(try peer.error().word == .unauthenticated)
            }
        }
        let expected: Set<String> =
            switch place {
            // Anybody may name a project with a wrong credential.
            case .hello: [#"martlet_refusals_total{cause="UNAUTHENTICATED"} 3"#]
            case .question:
                [
                    #"martlet_refusals_total{cause="NOT_FOUND"} 3"#,
                    #"martlet_project_refusals_total{project="tides",cause="NOT_FOUND"} 3"#,
                ]
            default:
                [
                    #"martlet_refusals_total{cause="INVALID_ARGUMENT"} 3"#,
                    #"martlet_project_refusals_total{project="tides",cause="INVALID_ARGUMENT"} 3"#,
                ]
            }
        #expect(counts(test) == expected)
        try await test.broker.close()
    }

    @Test(
        "OPS-10: the log tells refusals with projects and causes once a minute, the first at once")
    func summary() async throws {
        let log = KeptLog()
        let test = try await TestBroker.open(loops: 1) { $0.logger = log.logger(.notice) }
        let sender = try test.sender()
        func refuse() {
            #expect(
                refusal { try sender.send(to: .topic("no one"), timeToLiveSeconds: 0) }
                    == .invalidArgument)
        }
        refuse()
        for _ in 0..<10_000 where !log.has("requests were refused") { Glibc.usleep(1000) }
        #expect(log.has("requests were refused", "count=1", "most=1 INVALID_ARGUMENT in tides"))
        for _ in 0..<100 { refuse() }
        Glibc.usleep(1_500_000)
        #expect(log.all.count { $0.contains("requests were refused") } == 1)
        try await test.broker.close()
    }

    @Test(
        "OPS-10: a line of the log has what was refused since the line before, the most frequent first"
    )
    func lines() throws {
        let book = RefusalBook()
        let (minute, start): (UInt64, UInt64) = (60_000_000_000, 5)
        #expect(book.takeLine(at: start) == nil)
        book.count(.notFound, in: ProjectNumber(1))
        let first = try #require(book.takeLine(at: start))
        #expect(first.count == 1)
        for _ in 0..<5 { book.count(.resourceExhausted, in: ProjectNumber(2)) }
        book.count(.notFound, in: ProjectNumber(1))
        book.count(.unauthenticated, in: nil)
        #expect(book.takeLine(at: start + minute - 1) == nil)
        let second = try #require(book.takeLine(at: start + minute))
        #expect(second.count == 7)
        #expect(second.entries.first?.owner == .project(ProjectNumber(2)))
        #expect(second.entries.first?.count == 5)
        #expect(book.takeLine(at: start + 3 * minute) == nil)
    }

    @Test("OPS-10: the projects that are told apart are bounded, and further ones count together")
    func bounded() {
        let book = RefusalBook()
        for number in 0..<UInt32(RefusalBook.projectsMax + 10) {
            book.count(.notFound, in: ProjectNumber(number))
            book.count(.notFound, in: ProjectNumber(0))
        }
        let counts = book.counts(others: "(others)") { numbers in
            Dictionary(uniqueKeysWithValues: numbers.map { ($0, "p\($0.rawValue)") })
        }
        #expect(counts.count == RefusalBook.projectsMax + 1)
        #expect(counts.first { $0.project == "(others)" }?.count == 10)
        #expect(counts.reduce(0) { $0 + $1.count } == 2 * UInt64(RefusalBook.projectsMax + 10))
    }
}
