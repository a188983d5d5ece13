// SPDX-License-Identifier: Apache-2.0
//
// Devices that were sent messages and have said nothing since (NET-11). Their network may be gone, or the system has
// frozen them. The kernel ends a connection without a network after 50 seconds (`ListeningSocket`), which is long for a
// message that a push service could deliver (GW-11). The door to push services asks once a second which of its devices
// answer on a connection of their own. A device of the question that has been silent for some seconds gets a PING, which
// each living client answers at once, however long its app takes for a message. Without an answer the connection ends,
// and the door takes over; a device that lives after all comes again, and drops what it gets twice.
//
// Other devices are not asked: nobody else could take their messages to them, and a PING wakes a radio. Rests on
// Delivery.

import MartletBase
import MartletBits
import MartletCommitter
import MartletDelivery
import MartletEngine
import MartletRows
import MartletStore
import MartletTransport
import MartletWire

/// A device's silence since a message.
struct Unheard {
    /// When the message was sent, and when the device was asked; seconds of the loop's clock.
    let since: UInt32
    var asked: UInt32?
}

/// The silent devices, by place.
struct Silence {
    /// NET-11: noted once a door to push services has asked for them.
    var unheard: [UInt32: Unheard] = [:]
    var hasDoor = false

    mutating func end(_ place: UInt32) { if !unheard.isEmpty { unheard[place] = nil } }
}

extension Loop where Kernel: ~Copyable {
    /// Seconds of silence after a message before a PING, and after the PING before the end.
    static var unheardSecondsMax: UInt32 { 5 }

    /// Notes devices that begin to be silent. Called once a second for each place.
    mutating func noteIfUnheard(_ connection: UnsafeMutablePointer<Connection>) {
        guard isUnheard(connection) else { return }
        let place = connection.pointee.id.index
        if silence.unheard[place] == nil {
            silence.unheard[place] = Unheard(since: connection.pointee.sendBegan)
        }
    }

    /// Forgets devices that were heard, have acknowledged, or are gone. Called once a second.
    mutating func forgetHeard() {
        for (place, one) in silence.unheard
        where !places.isTaken(place) || !isSilent(places[place], one) {
            silence.unheard[place] = nil
        }
    }

    /// Whether the device has said nothing since the message of the note. Newer messages make no difference.
    private func isSilent(
        _ connection: UnsafeMutablePointer<Connection>, _ one: Unheard
    ) -> Bool {
        Int32(bitPattern: one.since &- carrier(of: connection).pointee.since) > 0
            && delivery.awaitsAcknowledgement(connection.pointee.id.index)
    }

    /// A message in the second of the last sign of life does not count: the order is not known.
    private func isUnheard(_ connection: UnsafeMutablePointer<Connection>) -> Bool {
        guard connection.pointee.phase == .open, connection.pointee.principal.holder != nil,
            Int32(bitPattern: connection.pointee.sendBegan &- carrier(of: connection).pointee.since)
                > 0
        else { return false }
        return delivery.awaitsAcknowledgement(connection.pointee.id.index)
    }

    /// OPS-7: the door of the active node asks the loops of its own process alone, and takes a device at another node for one
    /// that answers. So the other nodes ask for it: their devices with an address at a push service. Called once a second.
    mutating func askForAnotherDoor() {
        guard context.committer.bridges.isForAnotherDoor else { return }
        silence.hasDoor = true
        var silent: [ProjectNumber: [Ordinal]] = [:]
        for (place, one) in silence.unheard where time.second &- one.since >= Self.unheardSecondsMax
        {
            guard places.isTaken(place),
                case .device(let project, let ordinal, _) = places[place].pointee.principal
            else { continue }
            silent[project, default: []].append(ordinal)
        }
        for (project, ordinals) in silent {
            // A store that cannot be read now is read a second later.
            let addressed = try? context.store.read { (transaction) throws in
                try ordinals.filter {
                    try transaction.bridges.bridging(of: $0, in: project) != nil
                }
            }
            guard let addressed, !addressed.isEmpty else { continue }
            askUnheard(among: RecipientSet.of(addressed), of: project)
        }
    }

    /// Asks the silent devices of a set, and ends the connections of those that have not answered.
    mutating func askUnheard(among recipients: RecipientSet, of project: ProjectNumber) {
        silence.hasDoor = true
        for (place, one) in silence.unheard {
            guard places.isTaken(place), isSilent(places[place], one),
                case .device(project, let ordinal, _) = places[place].pointee.principal,
                recipients.view.contains(ordinal),
                let mine = delivery.session(of: ordinal, in: project), mine.index == place,
                !ConnectionNumbers.isBridge(mine.connectionNumber),
                time.second &- (one.asked ?? one.since) >= Self.unheardSecondsMax
            else { continue }
            if one.asked != nil {
                silence.unheard[place] = nil
                close(places[place])
            } else {
                silence.unheard[place]?.asked = time.second
                send(.ping(Ping(value: 0)), to: carrier(of: places[place]))
            }
        }
    }
}
