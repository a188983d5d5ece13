// SPDX-License-Identifier: Apache-2.0
//
// A loop on a cluster's node, whose store may lag behind the log (OPS-7). The store of a follower is behind the active node's
// by some milliseconds, and the active node's own store is behind the log while a row is under way. No client is refused for
// good by such a store: a HELLO that the store refuses is looked at again when the store has all rows that the log had at the
// HELLO. Rests on ClusterState.

import MartletBase
import MartletCluster
import MartletEngine
import MartletRows
import MartletTransport
import MartletWire
import Synchronization

/// A HELLO that a newer store may accept.
struct HeldHello {
    let id: ConnectionID
    let hello: Hello
    let charge: RequestCharge
    let frameBytes: Int
    /// When the HELLO came, in nanoseconds of the monotonic clock.
    let since: UInt64
    /// Whether the word of other nodes is enough while the log does not answer.
    var mayBeOld = false
    /// The second of the loop before which the HELLO waits in any case.
    var earliest: UInt32 = 0
}

extension MartletError {
    /// OPS-7: the refusal of a client while other nodes may have news that this node lacks.
    fileprivate static var unknownNews: MartletError {
        MartletError(
            .unavailable,
            """
            This node of the cluster may lack news of the others, because the log does not answer it; connect to \
            another node.
            """, retryDelayMilliseconds: 1000)
    }

    /// Whether clients do not try again after the error.
    fileprivate var isFinal: Bool {
        switch word {
        case .invalidArgument, .unauthenticated, .permissionDenied, .notFound, .alreadyExists,
            .unregistered, .senderIDMismatch, .tooManyTopics, .replaced:
            true
        case .unavailable, .resourceExhausted, .quotaExceeded, .internal, .deadlineExceeded,
            .protocolViolation, .thirdPartyAuthError:
            false
        }
    }
}

extension Loop where Kernel: ~Copyable {
    /// Holds a HELLO that the store of this node refuses for good, until the store is as new as the HELLO.
    /// - Returns: false if the refusal stands.
    mutating func holdForNewer(
        _ hello: Hello, _ error: MartletError, _ connection: UnsafeMutablePointer<Connection>
    ) throws(MartletError) -> Bool {
        guard let cluster = context.committer.cluster, error.isFinal else { return false }
        let now = SystemClock.monotonicNanoseconds()
        hold(
            HeldHello(
                id: connection.pointee.id, hello: hello, charge: try charge(connection),
                frameBytes: servedBytes, since: now), connection, cluster)
        // Also a store that has everything now may have been older at the reading before.
        if cluster.isCurrent(at: now) {
            mustLookAgain = true
        } else {
            transport.wake(context.committerAddress, value: 1)
        }
        return true
    }

    /// TTL-4: holds the HELLO of a device until the store has the acknowledgements that another node has confirmed. The
    /// device has forgotten these messages, and would take a message of an old store for a new one. While the log is
    /// away, the HELLO of a sender is held too, whose key may be revoked. Other nodes may say then that the store lacks
    /// nothing (`NodeWord`), or else the HELLO is refused.
    /// - Returns: whether the HELLO waits.
    mutating func holdForMarks(
        _ hello: Hello, _ connection: UnsafeMutablePointer<Connection>
    ) throws(MartletError) -> Bool {
        guard let cluster = context.committer.cluster else { return false }
        let isDevice = if case .device = hello { true } else { false }
        if !isDevice {
            guard case .sender = hello, context.committer.clusterTrouble != nil else {
                return false
            }
        }
        let now = SystemClock.monotonicNanoseconds()
        // TTL-2: a message that is not stored may have come to the device over another node. The news of such a message
        // are in the inbox of the loop, so the inbox is emptied first. A log that is away does not excuse from that.
        let isCurrent =
            isNew(cluster, at: now) && (!isDevice || hasAllMessages(before: now))
        guard !isCurrent || context.inbox.count > 0 || isTakingMessages else { return false }
        hold(
            HeldHello(
                id: connection.pointee.id, hello: hello, charge: try charge(connection),
                frameBytes: servedBytes, since: now, mayBeOld: true), connection, cluster)
        if isCurrent {
            mustLookAgain = true
        } else {
            transport.wake(context.committerAddress, value: 1)
        }
        return true
    }

    /// OPS-7, NET-11: milliseconds between two turns after which the loop was away: the process was frozen, or had no processor. A
    /// loop waits for events for a second at most, and a device may be connected to another node before a lease ends.
    static var awayMilliseconds: Int64 { 2000 }
    /// OPS-7: seconds after an absence in which HELLOs of devices are held. A connection that the kernel has taken
    /// meanwhile is read from some turns later.
    static var returnSeconds: UInt32 { 2 }

