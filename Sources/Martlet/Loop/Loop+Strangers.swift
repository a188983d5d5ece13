// SPDX-License-Identifier: Apache-2.0
//
// Connections without a credential (NET-6), and the refusal of wrong credentials (REG-10). The loop keeps the address
// of a stranger beside the tables, and forgets the address with WELCOME. So an idle device costs no memory for its
// address. Rests on StrangerBook.

import Logging
import MartletBase
import MartletCommitter
import MartletDelivery
import MartletThreads
import MartletTransport
import MartletWire

/// A connection before WELCOME, or a shared connection before its first app.
struct Stranger {
    /// The address of the peer, as its proxy told if the listener has proxies.
    var address: PeerAddress
    /// Whether no other machine can read the connection.
    var isPrivate: Bool
    /// The received part of a proxy's header; nil: no header is to come.
    var header: [UInt8]?
}

/// NET-6: the strangers of a loop.
struct Strangers {
    /// By the connection's place.
    fileprivate(set) var byPlace: [UInt32: Stranger] = [:]
    /// Those of `byPlace` that end when places are scarce, by their addresses.
    var arrivals = PeersByAddress<ConnectionID>()
    var log = StrangerLog()
    /// TLS handshakes ended for their silence, as far as the log knows.
    var crowdedOutTold: UInt64 = 0

    mutating func insert(_ stranger: Stranger, _ id: ConnectionID) {
        byPlace[id.index] = stranger
        arrivals.insert(id, from: stranger.address.network)
    }

    mutating func remove(_ id: ConnectionID) -> Stranger? {
        guard let stranger = byPlace.removeValue(forKey: id.index) else { return nil }
        arrivals.remove(id)
        return stranger
    }

    /// Gives back memory after a burst.
    mutating func releaseMemory() {
        if byPlace.isEmpty { (byPlace, arrivals) = ([:], PeersByAddress()) }
    }
}

/// REG-10: a refusal that is told later.
struct HeldRefusal {
    let id: ConnectionID
    let address: PeerAddress
    let error: MartletError
    /// Milliseconds of the monotonic clock.
    let end: Int64
}

extension Loop where Kernel: ~Copyable {
    // MARK: Coming and going

    /// Counts a new connection by its address. Beyond the bounds the connection ends at once.
    mutating func meet(
        _ connection: UnsafeMutablePointer<Connection>, from origin: ConnectionOrigin
    ) {
        let listeners = context.configuration.listeners
        let listener =
            listeners.indices.contains(origin.listener) ? listeners[origin.listener] : nil
        let isProxied = listener?.isProxied ?? false
        var stranger = Stranger(
            address: origin.address,
            isPrivate: origin.address.isLoopback
                || listener.map { context.configuration.security(of: $0) } == .tls
                || listener.map { PeerAddress($0.address.host) == origin.address } ?? false)
        if isProxied {
            guard context.configuration.isProxy(origin.address) else {
                context.refusalLog.tell(.proxy, from: origin.address.description)
                return close(connection)
            }
            stranger.header = []
        } else if !context.strangers.arrive(origin.address) {
            return close(connection)
        }
        makeRoom()
        strangers.insert(stranger, connection.pointee.id)
    }

    /// Ends the life of a connection as a stranger: at WELCOME, or with the connection.
    mutating func forget(_ place: UInt32) {
        guard !strangers.byPlace.isEmpty, let stranger = strangers.remove(places[place].pointee.id)
        else { return }
        if stranger.header == nil { context.strangers.leave(stranger.address) }
    }

    /// The address of the peer of a connection before WELCOME, or of an app.
    func address(of connection: UnsafeMutablePointer<Connection>) -> PeerAddress {
        if connection.pointee.isApp, let shared = connection.pointee.shared {
            return shared.address
        }
        return strangers.byPlace[connection.pointee.id.index]?.address ?? .loopback
    }

