// SPDX-License-Identifier: Apache-2.0
//
// Checks the result of every group request against the models' lists (GRP-1 to GRP-5). For a message to a group, compares the
// sender's answer with the members for which the message was accepted. Rests on GroupModel.

import MartletBase
import MartletEngine
import MartletWire

extension Oracle {
    /// The expected result of a request: the members, or a refusal.
    private typealias Expected = Result<[Int], ExpectedRefusal>

    private struct ExpectedRefusal: Error { var word: ErrorWord }

    func committedGroup(
        _ project: ProjectModel, create name: String, _ key: String, _ tokens: [String],
        _ outcome: Outcome
    ) {
        let group = GroupModel(project: project, name: name, key: key)
        let expected: Expected =
            project.group(named: name) == nil
            ? joined(group, tokens) : .failure(ExpectedRefusal(word: .alreadyExists))
        if compare(group, expected, outcome) { project.groups.append(group) }
    }

    func committedGroup(
        _ project: ProjectModel, change name: String, _ key: String, _ change: GroupOperation,
        _ tokens: [String], _ outcome: Outcome
    ) {
        guard let group = project.group(named: name) else {
            let absent = GroupModel(project: project, name: name, key: key)
            _ = compare(absent, .failure(ExpectedRefusal(word: .notFound)), outcome)
            return
        }
        let expected: Expected =
            switch (group.key == key, change) {
            case (false, _): .failure(ExpectedRefusal(word: .invalidArgument))
            case (true, .add): joined(group, tokens)
            case (true, .remove):
                .success(group.members.filter { !tokens.contains(instances[$0].token) })
            }
        _ = compare(group, expected, outcome)
    }

    private func joined(_ group: GroupModel, _ tokens: [String]) -> Expected {
        var members = group.members
        for token in tokens {
            guard let instance = group.project.instances.first(where: { $0.token == token }),
                instance.isRegistered
            else { return .failure(ExpectedRefusal(word: .unregistered)) }
            if !members.contains(instance.number) { members.append(instance.number) }
        }
        guard members.count <= Limits.groupMembersMax else {
            return .failure(ExpectedRefusal(word: .invalidArgument))
        }
        return .success(members)
    }

    /// Compares the outcome of a request with the expected result.
    /// - Returns: true if the request succeeded, as expected.
    private func compare(
        _ group: GroupModel, _ expected: Expected, _ outcome: Outcome
    ) -> Bool {
        switch (outcome, expected) {
        case (.group(let told), .success(let members)):
            trace.note("group", group.project.index, members.count)
            group.members = members
            if told.tokens.map(\.text) != members.map({ instances[$0].token })
                || told.name.text != group.name || told.key.text != group.key
            {
                fail("group \(group.name) should have \(members), and has other members")
            }
            return true
        case (.refused(let error), .failure(let refusal)) where error.word == refusal.word: break
        // A store that cannot be written refuses any request.
        case (.refused(let error), _) where error.word == .unavailable: break
        default: fail("a request about group \(group.name): \(outcome), not \(expected)")
        }
        return false
    }

    /// REG-3: removes an unregistered instance from its groups.
    func leaveGroups(_ instance: InstanceModel) {
        for group in instance.project.groups { group.members.removeAll { $0 == instance.number } }
    }

    /// GRP-5: checks an answer, with the count of members that get the message and the names of all other members.
    func answered(_ message: MessageModel, _ answer: GroupAccepted) {
        answered(message, answer.accepted)
        // A waiting message has no members before it is due.
        let failed = message.wasEarly ? [] : message.limited.map { instances[$0].token }.sorted()
        let successes = message.wasEarly ? 0 : message.recipients.count
        if Int(answer.successes) != successes || answer.failures.map(\.token).sorted() != failed
            || answer.failures.contains(where: { $0.word != .quotaExceeded })
        {
            fail(
                """
                \(message) was accepted for \(successes) members and not for \(failed.count); its \
                sender was told \(answer.successes) and \(answer.failures)
                """)
        }
    }
}
