// SPDX-License-Identifier: Apache-2.0
//
// Brings messages from devices to the senders that listen on this loop (UPS-1). The committer assigns the messages to the
// listeners. The loop tells the committer when listeners come and go, and sends messages as far as queues have room. For a
// waiting message the loop keeps only the number, so senders that do not read cost no memory. The message is read again when
// the queue has room. Rests on UpstreamBook and MartletWire.

import Logging
import MartletBase
import MartletCommitter
import MartletDelivery
import MartletEngine
import MartletStore
import MartletThreads
import MartletTransport
import MartletWire

/// A sender that listens on a connection.
struct UpstreamListener {
    let connection: ConnectionID
    let project: ProjectNumber
    /// Numbers of messages that wait for room in the queue, at most `Limits.upstreamWindow`
    /// (`boundWaitingUpstream`).
    var waiting: [UInt64] = []
    /// The highest number sent to the listener.
    var sentThrough: UInt64 = 0
    /// Acknowledged numbers to be repeated, because the store refused them.
    var untold: Set<UInt64> = []
}

extension Loop where Kernel: ~Copyable {
    /// Waiting messages read in a snapshot.
    private static var upstreamPerRead: Int { 16 }

    mutating func listenUpstream(
        _ connection: UnsafeMutablePointer<Connection>, _ project: ProjectNumber
    ) {
        guard connection.pointee.upstreamListener == 0, connection.pointee.phase == .open else {
            return
        }
        let number = context.committer.upstream.listen(to: project, .loop(context.number))
        connection.pointee.upstreamListener = number
        listeners.upstream[number] = UpstreamListener(
            connection: connection.pointee.id, project: project)
        transport.wake(context.committerAddress, value: 1)
    }

    /// Ends a listener. Its unacknowledged messages go to other listeners.
    mutating func leaveUpstream(_ connection: UnsafeMutablePointer<Connection>) {
        let number = connection.pointee.upstreamListener
        guard number != 0 else { return }
        connection.pointee.upstreamListener = 0
        listeners.upstream[number] = nil
        context.committer.upstream.leave(number)
        transport.wake(context.committerAddress, value: 1)
    }

    mutating func sendUpstream(_ messages: [UpstreamMessage], to number: UInt64) {
        for message in messages {
            // If the listener has left, its messages are handed out again.
            guard let listener = listeners.upstream[number] else { return }
            if listener.waiting.isEmpty, hasRoom(listener) {
                send(message, to: number)
            } else if message.expires > message.accepted {
                listeners.upstream[number]?.waiting.append(message.number)
            } else {
                // A now-or-never message without room is dropped.
                context.committer.upstream.taken([message.number], in: listener.project)
            }
        }
        boundWaitingUpstream(of: number)
    }

    /// Drops waiting messages that other listeners have acknowledged. A message leaves the listener's window with
    /// such an acknowledgement, so more messages than a window may have come.
    private mutating func boundWaitingUpstream(of number: UInt64) {
        guard listeners.upstream[number]?.waiting.count ?? 0 > Limits.upstreamWindow else { return }
        let held = context.committer.upstream.held(by: number)
        listeners.upstream[number]?.waiting.removeAll { !held.contains($0) }
    }

    /// Sends waiting messages as far as the queue has room.
    mutating func sendUpstream(to number: UInt64) {
        while number != 0, let listener = listeners.upstream[number], !listener.waiting.isEmpty,
            hasRoom(listener)
        {
            let numbers = Array(listener.waiting.prefix(Self.upstreamPerRead))
            let now = context.clock()
            let found: UpstreamMessage.Found
            do {
                found = try context.store.read { (transaction) throws in
                    try UpstreamMessage.find(
                        UpstreamMessage.Wanted(project: listener.project, numbers: numbers),
                        now: now, transaction)
                }
            } catch {
                context.logger.error(
                    "messages of devices could not be read", metadata: ["error": "\(error)"])
                return
            }
            listeners.upstream[number]?.waiting.removeFirst(numbers.count)
            // A missing message was taken elsewhere, or has expired.
            let left = Set(numbers).subtracting(found.again.map(\.number))
            if !left.isEmpty {
                context.committer.upstream.taken(left.sorted(), in: listener.project)
                transport.wake(context.committerAddress, value: 1)
            }
            for message in found.again { send(message, to: number) }
        }
    }

    /// Sends messages that waited for memory, and repeats acknowledgements after a refusal by the store.
    mutating func goOnWithUpstream() {
        for (number, listener) in listeners.upstream.sorted(by: { $0.key < $1.key }) {
            sendUpstream(to: number)
            guard !listener.untold.isEmpty, let connection = connection(listener.connection) else {
                continue
            }
            listeners.upstream[number]?.untold = []
            let numbers = listener.untold.sorted()
            do throws(MartletError) {
                try askToTake(numbers, in: listener.project, connection)
            } catch {
                notTaken(numbers, connection)
            }
        }
    }

    /// Keeps acknowledgements after a refusal by the store, to tell the store again. The sender does not repeat
    /// the acknowledgements, and the messages would fill its window for ever.
    mutating func notTaken(
        _ numbers: [UInt64], _ connection: UnsafeMutablePointer<Connection>
    ) {
        let listener = connection.pointee.upstreamListener
        // A sender may acknowledge any numbers, but has at most a window of messages.
        for message in numbers {
            guard listeners.upstream[listener]?.untold.count ?? 0 < Limits.upstreamWindow else {
                return
            }
            listeners.upstream[listener]?.untold.insert(message)
        }
    }

    private func hasRoom(_ listener: UpstreamListener) -> Bool {
        hasRoomForFrames && delivery.hasRoom(listener.connection.index)
            && connection(listener.connection)?.pointee.phase == .open
    }

    private mutating func send(_ message: UpstreamMessage, to number: UInt64) {
        guard let listener = listeners.upstream[number],
            let connection = connection(listener.connection)
        else { return }
        listeners.upstream[number]?.sentThrough = max(listener.sentThrough, message.number)
        send(
            .upstreamMessage(UpstreamDelivery(message)), to: connection)
    }

    /// Takes a sender's acknowledgements. A late acknowledgement counts too: the message then goes to no
    /// further sender.
    mutating func takeUpstream(
        _ numbers: [UInt64], _ connection: UnsafeMutablePointer<Connection>
    ) throws(MartletError) {
        let project = try connection.pointee.principal.senderProject()
        let sentThrough =
            listeners.upstream[connection.pointee.upstreamListener]?.sentThrough ?? 0
        guard numbers.allSatisfy({ $0 <= sentThrough }) else {
            throw MartletError(
                .protocolViolation,
                "A message of a device that was never sent was acknowledged.")
        }
        if !numbers.isEmpty { try askToTake(numbers, in: project, connection) }
    }

    private mutating func askToTake(
        _ numbers: [UInt64], in project: ProjectNumber,
        _ connection: UnsafeMutablePointer<Connection>
    ) throws(MartletError) {
        try ask(
            .takeUpstream(project: project, numbers: numbers), 0, connection,
            .upstreamTaken(numbers))
    }
}