    /// The peer that pays for the bytes of a connection.
    func payer(_ connection: UnsafeMutablePointer<Connection>) -> Payer {
        switch connection.pointee.principal {
        case .device(let project, _, _): .device(project)
        case .sender(let project): .sender(project)
        case .administrator(let project): .sender(project)
        case .nobody:
            strangers.byPlace[carrier(of: connection).pointee.id.index].map {
                .stranger($0.address)
            }
                ?? .device(nil)
        }
    }

    /// Queued bytes past which a connection is not read from.
    func queuedBytesMax(_ connection: UnsafeMutablePointer<Connection>) -> Int {
        guard case .nobody = connection.pointee.principal,
            strangers.byPlace[connection.pointee.id.index] != nil
        else { return Connection.queuedBytesMax }
        return Limits.strangerQueuedBytesMax
    }

    /// NET-6: whether the unfinished frame of a connection should have come whole by now.
    func isFrameLate(_ connection: UnsafeMutablePointer<Connection>, _ now: UInt32) -> Bool {
        guard let since = connection.pointee.frameSince, connection.pointee.phase.isReading,
            !connection.pointee.isPaused
        else { return false }
        return now &- since > context.configuration.frameSeconds
    }

    /// NET-6: ends the connections of an address that holds most of the memory for strangers.
    mutating func endStrangers(of network: PeerAddress) {
        let those = strangers.byPlace.filter { $0.value.address.network == network }.keys
        for place in those where places[place].pointee.unfinished.byteCount > 0 {
            let connection = places[place]
            fail(
                connection,
                MartletError(
                    .resourceExhausted,
                    """
                    Connections from this address without a credential hold too much memory \
                    (stranger-megabytes).
                    """, retryDelayMilliseconds: 1000))
            chargeUnfinished(connection)
        }
    }

    // MARK: Administrators

    /// OPS-6: the administrator's key, and the secrets that administrators are told, do not cross a network in plain
    /// text.
    func checkMayAdminister(
        _ connection: UnsafeMutablePointer<Connection>
    ) throws(MartletError) {
        guard strangers.byPlace[connection.pointee.id.index]?.isPrivate ?? true else {
            throw MartletError(
                .permissionDenied,
                """
                An administrator connects from the broker's own machine, or over TLS; this connection \
                is plain text from another machine.
                """, field: "role")
        }
    }

    // MARK: Wrong credentials

    /// Refuses HELLO. The refusal of a wrong credential is logged, and waits if the address had too many.
    mutating func refuse(
        _ hello: Hello, _ error: MartletError, _ connection: UnsafeMutablePointer<Connection>
    ) throws(MartletError) {
        // OPS-10: only a quota is of the project that the peer names. Anybody may name one with a wrong credential.
        context.committer.metrics.refused(
            error,
            in: error.word == .resourceExhausted
                ? hello.projectID.flatMap { context.committer.number(of: $0) } : nil)
        guard error.word == .unauthenticated || hello.isRefused(by: error) else { throw error }
        let address = address(of: connection)
        context.refusalLog.refused(hello.credentialKind, from: address.description)
        switch context.strangers.refused(from: address) {
        case .atOnce: throw error
        case .never: close(connection)
        case .later where connection.pointee.isApp:
            // An app cannot wait by itself, because all apps share the bytes of the connection.
            context.strangers.settled(address)
            fail(
                carrier(of: connection),
                MartletError(
                    .resourceExhausted, "Too many credentials of this address were refused.",
                    retryDelayMilliseconds: UInt32(StrangerBook.waitMilliseconds)))
        case .later:
            connection.pointee.isPaused = true
            transport.pauseReceive(connection.pointee.id)
            heldRefusals.append(
                HeldRefusal(
                    id: connection.pointee.id, address: address, error: error,
                    end: context.monotonic() + StrangerBook.waitMilliseconds))
        }
    }

    /// REG-10: counts and logs a registration that the committer refused for its credential, which was good on the
    /// loop's snapshot a moment ago.
    func noteRefusedRegistration(
        _ error: MartletError, _ connection: UnsafeMutablePointer<Connection>
    ) {
        guard error.word == .permissionDenied, error.field == "registration" else { return }
        let address = address(of: connection)
        context.refusalLog.refused("registration", from: address.description)
        if case .later = context.strangers.refused(from: address) {
            context.strangers.settled(address)
        }
    }

