// SPDX-License-Identifier: Apache-2.0
//
// A loop on a drained node (OPS-7). Devices and senders are told to go, as when the broker stops, and their connections close
// once their requests are answered. The loop goes on, and refuses new devices and senders until the node is undrained.
// Administrators stay, because that is what commands on the node's machine are. Rests on Loop.

import MartletBase
import MartletCommitter
import MartletTransport
import MartletWire

extension Loop where Kernel: ~Copyable {
    /// Begins or ends the loop's rest.
    mutating func rest(_ isResting: Bool) {
        guard isResting != self.isResting else { return }
        self.isResting = isResting
        guard isResting else { return }
        drainBegan = lastTick
        let delay = context.configuration.reconnectDelayMilliseconds
        for index in places where isLeaving(index) {
            send(.draining(Draining(reconnectDelayMilliseconds: delay)), to: connections + index)
        }
        isEmptying = true
    }

    private func isLeaving(_ index: Int) -> Bool {
        guard isOccupied[index] else { return false }
        let connection = connections + index
        guard !connection.pointee.isApp, connection.pointee.phase == .open else { return false }
        if case .administrator = connection.pointee.principal { return false }
        return true
    }

    /// Closes connections that have no open requests, and after some seconds all. Called in each turn while there are any
    /// left, and once a second, because a registration may still turn into a connection.
    mutating func goOnEmptying(_ now: UInt32) {
        let isLate = now &- drainBegan >= Connection.closingSecondsMax
        isEmptying = false
        for index in places where isLeaving(index) {
            let connection = connections + index
            if connection.pointee.outstanding == 0, queuedBytes(connection) == 0 {
                linger(connection)
            } else if isLate {
                close(connection)
            } else {
                isEmptying = true
            }
        }
    }

    /// - Throws: `UNAVAILABLE` for devices and senders of a drained node.
    func requireWork(_ hello: Hello) throws(MartletError) {
        guard isResting else { return }
        if case .administrator = hello { return }
        var error = MartletError.drained
        error.retryDelayMilliseconds = context.configuration.reconnectDelayMilliseconds
        throw error
    }
}
