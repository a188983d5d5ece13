// SPDX-License-Identifier: Apache-2.0
//
// The opening of connections: authentication, and the start of a device's session. Rests on the engine's
// authentication and on Delivery.

import MartletBase
import MartletCommitter
import MartletDelivery
import MartletEngine
import MartletRows
import MartletStore
import MartletThreads
import MartletTransport
import MartletWire

extension Loop where Kernel: ~Copyable {
    mutating func open(
        _ hello: Hello, _ connection: UnsafeMutablePointer<Connection>
    ) throws {
        guard !ending.isDraining else {
            throw MartletError(
                .unavailable, "The broker is stopping; connect again.",
                retryDelayMilliseconds: context.configuration.reconnectDelayMilliseconds)
        }
        try requireWork(hello)
        guard handOver.requests.count + delivery.queuedAcknowledgementCount < HandOver.waitingMax
        else {
            throw MartletError(
                .unavailable, "The broker has more to write than it can; connect again.",
                retryDelayMilliseconds: context.configuration.reconnectDelayMilliseconds)
        }
        if connection.pointee.isApp, hello.role != .device, hello.role != .newDevice {
            throw MartletError(
                .invalidArgument, "Only apps of a device share a connection; open another.",
                field: "role")
        }
        switch hello {
        case .shared:
            connection.pointee.shared = SharedConnection(
                connection.pointee.id, from: address(of: connection), now: time.second)
            open(connection)
            send(
                .welcome(
                    Welcome(
                        role: .shared, idleSeconds: context.configuration.idleSeconds,
                        frameBytesMax: UInt32(Limits.deviceFrameBytesMax), now: context.clock(),
                        senderID: 0)), to: connection)
        case .newDevice: try admit(hello, connection)
        case .device(let projectID, let token, let deviceKey, let state, let unconfirmed):
            let digest = Credentials.digest(deviceKey)
            // GW-11: the door of this process speaks for the instances that a push service reaches.
            let isBridge = connection.pointee.isApp && digest.matches(context.bridgeCredential)
            let committer = context.committer
            let (found, appName, isElsewhere) = try context.store.read { (transaction) throws in
                let found = try Authentication.device(
                    projectID: projectID, token: token, digest: isBridge ? nil : digest,
                    in: transaction)
                let app = try transaction.projects.app(found.instance.app, in: found.project.number)
                let isElsewhere =
                    try isBridge
                    && ConnectionNumbers.isElsewhere(
                        found.instance.ordinal, in: found.project.number, committer, transaction)
                return (found, app?.name ?? "", isElsewhere)
            }
            // A connection of the device at another node stays, as a connection here does.
            guard !isElsewhere else { throw MartletError.replaced }
            guard unconfirmed.count <= Limits.unconfirmedStreamIDsMax,
                unconfirmed.allSatisfy({ $0 <= found.project.lastSequence.rawValue })
            else {
                throw MartletError(
                    .invalidArgument,
                    """
                    HELLO lists up to \(Limits.unconfirmedStreamIDsMax) stream IDs of messages \
                    that were delivered.
                    """, field: "unconfirmed")
            }
            welcomeDevice(
                connection, project: found.project, instance: found.instance, appName: appName,
                mailbox: found.state, state: state, taken: unconfirmed, isBridge: isBridge,
                token: found.instance.token.text == token ? "" : found.instance.token.text)
        case .sender(let projectID, let serverKey):
            let (project, credential) = try sender(connection, serverKey, of: projectID)
            do throws(MartletError) {
                try context.quotas.senderConnects(to: project.number, at: context.clock())
            } catch {
                context.committer.watches.refused(error, in: project.number)
                throw error
            }
            senders[connection.pointee.id.index] = credential
            welcome(connection, .sender(project.number), senderID: project.senderID)
        case .administrator(let key, let projectID):
            try checkMayAdminister(connection)
            guard Credentials.digest(key).matches(context.administratorKey) else {
                throw MartletError(
                    .unauthenticated,
                    "This is not the administrator key; it is in 'admin.key' in the data folder.",
                    field: "administrator_key")
            }
            guard !projectID.isEmpty else {
                welcome(connection, .administrator(nil), senderID: 0)
                return
            }
            let project = try context.store.read { (transaction) throws in
                try Authentication.project(id: projectID, in: transaction)
            }
            welcome(connection, .administrator(project.number), senderID: project.senderID)
        }
    }

    private func open(_ connection: UnsafeMutablePointer<Connection>) {
        connection.pointee.phase = .open
        connection.pointee.since = time.second
    }

