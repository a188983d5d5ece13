// SPDX-License-Identifier: Apache-2.0
//
// Bounds on peers without a credential, over all loops of a broker and its gateway. A stranger is a connection before
// WELCOME, a shared connection before its first app, or an HTTP request with a wrong credential. The book bounds:
//
//   connections of an address before WELCOME     past the bound a new connection is closed at once
//   bytes of all strangers (NET-6)               past the bound the address that holds most loses its connections
//   registrations of an address (REG-8)          past the rate a registration is refused
//   wrong credentials of an address (REG-10)     past the rate the answer waits
//
// An address is an IPv4 address, or the first 64 bits of an IPv6 address. Rests on AddressTable.

package import MartletBase
import Synchronization

/// The strangers of a broker.
package final class StrangerBook: Sendable {
    private struct State: ~Copyable {
        let table = AddressTable()
        var bytes = 0
        /// Connections closed or refused for a bound by address.
        var turnedAway: UInt64 = 0
        var bytesMax: Int
        var registrationsPerSecond: Int
        var refusalsPerMinute: Int
        /// The configured number of connections of an address before WELCOME; 0: no bound.
        var handshakesWanted: Int
        /// A quarter of the broker's connections.
        var handshakesCeiling = Int.max
        /// Largest number of connections of an address before WELCOME; 0: no bound.
        var handshakesMax: Int { min(handshakesWanted, handshakesCeiling) }

        init(_ limits: BrokerLimits) {
            bytesMax = limits.strangerMegabytesMax.megabytes
            registrationsPerSecond = limits.registrationsPerSecondPerAddress
            refusalsPerMinute = limits.refusalsPerMinutePerAddress
            handshakesWanted = limits.handshakesPerAddressMax
        }

        mutating func bound(_ limits: BrokerLimits) {
            bytesMax = limits.strangerMegabytesMax.megabytes
            registrationsPerSecond = limits.registrationsPerSecondPerAddress
            refusalsPerMinute = limits.refusalsPerMinutePerAddress
            handshakesWanted = limits.handshakesPerAddressMax
        }
        /// The address that held most when it was last looked for, and the time in milliseconds of the monotonic
        /// clock.
        var largest: PeerAddress?
        var searched = Int64.min / 2
    }

    /// The outcome of a charge.
    enum Charge: Equatable {
        case taken
        /// The charge was taken. The connections of another address must end, because that address holds most.
        case takenFrom(PeerAddress)
        case refused
    }

    /// The treatment of a wrong credential.
    package enum Refusal: Sendable {
        /// The refusal is answered at once.
        case atOnce
        /// The refusal is answered after `waitMilliseconds`; then `settled` must be called.
        case later
        /// Too many refusals of the address wait already.
        case never
    }

    /// REG-10: how long the refusal of a wrong credential waits, in milliseconds.
    package static let waitMilliseconds: Int64 = 5000
    /// REG-10: refusals of an address that wait at a time.
    static let waitingMax: UInt32 = 64
    private static let minuteMilliseconds: Int64 = 60_000
    /// REG-8: seconds of the rate of registrations that an address may use at once, so that many new devices behind
    /// one address register together.
    static let burstSeconds = 100
    /// Milliseconds between two searches for the largest holder. A search looks at the whole table, some 0.1 ms.
    private static let searchMilliseconds: Int64 = 10

    private let monotonic: @Sendable () -> Int64
    private let state: Mutex<State>
    private let doors = Mutex<[@Sendable () -> DoorFigures]>([])

    init(_ limits: BrokerLimits, monotonic: @escaping @Sendable () -> Int64) {
        self.monotonic = monotonic
        state = Mutex(State(limits))
    }

    /// OPS-11: changes the bounds. What strangers hold above a lower bound stays until it ends.
    func change(_ limits: BrokerLimits) { state.withLock { $0.bound(limits) } }

    /// Bounds the connections of an address without WELCOME by a quarter of the broker's connections, which can be few:
    /// a process may have few descriptors.
    /// - Parameter connectionsMax: connections of all loops.
    func bound(connectionsMax: Int) {
        state.withLock { $0.handshakesCeiling = max(connectionsMax / 4, 1) }
    }

    // MARK: Connections

    /// Counts a new connection.
    /// - Returns: false if the address has too many connections before WELCOME; the connection is not counted.
    func arrive(_ address: PeerAddress) -> Bool {
        let now = monotonic()
        return state.withLock { state in
            let counts = state.table.counts(of: address.network, now: now)
            guard state.handshakesMax == 0 || counts.pointee.handshakes < state.handshakesMax
            else {
                state.turnedAway += 1
                return false
            }
            counts.pointee.handshakes += 1
            return true
        }
    }

    /// Notes the end of a connection, or its WELCOME.
    func leave(_ address: PeerAddress) {
        state.withLock { state in
            guard let counts = state.table.known(address.network) else { return }
            counts.pointee.handshakes -= min(counts.pointee.handshakes, 1)
        }
    }

    /// Counts a stranger that a loop has turned away.
    func turnAway() { state.withLock { $0.turnedAway += 1 } }

    // MARK: Doors

    /// What a door counts of its own strangers.
    package struct DoorFigures: Sendable {
        /// Bytes that the door holds for strangers.
        package var bytes: Int
        /// Strangers that a bound of the door turned away.
        package var turnedAway: UInt64

        package init(bytes: Int, turnedAway: UInt64) {
            self.bytes = bytes
            self.turnedAway = turnedAway
        }
    }

    /// Adds a door to the figures of the broker, until the broker ends.
    package func add(door: @escaping @Sendable () -> DoorFigures) {
        doors.withLock { $0.append(door) }
    }

    /// The strangers of the loops and of all doors.
    var figures: DoorFigures {
        var all = state.withLock { DoorFigures(bytes: $0.bytes, turnedAway: $0.turnedAway) }
        for door in doors.withLock({ $0 }) {
            let own = door()
            all.bytes += own.bytes
            all.turnedAway += own.turnedAway
        }
        return all
    }

    // MARK: Bytes

    var bytes: Int { state.withLock { $0.bytes } }

    /// Charges an address for bytes of a stranger.
    func take(_ byteCount: Int, of address: PeerAddress) -> Charge {
        let now = monotonic()
        let network = address.network
        return state.withLock { state in
            let held = state.table.counts(of: network, now: now)
            var result = Charge.taken
            if state.bytes + byteCount > state.bytesMax {
                let isNew = now - state.searched >= Self.searchMilliseconds
                if isNew {
                    state.searched = now
                    let most = state.table.largestHolder()
                    let isOther = Int(most?.bytes ?? 0) > Int(held.pointee.bytes) + byteCount
                    state.largest = isOther ? most?.network : network
                }
                // The eighth above the bound is for the bytes of others that come until the largest holder has ended.
                guard state.bytes + byteCount <= state.bytesMax + state.bytesMax / 8,
                    let largest = state.largest, largest != network
                else {
                    state.turnedAway += 1
                    return .refused
                }
                if isNew { result = .takenFrom(largest) }
            }
            state.bytes += byteCount
            held.pointee.bytes += UInt32(byteCount)
            return result
        }
    }

    func giveBack(_ byteCount: Int, of address: PeerAddress) {
        guard byteCount > 0 else { return }
        state.withLock { state in
            state.bytes -= byteCount
            guard let counts = state.table.known(address.network) else { return }
            counts.pointee.bytes -= min(counts.pointee.bytes, UInt32(byteCount))
        }
    }

    // MARK: Registrations

    /// REG-8: counts a registration.
    /// - Throws: `RESOURCE_EXHAUSTED` if the address has registered too many devices of late.
    package func register(from address: PeerAddress) throws(MartletError) {
        let registrationsPerSecond = state.withLock { $0.registrationsPerSecond }
        guard registrationsPerSecond > 0 else { return }
        let now = monotonic()
        let microseconds = now * 1000
        let cost = max(1, 1_000_000 / Int64(registrationsPerSecond))
        let debtMax = Int64(Self.burstSeconds) * 1_000_000
        let wait: Int64 = state.withLock { state in
            let counts = state.table.counts(of: address.network, now: now)
            let paid = max(counts.pointee.registrationsPaid, microseconds)
            let excess = paid + cost - microseconds - debtMax
            guard excess <= 0 else {
                state.turnedAway += 1
                return excess / 1000 + 1
            }
            counts.pointee.registrationsPaid = paid + cost
            return 0
        }
        guard wait > 0 else { return }
        throw MartletError(
            .resourceExhausted,
            """
            Too many devices have registered from this address \
            (registrations-per-second-per-address); try again.
            """, retryDelayMilliseconds: UInt32(clamping: max(wait, 1000)))
    }

    // MARK: Wrong credentials

    /// REG-10: counts a wrong credential, and decides on the treatment.
    package func refused(from address: PeerAddress) -> Refusal {
        let now = monotonic()
        let refusalsPerMinute = state.withLock { $0.refusalsPerMinute }
        guard refusalsPerMinute > 0 else { return .atOnce }
        return state.withLock { state in
            let counts = state.table.counts(of: address.network, now: now)
            if now - counts.pointee.refusalsSince >= Self.minuteMilliseconds {
                counts.pointee.refusalsSince = now
                counts.pointee.refusals = 0
            }
            counts.pointee.refusals &+= 1
            guard Int(counts.pointee.refusals) > refusalsPerMinute else { return .atOnce }
            guard counts.pointee.held < Self.waitingMax else {
                state.turnedAway += 1
                return .never
            }
            counts.pointee.held += 1
            return .later
        }
    }

    /// REG-10: whether the next wrong credential of an address would wait. Nothing is counted.
    package func isOver(_ address: PeerAddress) -> Bool {
        let now = monotonic()
        return state.withLock { state in
            guard state.refusalsPerMinute > 0, let counts = state.table.known(address.network)
            else { return false }
            return now - counts.pointee.refusalsSince < Self.minuteMilliseconds
                && Int(counts.pointee.refusals) >= state.refusalsPerMinute
        }
    }

    /// REG-10: notes the end of a wait.
    package func settled(_ address: PeerAddress) {
        state.withLock { state in
            guard let counts = state.table.known(address.network) else { return }
            counts.pointee.held -= min(counts.pointee.held, 1)
        }
    }
}

extension Int {
    /// A limit in megabytes, as bytes. 0 stands for no limit.
    var megabytes: Int { self == 0 ? .max : self << 20 }
}
