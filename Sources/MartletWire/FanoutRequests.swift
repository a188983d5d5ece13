// SPDX-License-Identifier: Apache-2.0
//
// Questions for the fanouts in progress and the deferred messages (FAN-8), of the senders of a project and of the
// administrator. Rests on `AdministratorInterface` and `SenderInterface`.

public import MartletBase

/// A message to many instances, in progress or deferred (FAN-8).
public struct FanoutSummary: Sendable, Hashable {
    /// ID of the project.
    public var project: String
    /// Number in the message ID.
    public var messageNumber: UInt64
    /// Kind of the target: topic, condition, group or several targets.
    public var kind: TargetKind
    /// The target. A topic or condition is cut after 200 characters. Of several targets the first eight are listed.
    public var target: String
    /// Start of the fanout. For a deferred message: the instant of acceptance, or the instant for which the
    /// message was scheduled.
    public var since: Instant
    /// Place among the project's deferred messages, from 1. nil: the fanout is in progress.
    public var deferredPlace: Int?
    /// Recipients; 0 for a deferred message, because the audience is resolved when the fanout begins.
    public var recipientCount: UInt64
    /// Messages queued for connections. A recipient without a connection gets the message from the mailbox.
    public var deliveredCount: UInt64
    /// Finished part of the fanout, 0 to 1.
    public var progress: Double
    /// Mean number of deliveries per second since the start of the fanout.
    public var deliveriesPerSecond: Double
    /// Part of all capacity, 0 to 1, as long as no fanout begins or ends.
    public var share: Double
    /// Estimated seconds to the end, at the speed so far. nil: unknown.
    public var secondsLeft: Double?

    /// `projects/PROJECT/messages/NUMBER`.
    public var messageID: String { MessageID.text(messageNumber, projectID: project) }

    package init(
        project: String, messageNumber: UInt64, kind: TargetKind, target: String, since: Instant,
        deferredPlace: Int? = nil, recipientCount: UInt64 = 0, deliveredCount: UInt64 = 0,
        progress: Double = 0, deliveriesPerSecond: Double = 0, share: Double = 0,
        secondsLeft: Double? = nil
    ) {
        self.project = project
        self.messageNumber = messageNumber
        self.kind = kind
        self.target = target
        self.since = since
        self.deferredPlace = deferredPlace
        self.recipientCount = recipientCount
        self.deliveredCount = deliveredCount
        self.progress = progress
        self.deliveriesPerSecond = deliveriesPerSecond
        self.share = share
        self.secondsLeft = secondsLeft
    }
}

extension AdministratorInterface {
    /// FAN-8: fanouts in progress and deferred messages, project by project. The deferred messages of a project
    /// follow its fanouts.
    /// - Parameters:
    ///   - project: ID of a project; nil: all projects. On a connection with a project, nil is that project.
    ///   - after: the `next` of the page before.
    ///   - limit: 1 to 1000 entries. A page may have fewer entries, because its bytes are bounded too.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`.
    public func fanouts(
        in project: String? = nil, after: String = "", limit: Int = Limits.pageEntriesMax
    ) async throws(Failure) -> ListPage<FanoutSummary> {
        let page = try await requests.ask(
            ListFanoutsRequest(
                projectID: project ?? "", cursor: after, limit: UInt16(pageLimit: limit)))
        return ListPage(entries: page.fanouts, nextCursor: page.nextCursor)
    }
}

extension SenderInterface {
    /// FAN-8: the project's fanouts in progress, followed by the deferred messages.
    /// - Parameters:
    ///   - after: the `next` of the page before.
    ///   - limit: 1 to 1000 entries. A page may have fewer entries, because its bytes are bounded too.
    /// - Throws: `INVALID_ARGUMENT`.
    public func fanouts(
        after: String = "", limit: Int = Limits.pageEntriesMax
    ) async throws(Failure) -> ListPage<FanoutSummary> {
        let page = try await requests.ask(
            ListFanoutsRequest(projectID: "", cursor: after, limit: UInt16(pageLimit: limit)))
        return ListPage(entries: page.fanouts, nextCursor: page.nextCursor)
    }
}
