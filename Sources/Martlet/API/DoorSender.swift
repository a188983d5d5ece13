// SPDX-License-Identifier: Apache-2.0
//
// A sender whose connection is served by a door of the process, beside the loops. The door has what a loop has for its
// senders: the quota on connections (QUO-3), sends in order, the messages of devices with a window and acknowledgements
// one by one (UPS-1), the receipts of the project (RCP-1), and the end of the credential (REG-9). All calls return at
// once, because a door calls on its event loop: the store need not be newer for any of them (OPS-7), and a sign-in is
// refused by the store as it is, unless the door has waited (`Freshness`). Rests on Broker.

import MartletCommitter
import MartletEngine
import MartletRows
import MartletStore
import Synchronization

/// A sender that has signed in at a door of this process.
package final class DoorSender: Sendable {
    /// What happens to a sender without its asking.
    package enum Event: Sendable {
        /// Messages of devices for this sender, in the order of handing.
        case messages([DeviceMessage])
        /// The sender's key was revoked. No send of the sender is accepted any more.
        case revoked
        /// The broker closes, and no more messages come.
        case closed
    }

    private struct State {
        /// The sender's listener for messages of devices; nil: the sender does not listen.
        var listener: UInt64?
        var hasEnded = false
    }

    /// The sender's project.
    package let project: ProjectSummary
    private let keyID: String
    private let broker: Broker
    private let number: ProjectNumber
    private let tell: @Sendable (Event) -> Void
    private let watch: UInt64
    private let isRevoked: Flag
    private let state = Mutex(State())

    /// A flag that outlives the sender, for the watch of its key.
    private final class Flag: Sendable {
        let isSet = Atomic(false)
    }

    /// - Throws: `UNAUTHENTICATED` for the key, `RESOURCE_EXHAUSTED` for too many connections.
    fileprivate init(
        _ broker: Broker, serverKey: String, where isSender: (ProjectSummary) -> Bool,
        _ tell: @escaping @Sendable (Event) -> Void
    ) throws(MartletError) {
        let identity = try Self.identity(broker, serverKey)
        guard isSender(identity.project) else {
            throw MartletError(
                .unauthenticated, "The server key is not one of this sender's project.",
                field: "server_key")
        }
        let flag = Flag()
        let revocations = broker.committer.revocations
        let keyID = identity.keyID
        let watch = revocations.watch(keyID) {
            flag.isSet.store(true, ordering: .sequentiallyConsistent)
            tell(.revoked)
        }
        let number: ProjectNumber
        do throws(MartletError) {
            // The key may have been revoked before the watch began.
            _ = try Self.identity(broker, serverKey)
            number = try broker.number(of: identity.project.id)
            try broker.quotas.senderConnects(to: number, at: broker.clock())
        } catch {
            revocations.forget(watch, of: keyID)
            throw error
        }
        self.broker = broker
        self.tell = tell
        self.watch = watch
        self.number = number
        self.keyID = keyID
        project = identity.project
        isRevoked = flag
    }

    private static func identity(
        _ broker: Broker, _ serverKey: String
    ) throws(MartletError) -> SenderIdentity {
        let identity = try broker.sender(presenting: serverKey)
        guard !identity.isAccessToken else {
            throw MartletError(
                .unauthenticated, "An access token opens no connection here; present a server key.",
                field: "server_key")
        }
        return identity
    }

    deinit { end() }

    /// Ends the sender: its unacknowledged messages go to others, and its connection counts no more.
    package func end() {
        let listener: UInt64?? = state.withLock { state in
            guard !state.hasEnded else { return nil }
            state.hasEnded = true
            return .some(state.listener)
        }
        guard let listener else { return }
        broker.committer.revocations.forget(watch, of: keyID)
        broker.quotas.senderLeft(number)
        guard let listener else { return }
        broker.committer.upstream.leave(listener)
        broker.committer.wake()
    }

    // MARK: Sending

    /// Sends a message, as `Broker.send(_:in:)`. The messages of a thread keep their order.
    /// - Parameter tell: called once, on this thread or on the committer's.
    package func send(
        _ message: OutgoingMessage,
        then tell: @escaping @Sendable (Result<SendReceipt, MartletError>) -> Void
    ) {
        guard !isRevoked.isSet.load(ordering: .sequentiallyConsistent) else {
            return tell(
                .failure(MartletError(.unauthenticated, "The server key was revoked.")))
        }
        let projectID = project.id
        let received: @Sendable (Outcome) -> Void = { outcome in
            switch outcome {
            case .accepted(let acceptance, _):
                tell(
                    .success(
                        SendReceipt(
                            acceptance.accepted(),
                            tokens: TokenResults(acceptance.named, of: message.target),
                            projectID: projectID)))
            case .refused(let error): tell(.failure(error))
            default: tell(.failure(.unexpected))
            }
        }
        do throws(MartletError) {
            let command = try broker.counting(in: number) { () throws(MartletError) in
                try SendCommand(message, projectID: projectID)
            }
            let now = broker.clock()
            guard NowOrNeverSender.takes(command, at: now), broker.committer.sendsNowOrNever else {
                return broker.submit(.send(project: number, message: command), received)
            }
            received(try broker.committer.sendNowOrNever(command, in: number, now: now))
        } catch {
            tell(.failure(error))
        }
    }

    /// REG-4: the present token of an instance, by a token from before a rotation.
    /// - Returns: nil for any other text.
    package func currentToken(ofFormer text: String) throws(MartletError) -> String? {
        guard let token = try? Token(validating: text) else { return nil }
        let number = number
        return try broker.read { (transaction) throws in
            guard let place = try transaction.instances.locateFormer(token),
                place.project == number
            else { return nil }
            return try transaction.instances.instance(place.ordinal, in: number)?.token.text
        }
    }

    /// TTL-1: longest time to live of the project's messages, in seconds.
    package func timeToLiveSecondsMax() -> UInt32 {
        let projectID = project.id
        let found = try? broker.read { (transaction) throws in
            try Authentication.project(id: projectID, in: transaction)
        }
        let own: Int? = found.flatMap { $0.limits[.timeToLiveSeconds] }
        return UInt32(clamping: own ?? broker.limits.timeToLiveSecondsMax)
    }

    // MARK: Messages of devices

    /// UPS-1: begins to listen for messages of devices. Called once.
    package func listen() {
        let (tell, project) = (tell, number)
        let listener = broker.committer.upstream.listen(
            to: project,
            .caller { messages in
                guard !messages.isEmpty else { return tell(.closed) }
                // Each message was checked when it was accepted.
                tell(.messages(messages.compactMap { try? DeviceMessage($0) }))
            })
        let isLate = state.withLock { state in
            state.listener = state.hasEnded ? nil : listener
            return state.hasEnded
        }
        if isLate { broker.committer.upstream.leave(listener) }
        broker.committer.wake()
    }

    /// Takes no further message of a device. Messages that were not sent go to others.
    /// - Parameter sent: numbers of the messages that were sent, and may still be acknowledged.
    package func retire(keeping sent: Set<UInt64>) {
        guard let listener = state.withLock({ $0.listener }) else { return }
        broker.committer.upstream.retire(listener, keeping: sent)
        broker.committer.wake()
    }

    /// The messages that are with this sender and not acknowledged by any sender.
    package func held() -> Set<UInt64> {
        guard let listener = state.withLock({ $0.listener }) else { return [] }
        return broker.committer.upstream.held(by: listener)
    }

    /// Reads messages again that are with this sender. A missing message was acknowledged elsewhere, or has expired.
    package func messages(_ numbers: [UInt64]) throws(MartletError) -> [DeviceMessage] {
        let (project, now) = (number, broker.clock())
        let found = try broker.read { (transaction) throws in
            try UpstreamMessage.find(
                UpstreamMessage.Wanted(project: project, numbers: numbers), now: now, transaction)
        }
        return found.again.compactMap { try? DeviceMessage($0) }
    }

    /// Forgets messages that nobody can get any more, so that they take no place.
    package func drop(_ numbers: [UInt64]) {
        guard !numbers.isEmpty else { return }
        broker.committer.upstream.taken(numbers, in: number)
        broker.committer.wake()
    }

    /// Acknowledges messages.
    /// - Parameter tell: called once; false if the store refused, and the call must be repeated.
    package func take(_ numbers: [UInt64], then tell: @escaping @Sendable (Bool) -> Void) {
        broker.submit(.takeUpstream(project: number, numbers: numbers)) { outcome in
            if case .refused = outcome { tell(false) } else { tell(true) }
        }
    }

    // MARK: Receipts

    /// RCP-1: receipts of the project behind an event, in the order of events.
    package func receipts(
        after event: UInt64, limit: Int
    ) throws(MartletError) -> [DeliveryReceipt] {
        let (number, projectID) = (number, project.id)
        let page = try broker.read { (transaction) throws in
            try Receipt.page(after: event, limit: limit, in: number, transaction)
        }
        return page.map { receipt in
            DeliveryReceipt(
                messageID: MessageID.text(receipt.messageNumber, projectID: projectID),
                token: receipt.token.text, kind: receipt.kind, instant: receipt.at,
                eventID: receipt.event)
        }
    }

    /// Deletes the receipts up to an event. If the store refuses, the receipts stay until the next call.
    package func takeReceipts(through event: UInt64) {
        broker.submit(.takeReceipts(project: number, through: event)) { _ in }
    }
}

extension Broker {
    /// Signs a sender in at a door (REG-5, QUO-3). The connection counts until `DoorSender.end()`.
    /// - Parameters:
    ///   - serverKey: the presented key. An access token is refused.
    ///   - isSender: whether the key's project is the sender that the peer named.
    ///   - tell: called on any thread, which it must not hold up.
    /// - Throws: `UNAUTHENTICATED` for the key, or for the key of another project; `RESOURCE_EXHAUSTED` with a retry
    ///   delay if the project's senders have too many connections.
    package func signIn(
        serverKey: String, where isSender: (ProjectSummary) -> Bool,
        tell: @escaping @Sendable (DoorSender.Event) -> Void
    ) throws(MartletError) -> DoorSender {
        try DoorSender(self, serverKey: serverKey, where: isSender, tell)
    }
}
