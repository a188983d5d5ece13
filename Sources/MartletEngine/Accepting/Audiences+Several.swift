// SPDX-License-Identifier: Apache-2.0
//
// Targets that name instances one by one: a group, and several targets of one message. If one of several targets is a
// malformed topic, condition or key, the message is refused. An invalid token doesn't do that: the sender is told, and the
// others get the message. Rests on Audiences+Targets.

import MartletBase
import MartletBits
import MartletRows

extension Audiences {
    /// A group's members; none if there is no such group (GRP-5).
    /// - Throws: a refusal if the key is malformed.
    func members(
        of text: String, for dispatch: Dispatch, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(Obstacle) -> NamedInstances {
        var named = NamedInstances(.group)
        let key = try checked(Self.groupKey(text))
        let group = try rows(storage.groups.group(key, in: project))
        for (index, ordinal) in (group?.members ?? []).enumerated() {
            let instance = try rows(storage.member(ordinal, in: project))
            named.add(instance, at: index, try refusal(of: dispatch, to: instance, storage))
        }
        return named
    }

    /// The union of several targets, and their tokens' results.
    /// - Throws: a refusal if a topic, condition or key is malformed.
    mutating func union(
        of targets: [SendCommand.Target], for dispatch: Dispatch, in project: Project,
        _ storage: borrowing Transaction
    ) throws(Obstacle) -> (RecipientSet, NamedInstances) {
        try checked(checkForm(targets))
        let named = try tokens(among: targets, for: dispatch, in: project.number, storage)
        var ordinals = named.ordinals
        var sets: [RecipientSet] = []
        for (index, target) in targets.enumerated() {
            do throws(Obstacle) {
                switch target {
                case .token, .several: break
                case .topic(let text):
                    let name = try checked(TopicName(validating: text))
                    sets.append(try rows(subscribers(of: name, in: project.number, storage)))
                case .condition(let text):
                    let condition = try condition(
                        text, of: project, hasWaited: dispatch.number != nil)
                    sets.append(try rows(matches(of: condition, in: project.number, storage)))
                case .group(let text):
                    let key = try checked(Self.groupKey(text))
                    let group = try rows(storage.groups.group(key, in: project.number))
                    ordinals += group?.members ?? []
                }
            } catch {
                throw error.at("targets[\(index)]")
            }
        }
        if !ordinals.isEmpty { sets.append(.of(ordinals)) }
        return (RecipientSet.union(of: sets), named)
    }

    /// Checks several targets without working out their instances.
    /// - Returns: the tokens' results.
    func check(
        _ targets: [SendCommand.Target], of dispatch: Dispatch, in project: Project,
        _ storage: borrowing Transaction
    ) throws(Obstacle) -> NamedResults {
        try checked(checkForm(targets))
        for (index, target) in targets.enumerated() {
            do throws(Obstacle) {
                switch target {
                case .token, .several: break
                case .topic(let text): _ = try checked(TopicName(validating: text))
                case .condition(let text): _ = try condition(text, of: project)
                case .group(let text): _ = try checked(Self.groupKey(text))
                }
            } catch {
                throw error.at("targets[\(index)]")
            }
        }
        return try tokens(among: targets, for: dispatch, in: project.number, storage).results
    }

    static func groupKey(_ text: String) throws(MartletError) -> GroupKey {
        do { return try GroupKey(validating: text) } catch { throw error.at("group") }
    }

    private func tokens(
        among targets: [SendCommand.Target], for dispatch: Dispatch, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(Obstacle) -> NamedInstances {
        var named = NamedInstances(.tokens)
        for (index, target) in targets.enumerated() {
            guard case .token(let text) = target else { continue }
            do throws(Obstacle) {
                let instance = try addressee(text, of: dispatch, in: project, storage)
                named.add(instance, at: index, try refusal(of: dispatch, to: instance, storage))
            } catch {
                guard case .refusal(let refusal) = error else { throw error }
                named.addNobody(at: index, refusal.word)
            }
        }
        return named
    }

    /// Why a message isn't for an instance; nil if it is (MSG-8).
    private func refusal(
        of dispatch: Dispatch, to instance: Instance,
        _ storage: borrowing Transaction
    ) throws(Obstacle) -> ErrorWord? {
        do throws(Obstacle) {
            _ = try variant(of: dispatch, for: instance, storage)
            return nil
        } catch {
            guard case .refusal(let refusal) = error else { throw error }
            return refusal.word
        }
    }

    private func checkForm(_ targets: [SendCommand.Target]) throws(MartletError) {
        var (tokenCount, setCount) = (0, 0)
        for target in targets {
            switch target {
            case .token: tokenCount += 1
            case .topic, .condition, .group: setCount += 1
            case .several:
                throw MartletError(
                    .invalidArgument, "One of several targets is not several again.",
                    field: "targets")
            }
        }
        let max = limits.multicastTokensMax
        let isTooMany = max > 0 && tokenCount > max
        guard !targets.isEmpty, !isTooMany, setCount <= Limits.multicastSetsMax else {
            throw MartletError(
                .invalidArgument,
                """
                A message is for 1 to \(max > 0 ? "\(max)" : "any number of") tokens \
                (multicast-tokens-max) and \(Limits.multicastSetsMax) topics, conditions and \
                groups; this one names \(tokenCount) and \(setCount). Split it.
                """, field: "targets")
        }
    }
}

extension MartletError {
    /// The same error, about another field.
    func at(_ field: String) -> MartletError {
        var error = self
        error.field = field
        return error
    }
}