    /// Logs the failure of TLS on a connection that has ended.
    mutating func noteSecureFailure(_ connection: UnsafeMutablePointer<Connection>) {
        guard let reason = transport.takeFailure(of: connection.pointee.id) else { return }
        let address = strangers.byPlace[connection.pointee.id.index]?.address.description
        context.refusalLog.tell(
            .handshake, from: address ?? "a connected peer", ["reason": "\(reason)"])
    }

    /// Tells the refusals that have waited. Called once a second.
    mutating func endHeldRefusals() {
        guard !heldRefusals.isEmpty else { return }
        let now = context.monotonic()
        let count = heldRefusals.prefix { $0.end <= now }.count
        let ended = heldRefusals.prefix(count)
        heldRefusals.removeFirst(count)
        for refusal in ended {
            context.strangers.settled(refusal.address)
            guard let connection = connection(refusal.id) else { continue }
            fail(connection, refusal.error)
            chargeUnfinished(connection)
        }
    }

    // MARK: Proxies

    /// NET-6: takes the header in which a proxy names its client off the first bytes.
    /// - Returns: the bytes behind the header; nil: the header is not whole yet, or was wrong.
    mutating func behindProxyHeader(
        _ bytes: UnsafeRawBufferPointer, _ connection: UnsafeMutablePointer<Connection>
    ) -> UnsafeRawBufferPointer? {
        let place = connection.pointee.id.index
        guard connection.pointee.phase == .hello, !strangers.byPlace.isEmpty, !bytes.isEmpty,
            var header = strangers.byPlace[place]?.header
        else { return bytes }
        let heldBytes = header.count
        header.append(contentsOf: bytes.prefix(ProxyHeader.bytesMax - heldBytes))
        switch ProxyHeader(header) {
        case .unfinished:
            strangers.byPlace[place]?.header = header
            return nil
        case .whole(let client, let byteCount):
            var address = strangers.byPlace[place]?.address ?? .loopback
            strangers.byPlace[place]?.header = nil
            // A proxy on this machine speaks for other machines.
            switch client {
            case .address(let named):
                address = named
                strangers.byPlace[place]?.isPrivate = named.isLoopback
            case .unknown: strangers.byPlace[place]?.isPrivate = false
            case .proxy: break
            }
            strangers.byPlace[place]?.address = address
            strangers.arrivals.remove(connection.pointee.id)
            guard context.strangers.arrive(address) else {
                strangers.byPlace[place] = nil
                close(connection)
                return nil
            }
            strangers.arrivals.insert(connection.pointee.id, from: address.network)
            let rest = UnsafeRawBufferPointer(rebasing: bytes[(byteCount - heldBytes)...])
            return rest.isEmpty ? nil : rest
        case .wrong:
            strangers.log.note(
                .wrongProxyHeader, from: strangers.byPlace[place]?.address ?? .loopback)
            close(connection)
            return nil
        }
    }
}

extension Hello {
    /// The project that the peer names; nil: none.
    fileprivate var projectID: String? {
        switch self {
        case .device(let id, _, _, _, _), .sender(let id, _), .newDevice(let id, _, _, _): id
        case .administrator, .shared: nil
        }
    }

    /// Kind of the credential, for the log.
    fileprivate var credentialKind: String {
        switch self {
        case .device: "device key"
        case .sender(_, ""): "certificate"
        case .sender(_, let key):
            key.hasPrefix(SenderCredentials.tokenPrefix) ? "access token" : "server key"
        case .administrator: "administrator key"
        case .newDevice(_, _, _, .ticket): "ticket"
        case .newDevice(_, _, _, .none): "no registration key"
        case .newDevice: "registration key"
        case .shared: "none"
        }
    }

    /// REG-7: whether an error refuses what a new device presents. A device that presents nothing counts too: it may be
    /// trying the IDs of projects.
    fileprivate func isRefused(by error: MartletError) -> Bool {
        guard case .newDevice = self else { return false }
        return error.word == .permissionDenied && error.field == "registration"
    }
}
