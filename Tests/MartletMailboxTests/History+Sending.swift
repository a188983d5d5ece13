// SPDX-License-Identifier: Apache-2.0
//
// The sending steps of a history. Rests on History.

import EngineBench
import MartletBase
import MartletEngine

extension History {
    /// Messages in one transaction, each answered as the model says.
    func send(count: Int) throws {
        // What has been taken is not replaced or discarded any more, once that is known.
        try world.finishRests()
        var commands: [(id: UInt64, command: SendCommand)] = []
        for _ in 0..<count {
            // The same again, as a sender does that was not answered.
            if random.chance(5), let last = lastWithKey() {
                commands.append(last)
                continue
            }
            nextID += 1
            commands.append((nextID, makeCommand(nextID)))
        }
        sent += commands.filter { $0.command.idempotencyKey != nil }
        let outcomes = try world.apply(
            commands.map { .send(project: world.project, message: $0.command) })
        for (one, outcome) in zip(commands, outcomes) {
            let answer = model.send(one.command, id: one.id)
            tell {
                "\(now): send \(one.id) to \(one.command.target) \(text(one.command)): \(answer)"
            }
            learnNumbers()
            try compare(answer, outcome, one.id)
        }
    }

    /// One whose key still holds, or that was refused.
    private func lastWithKey() -> (id: UInt64, command: SendCommand)? {
        guard let last = sent.randomElement(using: &random) else { return nil }
        let until = model.repeats[last.command.idempotencyKey!]?.until ?? .max
        return until > now ? last : nil
    }

    private func text(_ command: SendCommand) -> String {
        let variants = command.variants.map {
            "[\($0.platforms.rawValue) \($0.lifespan) \($0.priority) \($0.collapse)"
                + " \($0.restrictedPackageName ?? "")]"
        }
        let due = command.sendAt.map { " at \($0.rawValue)" } ?? ""
        return variants.joined() + due + (command.validateOnly ? " validate" : "")
            + (command.idempotencyKey.map { " key \($0)" } ?? "")
    }

    private func compare(_ answer: BrokerModel.Answer, _ outcome: Outcome, _ id: UInt64) throws {
        switch (answer, outcome) {
        case (.refused(let word), .refused(let error)) where error.word == word: return
        case (.quota(let delay), .refused(let error))
        where error.word == .quotaExceeded && error.retryDelayMilliseconds == UInt32(delay):
            return
        case (.accepted(let recipients, let rateLimited, let inactive), .accepted(let found, _))
        where found.recipientCount == UInt64(recipients)
            && found.rateLimitedCount == UInt64(rateLimited)
            && found.inactiveCount == UInt64(inactive):
            numbers[id] = found.messageNumber
        case (.repeated(let first), .accepted(let found, let fanouts))
        where fanouts.isEmpty && found.messageNumber == numbers[first]:
            return
        case (.scheduled, .accepted(let found, let fanouts))
        where fanouts.isEmpty && found.recipientCount == 0:
            numbers[id] = found.messageNumber
        case (.validated(let count), .accepted(let found, let fanouts))
        where fanouts.isEmpty && found.messageNumber == 0
            && count.map { UInt64($0) == found.recipientCount } ?? true:
            return
        default: throw Difference("send \(id): \(outcome) instead of \(answer)")
        }
    }

    func cancel() throws {
        guard let id = numbers.keys.sorted().randomElement(using: &random) else { return }
        // What was accepted in the same millisecond was accepted before.
        let before = now
        try passTime(to: now + 1)
        guard now > before else { return }
        let outcome = try world.apply(.cancel(project: world.project, number: numbers[id]!))
        let isPending = model.cancel(id)
        tell { "\(now): cancel \(id)" }
        switch outcome {
        case .cancelled: return
        case .refused(let error) where error.word == .notFound && !isPending: return
        default: throw Difference("cancel \(id): \(outcome), is it pending: \(isPending)")
        }
    }

    // MARK: Commands

    private func makeCommand(_ id: UInt64) -> SendCommand {
        SendCommand(
            target: target(), variants: variants(id), validateOnly: random.chance(2),
            idempotencyKey: random.chance(5) ? "key\(id)" : nil,
            sendAt: random.chance(5)
                ? Instant(millisecondsSince1970: now + Int64(random.number(0...7200)) * 1000) : nil)
    }

    private func target() -> SendCommand.Target {
        switch random.number(0...9) {
        case ..<5:
            if random.chance(10), let token = model.retiredTokens.randomElement(using: &random) {
                return .token(token)
            }
            guard let id = ids.randomElement(using: &random) else {
                return .topic(topics[0])
            }
            return .token(model.instances[id]!.token)
        case ..<9: return .topic(random.one(of: topics))
        default:
            let words = (0..<random.number(1...3)).map { _ in
                let term = "'\(random.one(of: topics))' in topics"
                return random.chance(40) ? "!(\(term))" : term
            }
            return .condition(
                words.dropFirst().reduce(words[0]) {
                    $0 + (random.chance(50) ? " && " : " || ") + $1
                })
        }
    }

    private func variants(_ id: UInt64) -> [OutgoingVariant] {
        let groups: [PlatformSet] =
            switch random.number(0...9) {
            case ..<7: [.all]
            case 7: [[.init(.android), .init(.web)], .init(.apple)]
            case 8: [.init(.android), .init(.apple), .init(.web)]
            default: [random.one(of: [.init(.android), .init(.apple), .init(.web)])]
            }
        return groups.enumerated().map { index, platforms in
            OutgoingVariant(
                platforms: platforms, lifespan: lifespan(),
                priority: random.chance(35) ? .high : .normal, collapse: collapse(),
                restrictedPackageName: random.chance(5) ? random.one(of: apps) : nil,
                body: withUnsafeBytes(of: id) { Array($0) } + [UInt8(index)])
        }
    }

    private func lifespan() -> Lifespan {
        switch random.number(0...19) {
        case 0, 1: .seconds(0)
        case 2: .seconds(2_419_200)
        case 3: .seconds(2_419_201)
        case 4: .until(Instant(millisecondsSince1970: now + Int64(random.number(-2000...90_000))))
        case 5: .until(Instant(millisecondsSince1970: now + 2_419_200_000))
        case ..<11: .seconds(UInt32(random.number(1...10)))
        case ..<15: .seconds(UInt32(random.number(1...400)))
        default: .longest
        }
    }

    private func collapse() -> CollapseKey {
        switch random.number(0...9) {
        case ..<5: .none
        case 5: .app
        default: .named(random.one(of: ["com.a", "k", "l", "m", "n"]))
        }
    }
}
