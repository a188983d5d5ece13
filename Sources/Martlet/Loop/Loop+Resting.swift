// SPDX-License-Identifier: Apache-2.0
//
// A loop on a drained node (OPS-7). Devices and senders are told to go, as when the broker stops, and their connections close
// once their requests are answered. The loop goes on, and refuses new devices and senders until the node is undrained.
// Administrators stay, because that is what commands on the node's machine are. Rests on Loop.

import MartletBase
import MartletCommitter
import MartletTransport
import MartletWire

/// Whether the loop drains or rests. A resting loop may begin to drain.
struct Ending {
    /// The broker stops: the loop ends with its last connection.
    private(set) var isDraining = false
    /// OPS-7: the node is drained: the loop refuses devices and senders.
    private(set) var isResting = false
    /// OPS-7: connections of a drained node have still to end.
    var isEmptying = false
    /// When the loop began to drain or rest, in seconds of its clock.
    private var began: UInt32 = 0
    /// When the loop stops waiting for peers to read the last frames, in milliseconds of the monotonic clock.
    var lingerUntil: Int64 = 0

    mutating func drain(_ now: UInt32) {
        isDraining = true
        began = now
    }

    /// - Returns: false if the loop rests already, or rests no longer.
    mutating func rest(_ isResting: Bool, _ now: UInt32) -> Bool {
        guard isResting != self.isResting else { return false }
        self.isResting = isResting
        guard isResting else { return false }
        began = now
        return true
    }

    /// Whether connections have had `spans` times the time that a closing connection has.
    func isLate(_ now: UInt32, spans: UInt32 = 1) -> Bool {
        now &- began >= spans * Connection.closingSecondsMax
    }
}

extension Loop where Kernel: ~Copyable {
    /// Begins or ends the loop's rest.
    mutating func rest(_ isResting: Bool) {
        guard ending.rest(isResting, time.second) else { return }
        let delay = context.configuration.reconnectDelayMilliseconds
        for index in places.taken where isLeaving(index) {
            send(.draining(Draining(reconnectDelayMilliseconds: delay)), to: places[index])
        }
        ending.isEmptying = true
    }

    private func isLeaving(_ index: UInt32) -> Bool {
        let connection = places[index]
        guard !connection.pointee.isApp, connection.pointee.phase == .open else { return false }
        if case .administrator = connection.pointee.principal { return false }
        return true
    }

    /// Closes connections that have no open requests, and after some seconds all. Called in each turn while there are any
    /// left, and once a second, because a registration may still turn into a connection.
    mutating func goOnEmptying(_ now: UInt32) {
        let isLate = ending.isLate(now)
        ending.isEmptying = false
        for index in places.taken where isLeaving(index) {
            let connection = places[index]
            if connection.pointee.outstanding == 0, queuedBytes(connection) == 0 {
                linger(connection)
            } else if isLate {
                close(connection)
            } else {
                ending.isEmptying = true
            }
        }
    }

    /// - Throws: `UNAVAILABLE` for devices and senders of a drained node.
    func requireWork(_ hello: Hello) throws(MartletError) {
        guard ending.isResting else { return }
        if case .administrator = hello { return }
        var error = MartletError.drained
        error.retryDelayMilliseconds = context.configuration.reconnectDelayMilliseconds
        throw error
    }
}
