// SPDX-License-Identifier: Apache-2.0
//
// A loop of a cluster's node, whose store may lag behind the log (OPS-7): a follower's by some milliseconds, the active node's
// while a row is under way. Such a store must not refuse a client for good. If it refuses a HELLO, we look at the HELLO again
// once the store has all rows that the log had when it came. Rests on BrokerNode.

import MartletBase
import MartletCommitter
import MartletEngine
import MartletRows
import MartletThreads
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
    /// Whether other nodes' word will do while the log doesn't answer.
    var mayBeOld = false
    /// The loop's second until which it waits in any case.
    var earliest: UInt32 = 0
}

extension MartletError {
    /// Refuses a client while other nodes may have news that we lack (OPS-7).
    fileprivate static var unknownNews: MartletError {
        MartletError(
            .unavailable,
            """
            This node of the cluster may lack news of the others, because the log does not answer it; connect to \
            another node.
            """, retryDelayMilliseconds: 1000)
    }

    /// Whether clients give up after this error.
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

/// The HELLOs that wait for a newer store.
struct HeldHellos {
    var held: [HeldHello] = []
    /// Whether some of them need not wait.
    var mustLookAgain = false
    /// Whether the loop is taking messages, and has perhaps more of them to handle.
    var isTakingMessages = false
}

extension Loop where Kernel: ~Copyable {
    /// Holds a HELLO that our store would refuse for good, until the store is as new as the HELLO.
    /// - Returns: false if the refusal stands.
    mutating func holdForNewer(
        _ hello: Hello, _ error: MartletError, _ connection: UnsafeMutablePointer<Connection>
    ) throws(MartletError) -> Bool {
        guard let node = context.committer.node, error.isFinal else { return false }
        let now = SystemClock.monotonicNanoseconds()
        hold(
            HeldHello(
                id: connection.pointee.id, hello: hello, charge: try charge(connection),
                frameBytes: memory.servedBytes, since: now), connection, node)
        // Even if the store has everything now, it may have been older when we read it.
        if node.isCurrent(at: now) {
            hellos.mustLookAgain = true
        } else {
            transport.wake(context.committerAddress, value: 1)
        }
        return true
    }

    /// Holds a device's HELLO until the store has the acknowledgements that another node has confirmed (TTL-4). The device has
    /// forgotten those messages, and would take them for new if an old store sent them again. While the log is away we hold
    /// senders' HELLOs too, because a key may have been revoked. Then other nodes may say that the store lacks nothing
    /// (`NodeWord`); otherwise the HELLO is refused.
    /// - Returns: whether the HELLO waits.
    mutating func holdForMarks(
        _ hello: Hello, _ connection: UnsafeMutablePointer<Connection>
    ) throws(MartletError) -> Bool {
        guard let node = context.committer.node else { return false }
        let isDevice = if case .device = hello { true } else { false }
        if !isDevice {
            guard case .sender = hello, node.trouble != nil else {
                return false
            }
        }
        let now = SystemClock.monotonicNanoseconds()
        // The device may have had a now-or-never message over another node (TTL-2). The news of it is in our inbox, so
        // empty that first, even if the log is away.
        let isCurrent =
            isNew(node, at: now) && (!isDevice || hasAllMessages(before: now))
        guard !isCurrent || context.inbox.count > 0 || hellos.isTakingMessages else { return false }
        hold(
            HeldHello(
                id: connection.pointee.id, hello: hello, charge: try charge(connection),
                frameBytes: memory.servedBytes, since: now, mayBeOld: true), connection, node)
        if isCurrent {
            hellos.mustLookAgain = true
        } else {
            transport.wake(context.committerAddress, value: 1)
        }
        return true
    }

