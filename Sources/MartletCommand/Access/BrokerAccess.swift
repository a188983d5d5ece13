// SPDX-License-Identifier: Apache-2.0
//
// The requests of commands, independent of the answering side: a broker over the wire, or a data folder opened in
// this process. Rests on the answers.

import FoundationEssentials
import Martlet
import MartletGateway

/// Administration of projects and keys.
protocol AdministratorAccess: Sendable {
    func createProject(_ id: String, conditionTopicsMax: Int) async throws -> NewProjectAnswer
    /// Changes a project's settings; nil keeps a setting.
    func changeProject(
        _ id: String, weight: Int?, overload: OverloadPolicy?, conditionTopicsMax: Int?
    ) async throws -> ProjectAnswer
    func projects(after: String) async throws -> AnswerPage<ProjectAnswer>
    /// FAN-8: lists the fanouts of a project, or with nil the fanouts of all projects.
    func fanouts(of project: String?, after: String) async throws -> AnswerPage<FanoutAnswer>
    func createKey(name: String, in project: String) async throws -> NewKeyAnswer
    func keys(in project: String) async throws -> [KeyAnswer]
    func revokeKey(_ id: String, in project: String) async throws
    func createServiceAccount(_ file: ServiceAccountFile, named name: String) async throws
    func serviceAccounts(in project: String) async throws -> [ServiceAccountAnswer]
    func revokeServiceAccount(_ id: String, in project: String) async throws
    func close() async throws
}

/// Requests of one project's sender.
protocol SenderAccess: Sendable {
    func send(_ message: OutgoingMessage) async throws -> SendAnswer
    func cancel(_ messageID: String) async throws -> CancelAnswer
    func report(of messageID: String) async throws -> DeliveryReport
    func reports(days: ClosedRange<Day>, after: String) async throws -> AnswerPage<DailyCounts>
    /// REP-2: lists the tokens of the instances without the message.
    func notReceived(
        _ messageID: String, after: String, limit: Int
    ) async throws -> AnswerPage<String>
    /// Calls `body` with each receipt until `body` returns false. A receipt is taken when `body` returns.
    func receipts(_ body: @Sendable (ReceiptAnswer) async -> Bool) async throws
    /// Calls `body` with each message of a device until `body` returns false. A message is taken when `body` returns.
    func upstream(_ body: @Sendable (UpstreamAnswer) async -> Bool) async throws
    func fanouts(after: String) async throws -> AnswerPage<FanoutAnswer>
    func topics(after: String) async throws -> AnswerPage<TopicAnswer>
    func topics(ofToken token: String, after: String) async throws -> AnswerPage<TopicAnswer>
    func subscribers(
        of topic: String, after: String, limit: Int
    ) async throws -> AnswerPage<String>
    func tokens(
        matching condition: String, after: String, limit: Int
    ) async throws -> AnswerPage<String>
    /// TOP-4: changes the subscriptions of at most 1000 tokens.
    func changeTopic(
        _ topic: String, _ operation: TopicOperation, tokens: [String]
    ) async throws -> TokensAnswer
    /// REG-3: unregisters the instance with this token.
    func unregister(_ token: String) async throws
    func createGroup(named name: String, tokens: [String]) async throws -> GroupAnswer
    func changeGroup(
        named name: String, key: String, _ operation: GroupOperation, tokens: [String]
    ) async throws -> GroupAnswer
    func group(named name: String) async throws -> GroupAnswer
    func groups(after: String) async throws -> AnswerPage<GroupEntryAnswer>
    func quotas() async throws -> [QuotaAnswer]
    func audience(of condition: String) async throws -> AudienceAnswer
    func explain(_ condition: String) async throws -> ExplanationAnswer
    func close() async throws
}

/// Reads all pages of a list, one after the other.
func allPages<Entry: Sendable>(
    _ what: String, _ page: (String) async throws -> AnswerPage<Entry>
) async throws -> [Entry] {
    let progress = Progress(what)
    defer { progress.end() }
    var entries: [Entry] = []
    var after = ""
    while true {
        let next = try await page(after)
        entries += next.entries
        progress.show("\(entries.count)")
        guard let following = next.next else { return entries }
        after = following
    }
}

extension ReceiptKind {
    var name: String {
        switch self {
        case .received: "received"
        case .displayed: "displayed"
        case .opened: "opened"
        }
    }
}

extension Martlet.Instant {
    var iso8601: String {
        Date(timeIntervalSince1970: Double(millisecondsSince1970) / 1000)
            .formatted(.iso8601)
    }
}
