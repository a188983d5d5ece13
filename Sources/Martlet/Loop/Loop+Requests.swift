// SPDX-License-Identifier: Apache-2.0
//
// Frames of clients, one after another: what changes something becomes a command for the committer,
// what only asks goes to the inquiry. One flat switch. Rests on the engine's
// commands and queries.

import Logging
import MartletBase
import MartletEngine
import MartletRing
import MartletStore
import MartletWire

extension Loop where Kernel: ~Copyable {
    mutating func handle(
        _ frame: ClientFrame, of connection: UnsafeMutablePointer<Connection>
    ) throws {
        switch (connection.pointee.phase, frame) {
        case (.hello, .hello(let hello)):
            try open(hello, connection)
            return
        case (.hello, _):
            throw MartletError(.protocolViolation, "The first frame must be HELLO.")
        case (_, .hello):
            throw MartletError(.protocolViolation, "HELLO comes once, as the first frame.")
        case (_, .ping(let ping)):
            send(.pong(Pong(value: ping.value)), to: connection)
            return
        case (_, .pong):
            return
        case (.registering, _):
            throw MartletError(.protocolViolation, "Wait for WELCOME before any request.")
        default: break
        }
        do {
            if isDraining, frame.correlation != nil {
                throw MartletError(
                    .unavailable, "The broker is stopping; connect again.",
                    retryDelayMilliseconds: context.configuration.reconnectDelayMilliseconds)
            }
            try serve(frame, connection)
        } catch let error as MartletError {
            // A refused request does not cost the connection; what breaks the protocol does.
            guard let correlation = frame.correlation, error.word != .protocolViolation else {
                throw error
            }
            send(.error(ErrorFrame(correlation: correlation, error: error)), to: connection)
        }
    }

    private mutating func serve(
        _ frame: ClientFrame, _ connection: UnsafeMutablePointer<Connection>
    ) throws {
        switch frame {
        case .hello, .ping, .pong: break

        case .acknowledge(let frame):
            guard case .device = connection.pointee.principal else { throw Self.onlyDevices() }
            guard
                delivery.acknowledge(
                    connection.pointee.id.index, through: frame.through, single: frame.streamIDs)
            else {
                throw MartletError(
                    .protocolViolation,
                    "A stream ID above the highest one delivered on this connection was acknowledged."
                )
            }
        case .deviceTopics(let frame):
            guard case .device(let project, let ordinal, let holder) = connection.pointee.principal
            else { throw Self.onlyDevices() }
            ask(
                .changeTopics(
                    project: project, ordinal: ordinal, change: frame.operation,
                    topics: frame.topics, holder: holder), frame.correlation, connection)
        case .unregister(let frame):
            guard case .device(let project, let ordinal, let holder) = connection.pointee.principal
            else { throw Self.onlyDevices() }
            ask(
                .unregister(project: project, ordinal: ordinal, holder: holder), frame.correlation,
                connection)

        case .send(let frame):
            let project = try connection.pointee.principal.senderProject()
            _ = try Message.validate(frame.message)
            ask(
                .send(
                    project: project,
                    message: SendCommand(
                        target: SendCommand.Target(frame.target), body: frame.message,
                        timeToLiveSeconds: frame.timeToLiveSeconds,
                        priority: frame.priority ?? .normal, validateOnly: frame.validateOnly)),
                frame.correlation, connection)
        case .changeTopic(let frame):
            let project = try connection.pointee.principal.senderProject()
            ask(
                .changeTopic(
                    project: project, topic: frame.topic, change: frame.operation,
                    tokens: frame.tokens), frame.correlation, connection)

        case .createProject(let frame):
            try connection.pointee.principal.checkAdministrator()
            ask(
                .createProject(
                    id: frame.projectID, senderID: Credentials.senderID(),
                    conditionTopicsMax: Int(frame.conditionTopicsMax)), frame.correlation,
                connection)
        case .createKey(let frame):
            try connection.pointee.principal.checkAdministrator()
            let key = Credentials.serverKey()
            ask(
                .createKey(
                    project: frame.projectID,
                    key: NewKey(
                        id: key.id, name: frame.name, digest: Credentials.digest(key.text))),
                frame.correlation, connection, .keyCreation(serverKey: key.text))
        case .revokeKey(let frame):
            try connection.pointee.principal.checkAdministrator()
            ask(
                .revokeKey(project: frame.projectID, keyID: frame.keyID), frame.correlation,
                connection)

        case .condition, .listTopics, .listSubscribers, .listAudience, .listInstanceTopics,
            .listProjects, .listKeys:
            try context.inquiry.ask(
                Question(
                    loop: context.number, connection: connection.pointee.id, frame: frame,
                    principal: connection.pointee.principal))
            connection.pointee.outstanding += 1
        }
    }

    /// Hands a command to the committer, to be answered when it is durable.
    private mutating func ask(
        _ command: Command, _ correlation: UInt32,
        _ connection: UnsafeMutablePointer<Connection>,
        _ purpose: RequestContext.Purpose = .request
    ) {
        connection.pointee.outstanding += 1
        requests.append(
            Request(
                command: command,
                reply: .connection(
                    loop: context.number, connection.pointee.id,
                    RequestContext(correlation: correlation, purpose: purpose))))
    }