    /// Holds a device's HELLO that came while the loop was away, for at least a second: until the loop's next second but one
    /// (OPS-7). The device may have given up and connected to another node; by then we have seen its connection here end. If
    /// we answered at once, the dead connection would count as the later one, and *replaced* would close the living one for
    /// good.
    /// - Returns: false if the loop was not away.
    mutating func holdAfterAbsence(
        _ hello: Hello, _ connection: UnsafeMutablePointer<Connection>
    ) throws(MartletError) -> Bool {
        guard time.second < time.returnEnds, let node = context.committer.node,
            case .device = hello
        else { return false }
        hold(
            HeldHello(
                id: connection.pointee.id, hello: hello, charge: try charge(connection),
                frameBytes: memory.servedBytes, since: SystemClock.monotonicNanoseconds(),
                mayBeOld: true, earliest: time.second &+ 2), connection, node)
        transport.wake(context.committerAddress, value: 1)
        return true
    }

    /// Whether the store is as new as a device needs it (TTL-4).
    /// - Parameter isLast: whether the device will wait no longer.
    private func isNew(
        _ node: any BrokerNode, at nanoseconds: UInt64, isLast: Bool = false
    ) -> Bool {
        node.isCurrent(at: nanoseconds)
            || node.isNewWithoutLog(at: nanoseconds, isLast: isLast)
    }

    /// Whether our inbox has every message that a device may have had over another node (TTL-2).
    private func hasAllMessages(before nanoseconds: UInt64) -> Bool {
        context.committer.node?.hasAllMessages(before: nanoseconds) ?? true
    }

    private mutating func hold(
        _ held: HeldHello, _ connection: UnsafeMutablePointer<Connection>, _ node: any BrokerNode
    ) {
        hellos.held.append(held)
        connection.pointee.phase = .awaitingWelcome
        node.beginWait(since: held.since)
    }

    /// Looks again at HELLOs that were waiting for the store as it is now.
    mutating func lookAgain() {
        hellos.mustLookAgain = false
        guard let node = context.committer.node, !hellos.held.isEmpty else { return }
        let now = SystemClock.monotonicNanoseconds()
        var held: [HeldHello] = []
        swap(&held, &hellos.held)
        // Loops hear of a row before the store counts as having it. So first take what we have been told so far: a now-or-never
        // message is then not for the device's new connection (TTL-2).
        let looks = held.map { one in
            let isCurrent = node.isCurrent(at: one.since)
            let isLate = now - one.since > node.questionNanoseconds
            let isNewEnough =
                one.mayBeOld ? isNew(node, at: one.since, isLast: isLate) : isCurrent
            guard case .device = one.hello else {
                return (isCurrent, isNewEnough, mayOpen: isNewEnough || isLate)
            }
            if isLate { node.giveUpMessages(at: one.since) }
            return (
                isCurrent, isNewEnough,
                mayOpen: isNewEnough && hasAllMessages(before: one.since) || isLate
            )
        }
        handleMessages()
        for (one, (isCurrent, isNewEnough, mayOpen)) in zip(held, looks) {
            guard time.second >= one.earliest, mayOpen else {
                hellos.held.append(one)
                continue
            }
            node.endWait()
            guard let connection = settled(one.id, one.charge) else { continue }
            guard connection.pointee.phase == .awaitingWelcome else {
                resumeIfDrained(connection)
                closeIfDone(connection)
                continue
            }
            memory.servedBytes = one.frameBytes
            connection.pointee.phase = .hello
            do {
                guard isNewEnough else {
                    throw MartletError.unknownNews
                }
                do {
                    // The new device's ticket has been verified, so its turn is over.
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

    /// Makes all devices here connect again, because their connections count as lost.
    mutating func endRun() {
        for index in places.taken {
            let connection = places[index]
            guard case .device = connection.pointee.principal else { continue }
            fail(
                connection,
                MartletError(
                    .unavailable, "The cluster has counted this node as gone; connect again.",
                    retryDelayMilliseconds: context.configuration.reconnectDelayMilliseconds))
        }
    }
}
