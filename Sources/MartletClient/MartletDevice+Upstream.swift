// SPDX-License-Identifier: Apache-2.0
//
// Sends a device's messages to the senders of its project, or to a group of its own (DEV-4). A message waits here until the
// broker has answered, over as many connections as necessary. Repeated sends have an equal message ID, so the broker takes the
// message once.

import MartletBase
public import MartletWire
import NIOCore

/// Receiver of a device's message.
public enum UpstreamTarget: Sendable, Hashable {
    /// One sender of the project (UPS-1).
    case project
    /// The other members of a group with the device as a member, by the group's notification key (GRP-7).
    case group(String)
}

extension MartletDevice {
    /// DEV-4: sends a message. Returns when the message is on disk at the broker, or is on its way if
    /// `timeToLiveSeconds` is 0. Without a connection and after a quota refusal, the message waits up to its time
    /// to live. A message that is now or never does not wait.
    ///
    /// - Parameters:
    ///   - message: a message with data alone.
    ///   - messageID: 1 to 128 bytes, told to the receiver. The broker takes a message once per ID. nil: a random
    ///     ID.
    ///   - timeToLiveSeconds: at most the project's longest time to live (28 days, unless configured otherwise), counted
    ///     from the call; nil is the longest. Without a number the device gives up after 28
    ///     days.
    /// - Throws: RESOURCE_EXHAUSTED while 20 messages wait; DEADLINE_EXCEEDED after the time to live, when the
    ///   broker may or may not have the message; UNAVAILABLE for a now-or-never message without a connection;
    ///   NOT_FOUND for a now-or-never message that no sender can take; any error with which the broker refuses for
    ///   good.
    public func sendUpstream(
        _ message: Message, to target: UpstreamTarget = .project, messageID: String? = nil,
        timeToLiveSeconds: UInt32? = nil
    ) async throws {
        let seconds = timeToLiveSeconds ?? Limits.timeToLiveSecondsMax
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
            isForLongest: timeToLiveSeconds == nil, deadline: .now() + .seconds(Int64(seconds)))
        guard seconds > 0 else { return try await sendNowOrNever(upstream) }
        // The deadline cancels the task.
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

    /// Repeats the request until the broker accepts, or refuses for good.
    private func send(_ upstream: OutgoingUpstream) async throws {
        var backoff = options.backoff
        while true {
            do {
                return try await sendOnce(
                    upstream,
                    timeToLiveSeconds: upstream.isForLongest ? nil : upstream.secondsLeft)
            } catch let error as MartletError {
                if case .ended = state { throw error }
                if error.isFinal { throw error }
                try await Task.sleep(
                    for: backoff.next(notBefore: error.retryDelayMilliseconds, using: &random))
            }
        }
    }

    private func sendOnce(
        _ upstream: OutgoingUpstream, timeToLiveSeconds: UInt32?
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
    /// The broker decides how long the message lives.
    var isForLongest: Bool
    var deadline: NIODeadline

    /// Remaining seconds of the time to live, at least 1, because 0 would mean now or never.
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