    // MARK: Roles

    static func onlyDevices() -> MartletError {
        MartletError(.permissionDenied, "Only a device may ask this.")
    }

    // MARK: Opening

    private mutating func open(
        _ hello: Hello, _ connection: UnsafeMutablePointer<Connection>
    ) throws {
        guard !isDraining else {
            throw MartletError(
                .unavailable, "The broker is stopping; connect again.",
                retryDelayMilliseconds: context.configuration.reconnectDelayMilliseconds)
        }
        switch hello {
        case .newDevice(let projectID, let appName, let platform):
            let deviceKey = Credentials.deviceKey()
            connection.pointee.phase = .registering
            ask(
                .register(
                    NewInstance(
                        project: projectID, app: appName, platform: platform,
                        token: Credentials.token(), keyDigest: Credentials.digest(deviceKey))),
                0, connection, .registration(deviceKey: deviceKey))
        case .device(let projectID, let token, let deviceKey, let receivedThrough):
            let digest = Credentials.digest(deviceKey)
            let found = try context.store.read { (transaction) throws in
                try Authentication.device(
                    projectID: projectID, token: token, digest: digest, in: transaction)
            }
            guard receivedThrough <= found.project.lastSequence.rawValue else {
                throw MartletError(
                    .invalidArgument, "No message has the stream ID in received-through yet.",
                    field: "received-through")
            }
            welcomeDevice(
                connection, project: found.project, instance: found.instance,
                acknowledgedThrough: found.watermark,
                receivedThrough: MessageSequence(receivedThrough))
        case .sender(let projectID, let serverKey):
            let digest = Credentials.digest(serverKey)
            let keyID = Credentials.keyID(of: serverKey)
            let project = try context.store.read { (transaction) throws in
                try Authentication.sender(
                    projectID: projectID, keyID: keyID, digest: digest, in: transaction)
            }
            welcome(connection, .sender(project.number), senderID: project.senderID)
        case .administrator(let key, let projectID):
            guard Credentials.digest(key).matches(context.administratorKey) else {
                throw MartletError(
                    .unauthenticated,
                    "This is not the administrator key; it is in 'admin.key' in the data folder.",
                    field: "administrator key")
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

    private mutating func welcome(
        _ connection: UnsafeMutablePointer<Connection>, _ principal: Principal, senderID: UInt64
    ) {
        connection.pointee.principal = principal
        connection.pointee.phase = .open
        connection.pointee.splitter.frameBytesMax = Limits.senderFrameBytesMax
        let role: ConnectionRole = if case .sender = principal { .sender } else { .administrator }
        send(
            .welcome(
                Welcome(
                    role: role, idleSeconds: context.configuration.idleSeconds,
                    frameBytesMax: UInt32(Limits.senderFrameBytesMax), now: context.clock(),
                    senderID: senderID)), to: connection)
    }

    /// The connection is a device's: NET-4, then its mailbox, then what comes.
    mutating func welcomeDevice(
        _ connection: UnsafeMutablePointer<Connection>, project: Project, instance: Instance,
        acknowledgedThrough: MessageSequence, receivedThrough: MessageSequence, token: String = "",
        deviceKey: String = ""
    ) {
        let index = connection.pointee.id.index
        let ordinal = instance.ordinal
        let number = context.connectionNumbers.next()
        connection.pointee.principal = .device(project.number, ordinal, instance.holder)
        connection.pointee.phase = .open
        send(
            .welcome(
                Welcome(
                    role: .device, idleSeconds: context.configuration.idleSeconds,
                    frameBytesMax: UInt32(Limits.deviceFrameBytesMax), now: context.clock(),
                    senderID: project.senderID,
                    acknowledgedThrough: max(acknowledgedThrough, receivedThrough).rawValue,
                    token: token, deviceKey: deviceKey)), to: connection)
        let replaced = delivery.attach(
            index, project: project.number, ordinal: ordinal,
            acknowledgedThrough: acknowledgedThrough, receivedThrough: receivedThrough,
            connectionNumber: number)
        if let replaced { replace(connections + Int(replaced)) }
        for (other, loop) in context.peers.all.enumerated() where other != context.number {
            let message = LoopMessage.connected(project.number, ordinal, connectionNumber: number)
            if case .taken(mustWake: true) = loop.inbox.push([message]) {
                transport.wake(loop.address, value: 1)
            }
        }
    }

    mutating func replace(_ connection: UnsafeMutablePointer<Connection>) {
        fail(
            connection,
            MartletError(.replaced, "Another connection of this instance took over."))
    }
}

extension SendCommand.Target {
    init(_ target: MessageTarget) {
        switch target {
        case .token(let text): self = .token(text)
        case .topic(let text): self = .topic(text)
        case .condition(let text): self = .condition(text)
        }
    }
}
