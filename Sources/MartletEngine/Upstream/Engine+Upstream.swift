// SPDX-License-Identifier: Apache-2.0
//
// Accepts messages from devices to their project's senders (UPS-1). A message is kept until a sender has taken it or it
// expires, even if the device unregisters. With a time to live of 0 it goes at once to a sender that has room, and is never
// kept. If the answer gets lost, the device repeats the message with the same ID and gets the first answer again. Rests on the
// ledgers and UpstreamBook.

import MartletBase
import MartletBits
import MartletRows

extension Engine {
    mutating func acceptUpstream(
        _ message: UpstreamCommand, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        guard let instance = try storage.instances.instance(message.ordinal, in: message.project),
            instance.holder == message.holder
        else {
            return .refused(
                MartletError(.unregistered, "The instance is not registered.", field: "token"))
        }
        do throws(Obstacle) {
            return try acceptUpstream(message, from: instance, now: now, storage)
        } catch {
            return .refused(try error.refusal())
        }
    }

    private mutating func acceptUpstream(
        _ message: UpstreamCommand, from instance: Instance, now: Instant,
        _ storage: borrowing Transaction
    ) throws(Obstacle) -> Outcome {
        let project = message.project
        guard let owner = try rows(storage.projects.project(project)) else {
            throw .refusal(.noProject)
        }
        let bounds = MessageBounds(owner, limits)
        try checked(Self.check(message, within: bounds))
        let seconds = try checked(bounds.seconds(ofUpstream: message.timeToLiveSeconds))
        let known = try rows(
            storage.upstream.number(
                ofID: message.messageID, of: instance.ordinal, in: project, now: now))
        if let number = known {
            return .upstreamAccepted(
                UpstreamAcceptance(
                    project: project, number: number, isForSenders: false, passing: nil),
                fanouts: [])
        }
        if case .group(let key) = message.target {
            return try acceptUpstream(
                message, toGroup: key, seconds: seconds, from: instance, in: owner, now: now,
                storage)
        }
        let isKept = seconds > 0
        if isKept {
            try checkKept(in: project, storage)
        } else {
            try checked(checkListening(project))
        }
        try checked(takeUpstreamQuotas(of: instance, now: now))
        let number = try rows(storage.upstream.takeNumber(in: project))
        let record = UpstreamMessage.record(
            number, of: instance, message, accepted: now,
            expires: now.advanced(bySeconds: Int64(seconds)))
        if isKept {
            try rows(storage.upstream.put(record, in: project))
        } else {
            upstreamPromised[project, default: 0] += 1
        }
        try rows(
            storage.upstream.putNumber(
                number, ofID: message.messageID, of: instance.ordinal, in: project, now: now,
                until: now.advanced(bySeconds: Int64(Limits.upstreamIDSeconds)),
                idsMax: Limits.upstreamIDsPerInstanceMax))
        return .upstreamAccepted(
            UpstreamAcceptance(
                project: project, number: number, isForSenders: true,
                passing: isKept
                    ? nil : try rows(UpstreamMessage(record, in: project, storage))),
            fanouts: [])
    }

    /// Sends a device's message to the other members of its group (GRP-7). It is like any message to the group, except that
    /// its `from` is the notification key.
    private mutating func acceptUpstream(
        _ message: UpstreamCommand, toGroup text: String, seconds: UInt32, from instance: Instance,
        in project: Project, now: Instant, _ storage: borrowing Transaction
    ) throws(Obstacle) -> Outcome {
        let number = project.number
        guard let key = try? Audiences.groupKey(text),
            let group = try rows(storage.groups.group(key, in: number)),
            group.members.contains(instance.ordinal)
        else {
            throw .refusal(
                MartletError(
                    .notFound, "The device is a member of no group with this notification key.",
                    field: "group"))
        }
        try checked(takeUpstreamQuotas(of: instance, now: now))
        var dispatch = try checked(
            Dispatch(
                SendCommand(
                    target: .group(text), body: message.body, lifespan: .seconds(seconds)),
                from: now, within: MessageBounds(project, limits)))
        let others = group.members.filter { $0 != instance.ordinal }
        let target = ResolvedTarget(kind: .group, from: text, instances: .many(.of(others)))
        let recipients = try audiences.recipients(
            of: &dispatch, among: target.instances, in: number, storage)
        let sent = try rows(
            send(dispatch, to: recipients, of: target, in: project, now: now, storage))
        guard case .accepted(_, let fanouts) = sent else { return sent }
        let upstreamNumber = try rows(storage.upstream.takeNumber(in: number))
        try rows(
            storage.upstream.putNumber(
                upstreamNumber, ofID: message.messageID, of: instance.ordinal, in: number,
                now: now, until: now.advanced(bySeconds: Int64(Limits.upstreamIDSeconds)),
                idsMax: Limits.upstreamIDsPerInstanceMax))
        return .upstreamAccepted(
            UpstreamAcceptance(
                project: number, number: upstreamNumber, isForSenders: false, passing: nil),
            fanouts: fanouts)
    }

    private static func check(
        _ message: UpstreamCommand, within bounds: MessageBounds
    ) throws(MartletError) {
        guard (1...Limits.upstreamIDBytesMax).contains(message.messageID.utf8.count) else {
            throw MartletError(
                .invalidArgument,
                "A message ID has 1 to \(Limits.upstreamIDBytesMax) bytes of UTF-8.",
                field: "message_id")
        }
        try bounds.check(message.size)
    }

    private func checkKept(
        in project: ProjectNumber, _ storage: borrowing Transaction
    ) throws(Obstacle) {
        let max = limits.upstreamKeptMax
        guard max > 0, try rows(storage.upstream.count(in: project)) >= UInt64(max) else {
            return
        }
        throw .refusal(
            MartletError(
                .resourceExhausted,
                """
                \(max) messages of the project's devices wait for a sender (upstream-kept-max); no \
                more are kept until one is taken. Send again later.
                """, field: "message", retryDelayMilliseconds: Limits.upstreamFullMilliseconds))
    }

    private func checkListening(_ project: ProjectNumber) throws(MartletError) {
        let promised = upstreamPromised[project] ?? 0
        guard upstreamBook?.hasRoom(for: promised + 1, in: project) ?? false else {
            throw MartletError(
                .notFound,
                """
                No sender of the project can take a message now, and this one is for now or never; \
                give it a time to live.
                """, field: "ttl")
        }
    }

    /// Takes a message from both the project's and the device's quota, or from neither (QUO-2).
    /// - Throws: `MartletError` with a retry delay if a quota is used up.
    private mutating func takeUpstreamQuotas(
        of instance: Instance, now: Instant
    ) throws(MartletError) {
        try quotas.checkUpstream(in: instance.project, at: now)
        let grant = upstreamRates.take(.one(instance.ordinal), in: instance.project, at: now)
        if case .nobody(let delay) = grant {
            throw MartletError(
                .quotaExceeded,
                """
                A device sends at most \(limits.deviceUpstreamPerMinute) messages a minute \
                (device-upstream-per-minute). Send again later.
                """, field: "message", retryDelayMilliseconds: UInt32(clamping: delay))
        }
        quotas.takeUpstream(in: instance.project, at: now)
    }

    /// Removes messages that senders have acknowledged. If one is missing, it was taken before or has expired.
    func takeUpstream(
        _ numbers: [UInt64], in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        for number in numbers { _ = try storage.upstream.remove(number, in: project) }
        return .upstreamTaken(project, numbers: numbers)
    }
}