    /// OPS-7: holds the HELLO of a device that came while the loop was away, until the loop's next second but one, which is
    /// a second later at least. The device may have given up, and may be connected to another node. The end of its
    /// connection here is then among the events until that second. Answered at once, the dead connection would be the
    /// later one, and *replaced* would end the living connection for good.
    /// - Returns: false if the loop was not away.
    mutating func holdAfterAbsence(
        _ hello: Hello, _ connection: UnsafeMutablePointer<Connection>
    ) throws(MartletError) -> Bool {
        guard lastTick < returnEnds, let cluster = context.committer.cluster,
            case .device = hello
        else { return false }
        hold(
            HeldHello(
                id: connection.pointee.id, hello: hello, charge: try charge(connection),
                frameBytes: servedBytes, since: SystemClock.monotonicNanoseconds(),
                mayBeOld: true, earliest: lastTick &+ 2), connection, cluster)
        transport.wake(context.committerAddress, value: 1)
        return true
    }

    /// TTL-4: whether the store is as new as a device needs it.
    /// - Parameter isLast: whether the device waits no longer.
    private func isNew(
        _ cluster: ClusterState, at nanoseconds: UInt64, isLast: Bool = false
    ) -> Bool {
        cluster.isCurrent(at: nanoseconds)
            || context.committer.isNewWithoutLog(at: nanoseconds, isLast: isLast)
    }

    /// TTL-2: whether the inbox of the loop has all messages that a device may have got over another node.
    private func hasAllMessages(before nanoseconds: UInt64) -> Bool {
        context.committer.links?.live.hasAllMessages(before: nanoseconds) ?? true
    }

    private mutating func hold(
        _ held: HeldHello, _ connection: UnsafeMutablePointer<Connection>, _ cluster: ClusterState
    ) {
        helloHeld.append(held)
        connection.pointee.phase = .awaitingWelcome
        cluster.beginWait(since: held.since)
    }

    /// Looks again at the HELLOs that waited for the present state of the store.
    mutating func lookAgain() {
        mustLookAgain = false
        guard let cluster = context.committer.cluster, !helloHeld.isEmpty else { return }
        let now = SystemClock.monotonicNanoseconds()
        var held: [HeldHello] = []
        swap(&held, &helloHeld)
        // The loops are told of a row before a store with the row counts as new. So the loop first takes what it was
        // told until the look: a message that is not stored is then not for the device's new connection (TTL-2).
        let looks = held.map { one in
            let isCurrent = cluster.isCurrent(at: one.since)
            let isLate = now - one.since > ClusterLimits.questionNanoseconds
            let isNewEnough =
                one.mayBeOld ? isNew(cluster, at: one.since, isLast: isLate) : isCurrent
            guard case .device = one.hello else {
                return (isCurrent, isNewEnough, mayOpen: isNewEnough || isLate)
            }
            if isLate { context.committer.links?.live.giveUp(at: one.since) }
            return (
                isCurrent, isNewEnough,
                mayOpen: isNewEnough && hasAllMessages(before: one.since) || isLate
            )
        }
        isTakingMessages = true
        for message in context.inbox.drain() { handle(message) }
        isTakingMessages = false
        for (one, (isCurrent, isNewEnough, mayOpen)) in zip(held, looks) {
            guard lastTick >= one.earliest, mayOpen else {
                helloHeld.append(one)
                continue
            }
            cluster.waiterCount.subtract(1, ordering: .relaxed)
            guard let connection = settled(one.id, one.charge) else { continue }
            guard connection.pointee.phase == .awaitingWelcome else {
                resumeIfDrained(connection)
                closeIfDone(connection)
                continue
            }
            servedBytes = one.frameBytes
            connection.pointee.phase = .hello
            do {
                guard isNewEnough else {
                    throw MartletError.unknownNews
                }
                do {
                    // A ticket of a new device has been verified, so its turn is over.
                    if case .newDevice = one.hello {
                        try register(one.hello, connection)
                    } else {
                        try open(one.hello, connection)
                    }
                } catch let error as MartletError {
                    guard isCurrent || !error.isFinal else {
                        throw MartletError.unknownNews
                    }
                    try refuse(one.hello, error, connection)
                }
            } catch {
                fail(connection, for: error)
                if !connection.pointee.isApp { chargeUnfinished(connection) }
            }
            resumeIfDrained(connection)
            closeIfDone(connection)
        }
    }

    /// Has all devices of the loop connect again, because their connections count as lost.
    mutating func endRun() {
        for index in places where isOccupied[index] {
            let connection = connections + index
            guard case .device = connection.pointee.principal else { continue }
            fail(
                connection,
                MartletError(
                    .unavailable, "The cluster has counted this node as gone; connect again.",
                    retryDelayMilliseconds: context.configuration.reconnectDelayMilliseconds))
        }
    }
}
