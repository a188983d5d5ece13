// SPDX-License-Identifier: Apache-2.0
//
// A loop on a drained node (OPS-7). Devices and senders are told to go as at the broker's end, and their connections end when
// their requests are answered. The loop goes on, and refuses new devices and senders until the node is undrained.
// Administrators stay, because commands on the node's machine are administrators. Rests on Loop.

import MartletBase
import MartletTransport
import MartletWire

extension Loop where Kernel: ~Copyable {
    /// Begins or ends the rest of the loop.
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

    /// Ends connections without open requests, and after some seconds all connections. Called in each turn while
    /// connections have still to end, and once a second, because a registration may end in a connection meanwhile.
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
