// SPDX-License-Identifier: Apache-2.0
//
// Verifies the tickets of new devices, a few per turn (REG-7). The signature of a ticket costs the loop up to a tenth of a
// millisecond before the peer has proved anything, so a turn verifies few tickets, and further ones wait. Addresses have
// turns: a stranger with a thousand tickets waits for itself. Rests on AddressTurns and the checks of Registration.

import MartletBase
import MartletEngine
import MartletThreads
import MartletTransport
import MartletWire

/// A HELLO with a ticket that is not verified yet.
struct WaitingTicket {
    let id: ConnectionID
    let hello: Hello
    let charge: RequestCharge
    let frameBytes: Int
}

/// Tickets to be verified, and how many this turn may still verify.
struct Tickets {
    var waiting = AddressTurns<WaitingTicket>()
    var left = 0
}

extension Loop where Kernel: ~Copyable {
    /// Tickets verified in a turn: with RSA of 4096 bits some 1.5 ms.
    static var ticketsPerTurn: Int { 16 }
    /// Waiting tickets of an address. All waiting tickets count as memory of strangers.
    static var ticketsPerAddressMax: Int { 1024 }

    /// Registers a new device, or has its ticket wait.
    mutating func admit(
        _ hello: Hello, _ connection: UnsafeMutablePointer<Connection>
    ) throws {
        guard case .newDevice(_, _, _, .ticket) = hello else {
            return try register(hello, connection)
        }
        guard tickets.left == 0 || !tickets.waiting.isEmpty else {
            tickets.left -= 1
            return try register(hello, connection)
        }
        let network = address(of: connection).network
        guard tickets.waiting.count(of: network) < Self.ticketsPerAddressMax else {
            context.strangers.turnAway()
            throw MartletError(
                .resourceExhausted, "Too many tickets of this address wait; try again.",
                retryDelayMilliseconds: 1000)
        }
        let charge = try charge(connection)
        tickets.waiting.append(
            WaitingTicket(
                id: connection.pointee.id, hello: hello, charge: charge,
                frameBytes: memory.servedBytes),
            of: network)
        connection.pointee.phase = .awaitingWelcome
    }

    /// Begins the turn's verifications with the tickets that wait.
    mutating func goOnWithTickets() {
        tickets.left = Self.ticketsPerTurn
        while tickets.left > 0, let next = tickets.waiting.next() {
            guard let connection = settled(next.id, next.charge) else { continue }
            guard connection.pointee.phase == .awaitingWelcome else {
                resumeIfDrained(connection)
                closeIfDone(connection)
                continue
            }
            tickets.left -= 1
            memory.servedBytes = next.frameBytes
            connection.pointee.phase = .hello
            do {
                do { try register(next.hello, connection) } catch let error as MartletError {
                    if try !holdForNewer(next.hello, error, connection) {
                        try refuse(next.hello, error, connection)
                    }
                }
            } catch {
                fail(connection, for: error)
                if !connection.pointee.isApp { chargeUnfinished(connection) }
            }
        }
    }

    /// Checks what a new device presents, and asks for its registration. REG-8: a device that may not register costs
    /// its address nothing, because other devices of the address may.
    mutating func register(
        _ hello: Hello, _ connection: UnsafeMutablePointer<Connection>
    ) throws {
        guard case .newDevice(let projectID, let appName, let platform, let credential) = hello
        else { return }
        let deviceKey = Credentials.deviceKey()
        let new = try NewInstance(
            admitting: credential, to: projectID, app: appName, platform: platform,
            deviceKey: deviceKey, now: context.clock(), store: context.store)
        try context.strangers.register(from: address(of: connection))
        try ask(.register(new), 0, connection, .registration(deviceKey: deviceKey))
        connection.pointee.phase = .awaitingWelcome
    }
}