    private mutating func welcome(
        _ connection: UnsafeMutablePointer<Connection>, _ principal: Principal, senderID: UInt64
    ) {
        connection.pointee.principal = principal
        forget(connection.pointee.id.index)
        open(connection)
        if let project = principal.project {
            delivery.assign(connection.pointee.id.index, to: project)
        }
        connection.pointee.splitter.frameBytesMax = Limits.senderFrameBytesMax
        let role: ConnectionRole = if case .sender = principal { .sender } else { .administrator }
        send(
            .welcome(
                Welcome(
                    role: role, idleSeconds: context.configuration.idleSeconds,
                    frameBytesMax: UInt32(Limits.senderFrameBytesMax), now: context.clock(),
                    senderID: senderID)), to: connection)
    }

    /// Connects a new device at once, because the device is an instance of the project now.
    mutating func registered(
        _ connection: UnsafeMutablePointer<Connection>, _ instance: Instance, _ project: Project,
        _ deviceKey: String
    ) {
        let appName: String
        do {
            appName = try context.store.read { (transaction) throws in
                try transaction.projects.app(instance.app, in: project.number)?.name ?? ""
            }
        } catch {
            undo(Newcomer(instance))
            fail(connection, .unreadable(error))
            return
        }
        newcomers.byPlace[connection.pointee.id.index] = Newcomer(instance)
        let last = project.lastSequence
        let mailbox = MailboxState(
            acknowledged: LaneMarks(last), awayFrom: last,
            throttleFull: Instant(rawValue: 0), seen: context.clock())
        welcomeDevice(
            connection, project: project, instance: instance, appName: appName, mailbox: mailbox,
            state: .active, taken: [], token: instance.token.text, deviceKey: deviceKey)
    }

    /// Connects a device (NET-4). The session gets its mailbox first, then live messages.
    private mutating func welcomeDevice(
        _ connection: UnsafeMutablePointer<Connection>, project: Project, instance: Instance,
        appName: String, mailbox: MailboxState, state: DeviceState, taken: [UInt64],
        isBridge: Bool = false, token: String = "", deviceKey: String = ""
    ) {
        let index = connection.pointee.id.index
        let ordinal = instance.ordinal
        let number = context.connectionNumbers.next(isBridge: isBridge)
        places.origin(of: index).pointee = DeviceOrigin(
            address: address(of: connection), since: time.second, state: state)
        connection.pointee.principal = .device(project.number, ordinal, instance.holder)
        forget(carrier(of: connection).pointee.id.index)
        connection.pointee.shared?.refusedCount = 0
        open(connection)
        send(
            .welcome(
                Welcome(
                    role: .device, idleSeconds: context.configuration.idleSeconds,
                    frameBytesMax: UInt32(Limits.deviceFrameBytesMax), now: context.clock(),
                    senderID: project.senderID,
                    acknowledgedThrough: mailbox.acknowledged.lowest.rawValue,
                    token: token, deviceKey: deviceKey)), to: connection)
        // GW-11: a connection of the device stays. The door hears as from another loop that the device is here.
        if let mine = delivery.session(of: ordinal, in: project.number),
            mine.connectionNumber > number
        {
            replace(connection)
            return
        }
        let replaced = delivery.attach(
            index,
            Attachment(
                owner: MailboxOwner(
                    project: project.number, ordinal: ordinal, platform: instance.platform,
                    appKey: CollapseDigest(of: appName)),
                app: instance.app, holder: instance.holder, mailbox: mailbox,
                position: project.lastSequence,
                state: state, taken: taken, connectionNumber: number, isBridge: isBridge),
            now: context.clock())
        if let replaced { replace(places[replaced]) }
        tellConnected(connection)
        tellPeers(.connected(project.number, ordinal, connectionNumber: number))
    }

    /// Tells the other loops.
    mutating func tellPeers(_ news: News) {
        for (other, loop) in context.peers.all.enumerated() where other != context.number {
            if case .taken(mustWake: true) = loop.inbox.push([.news(news)]) {
                transport.wake(loop.address, value: 1)
            }
        }
    }

    /// STO-2: tells the store that the device is connected, behind the lists in HELLOs and the ends of connections.
    mutating func tellConnected(_ connection: UnsafeMutablePointer<Connection>) {
        guard case .device(let project, let ordinal, let holder) = connection.pointee.principal,
            let mine = delivery.session(of: ordinal, in: project),
            mine.index == connection.pointee.id.index
        else { return }
        connection.pointee.noteSeen(time.second)
        handOverUrgent()
        handOver.append(
            .connected(
                project: project, ordinal: ordinal, holder: holder,
                connection: delivery.connectionStart(of: mine.index)),
            .connected(
                loop: context.number, connection.pointee.id,
                connectionNumber: mine.connectionNumber))
    }

    mutating func replace(_ connection: UnsafeMutablePointer<Connection>) {
        fail(connection, .replaced)
    }
}

extension MartletError {
    fileprivate static var replaced: MartletError {
        MartletError(.replaced, "Another connection of this instance took over.")
    }
}
