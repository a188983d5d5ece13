// SPDX-License-Identifier: Apache-2.0
//
// Answers a send that repeats an idempotency key like the first time (MSG-9). Refusals aren't kept, because the next attempt
// may succeed. Rests on the ledgers.

import MartletBase
import MartletRows

extension Engine {
    /// The answer kept for an idempotency key, or for a gateway's attempt (GW-8); nil if the key or attempt is new. Refuses
    /// a key that is invalid, or was used for a different message.
    func answer(
        to message: SendCommand, in project: ProjectNumber, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome? {
        if let attempt = message.attempt {
            let kept = try storage.answers.answer(toKey: attempt.key, in: project, now: now)
            guard let kept, kept.digest == attempt.number else { return nil }
            return .accepted(kept.acceptance, fanouts: [])
        }
        guard let key = message.idempotencyKey else { return nil }
        guard (1...Limits.idempotencyKeyBytesMax).contains(key.utf8.count) else {
            return .refused(
                MartletError(
                    .invalidArgument,
                    "An idempotency key has 1 to \(Limits.idempotencyKeyBytesMax) bytes of UTF-8.",
                    field: "idempotency_key"))
        }
        guard let known = try storage.answers.answer(toKey: key, in: project, now: now) else {
            return nil
        }
        guard known.digest == message.digest else {
            return .refused(
                MartletError(
                    .invalidArgument,
                    "The key was used for another message in the last 24 hours; choose another key.",
                    field: "idempotency_key"))
        }
        return message.validateOnly ? nil : .accepted(known.acceptance, fanouts: [])
    }

    func keepAnswer(
        _ outcome: Outcome, to message: SendCommand, in project: ProjectNumber, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) {
        guard let key = message.attempt?.key ?? message.idempotencyKey, !message.validateOnly,
            case .accepted(let acceptance, _) = outcome
        else { return }
        var expires = now.advanced(bySeconds: Int64(Limits.idempotencySeconds))
        // A place is used over and over. All its answers of a day expire at the same instant, so later ones change no due
        // row.
        if message.attempt != nil {
            let day: Int64 = 86_400_000
            let next = (expires.millisecondsSince1970 / day + 1) * day
            expires = Instant(millisecondsSince1970: next)
        }
        try storage.answers.put(
            KeptAnswer(
                acceptance: acceptance, digest: message.attempt?.number ?? message.digest),
            toKey: key, expires: expires, in: project)
    }
}

extension SendAttempt {
    /// The idempotency key of the attempt's place. Longer than a sender's may be, so they never collide.
    var key: String {
        String(repeating: "-", count: Limits.idempotencyKeyBytesMax) + "gateway/\(place)"
    }
}

extension SendCommand {
    /// A digest of target, bodies and options. If two of a sender's messages collide, it harms only itself, so this needn't be
    /// cryptographic. Source: FNV-1a with 64 bits, draft-eastlake-fnv.
    var digest: UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        func add(_ bytes: some Sequence<UInt8>) {
            for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
            // 0xFF separates the parts: UTF-8 never contains it, and a body comes after its length.
            hash = (hash ^ 0xFF) &* 0x0000_0100_0000_01B3
        }
        func addTarget(_ target: Target) {
            switch target {
            case .token(let text): add("t\(text)".utf8)
            case .topic(let text): add("/\(text)".utf8)
            case .condition(let text): add("c\(text)".utf8)
            case .group(let text): add("g\(text)".utf8)
            case .several(let targets):
                add("s\(targets.count)".utf8)
                for target in targets { addTarget(target) }
            }
        }
        // The key and the attempt find the answer, and a check asks for the same message.
        let (target, variants, _, _, options, _, _, sendAt, notReceived) = fields
        addTarget(target)
        if let notReceived { add("n\(notReceived)".utf8) }
        if let sendAt { add("@\(sendAt.millisecondsSince1970)".utf8) }
        let flags = options.flags(in: .digest)
        if flags != 0 { add(CollectionOfOne(flags)) }
        for variant in variants {
            let (platforms, lifespan, priority, collapse, name, body, _) = variant.fields
            add([platforms.rawValue, priority.rawValue])
            switch lifespan {
            case .seconds(let seconds): add("s\(seconds)".utf8)
            case .until(let end): add("u\(end.millisecondsSince1970)".utf8)
            // Without a time to live the sender means the project's longest; earlier programs wrote it as 28 days.
            case .longest: add("s\(Limits.timeToLiveSecondsMax)".utf8)
            }
            switch collapse {
            case .none: add([0])
            case .app: add([1])
            case .named(let key): add("k\(key)".utf8)
            case .opaque(let topic): add("o\(topic ?? "")".utf8)
            }
            add((name ?? "").utf8)
            add("\(body.count)".utf8)
            add(body)
        }
        return hash
    }
}
