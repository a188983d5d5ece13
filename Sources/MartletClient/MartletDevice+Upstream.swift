// SPDX-License-Identifier: Apache-2.0
//
// DEV-4: a device's own messages, to the senders of its project or to a group of its. Each waits
// here until the broker has answered, over as many connections as that takes, and is sent again
// under the same message ID, so that the broker takes it once.

import MartletBase
public import MartletWire
import NIOCore

/// Who a device sends to.
public enum UpstreamTarget: Sendable, Hashable {
    /// One sender of the project (UPS-1).
    case project
    /// The other members of a group that the device is a member of, by its notification key
    /// (GRP-7).
    case group(String)
}

extension MartletDevice {
    /// DEV-4: sends a message; returns when it is on disk at the broker, or on its way if
    /// `timeToLiveSeconds` is 0. While there is no connection, and after a quota refusal, it waits
    /// for its time to live, and is sent when it can be. A message for now or never does not wait.
    ///
    /// - Parameters:
    ///   - message: data alone.
    ///   - messageID: 1 to 128 bytes; the receiver is told it, and a message that is sent again
    ///     with the same one is taken once. nil: random.
    ///   - timeToLiveSeconds: at most 28 days, which nil is. Counted from this call.
    /// - Throws: RESOURCE_EXHAUSTED while 20 messages wait; DEADLINE_EXCEEDED if its time to live
    ///   has passed, when the broker may have it or not; NOT_FOUND for a message for now or never
    ///   that no sender can take; what the broker refuses for good.
    public func sendUpstream(
        _ message: Message, to target: UpstreamTarget = .project, messageID: String? = nil,
        timeToLiveSeconds: UInt32? = nil
    ) async throws {
        let seconds = timeToLiveSeconds ?? Limits.upstreamSecondsMax
        guard seconds <= Limits.upstreamSecondsMax else {
            throw MartletError(
                .invalidArgument,
                "The time to live is 0 to \(Limits.upstreamSecondsMax) seconds.", field: "ttl")
        }
        let body = try message.encodedUpstream()
        guard upstreamCount < Limits.upstreamQueueMax else {
            throw MartletError(
                .resourceExhausted,
                "\(Limits.upstreamQueueMax) messages wait in this device; send again later.",
                field: "queue")
        }
        upstreamCount += 1
        defer { upstreamCount -= 1 }
        let upstream = OutgoingUpstream(
            group: target.group, messageID: messageID ?? randomMessageID(), body: body,
            deadline: .now() + .seconds(Int64(seconds)))
        guard seconds > 0 else { return try await sendNowOrNever(upstream) }
        // Cancelled when the deadline has passed.
        let sending = Task { try await send(upstream) }
        let expiry = eventLoop.scheduleTask(deadline: upstream.deadline) { sending.cancel() }
        defer { expiry.cancel() }
        do {
            try await withTaskCancellationHandler {
                try await sending.value
            } onCancel: {
                sending.cancel()
            }
        } catch is CancellationError {
            try Task.checkCancellation()
            throw MartletError(
                .deadlineExceeded,
                "The broker did not answer within the message's time to live.", field: "ttl")
        }
    }

    private func sendNowOrNever(_ upstream: OutgoingUpstream) async throws {
        guard case .open = state else {
            throw MartletError(
                .unavailable, "There is no connection, and the message is for now or never.",
                field: "ttl")
        }
        try await sendOnce(upstream, timeToLiveSeconds: 0)
    }

    /// Until it is answered for good.
    private func send(_ upstream: OutgoingUpstream) async throws {
        var backoff = options.backoff
        while true {
            do {
                return try await sendOnce(upstream, timeToLiveSeconds: upstream.secondsLeft)
            } catch let error as MartletError {
                if case .ended = state { throw error }
                if error.isFinal { throw error }
                try await Task.sleep(
                    for: backoff.next(notBefore: error.retryDelayMilliseconds, using: &random))
            }
        }
    }

    private func sendOnce(
        _ upstream: OutgoingUpstream, timeToLiveSeconds: UInt32
    ) async throws {
        let answer = try await request { correlation in
            .upstream(
                UpstreamRequest(
                    correlation: correlation, group: upstream.group,
                    messageID: upstream.messageID, timeToLiveSeconds: timeToLiveSeconds,
                    message: upstream.body))
        }
        guard case .upstreamAccepted = answer else { throw unexpected(answer) }
    }

    private func randomMessageID() -> String {
        Base64URL.encode((0..<16).map { _ in UInt8.random(in: 0...255, using: &random) })
    }
}

/// A message that waits in the device.
private struct OutgoingUpstream: Sendable {
    var group: String
    var messageID: String
    var body: [UInt8]
    var deadline: NIODeadline

    /// Of its time to live; one at least, for none is now or never.
    var secondsLeft: UInt32 {
        let left = (deadline - .now()).nanoseconds
        return UInt32(clamping: max(1, (left + 999_999_999) / 1_000_000_000))
    }
}

extension UpstreamTarget {
    fileprivate var group: String {
        switch self {
        case .project: ""
        case .group(let key): key
        }
    }
}
