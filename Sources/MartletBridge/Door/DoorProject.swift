// SPDX-License-Identifier: Apache-2.0
//
// A project in the door: its instances, links, keys and messages. Lives on the door's event loop. Rests on LinkPool.

import Logging
import Martlet
import MartletRows
import MartletWire
import NIOCore
import NIOPosix

/// A project that has instances with an address at a push service.
final class DoorProject {
    let number: ProjectNumber
    let id: String
    let credential: String
    private unowned let core: DoorCore
    /// Keys by service, the newest first.
    var keys: [BridgeKind: [OpenBridgeKey]] = [:]
    var devices: [Ordinal: DoorDevice] = [:]
    private let links: LinkPool

    /// Messages to hand over, in the order in which they came.
    var ready: CircularBuffer<DoorMessage> = []
    /// Messages that take up room: `ready`, on their way, or waiting to be tried again.
    private(set) var waitingCount = 0
    /// Which messages keep failing (GW-17).
    var failing = FailingMessages()
    /// Deliveries that are set aside, by message.
    private var aside: [FailingMessages.Name: CircularBuffer<DoorMessage>] = [:]
    /// Deliveries that are set aside and take up no room.
    private var asideCount = 0
    var onTheirWay = 0
    /// Whether the core has the project in its turns.
    var isInTurns = false
    /// By service: when the rest ends, after the service took no messages or refused the keys.
    var restsUntil: [BridgeKind: NIODeadline] = [:]
    /// By service: messages that wait until the rest is over.
    var resting: [BridgeKind: [DoorMessage]] = [:]
    /// By service: failures in a row.
    var failures: [BridgeKind: Int] = [:]
    /// By service: when we last warned that it takes no messages.
    var warned: [BridgeKind: NIODeadline] = [:]
    /// By service: rests since it last took a message.
    var rests: [BridgeKind: Int] = [:]

    init(_ number: ProjectNumber, id: String, _ core: DoorCore) {
        (self.number, self.id, self.core) = (number, id, core)
        credential = core.broker.bridgeCredential
        links = LinkPool(
            eventLoop: core.eventLoop, port: core.port,
            LinkWords(
                core.logger, door: "the door to push services", name: "link to push services",
                closing: .debug))
    }

    // MARK: Instances

    /// Brings an instance in line with the store.
    /// - Parameter found: nil if it has no address any more, or is unregistered.
    func update(_ ordinal: Ordinal, _ found: BridgedInstance?) {
        if let known = devices[ordinal] {
            if let found, found.holder == known.instance.holder {
                known.instance = found
                if keys[found.bridging.address.kind]?.isEmpty ?? true { detach(known) }
            } else {
                remove(known)
            }
        }
        guard let found, devices[ordinal] == nil else { return }
        let device = DoorDevice(found, of: self)
        devices[ordinal] = device
        attach(device)
    }

    func remove(_ device: DoorDevice) {
        device.hasLeft = true
        devices[device.instance.ordinal] = nil
        detach(device)
    }

    private func detach(_ device: DoorDevice) {
        if let place = device.place { place.link.detach(place.channel) }
    }

    /// Attaches the instances that have a key now, and detaches those that have none.
    func keysChanged() {
        for device in devices.values {
            if hasKeys(for: device) { attach(device) } else { detach(device) }
        }
    }

    private func hasKeys(for device: DoorDevice) -> Bool {
        !(keys[device.instance.bridging.address.kind]?.isEmpty ?? true)
    }

    func attach(_ device: DoorDevice) {
        guard device.place == nil, !device.hasLeft, !device.isAway, hasKeys(for: device),
            core.isOpen
        else { return }
        links.attach(device)
    }

    /// The broker has ended an instance's session.
    func detached(_ device: DoorDevice, for refusal: MartletError?) {
        guard !device.hasLeft, core.isOpen else { return }
        switch refusal?.word {
        case .replaced: device.isAway = true
        case .unregistered, .notFound: remove(device)
        default:
            guard hasKeys(for: device) else { return }
            let delay = Int64(refusal?.retryDelayMilliseconds ?? 0)
            core.after(milliseconds: max(delay, BridgeLimits.attachMilliseconds)) { [weak self] in
                self?.attach(device)
            }
        }
    }

    func closeLinks() { links.close() }

    // MARK: Messages

    /// Whether there is room for more of the project's messages.
    var mayRead: Bool { links.isReading }

    /// A message has come from the broker.
    func came(_ message: Deliver, for device: DoorDevice) {
        if message.isStored {
            switch device.taken.came(message.streamID) {
            case .handOver: break
            case .wait: return
            case .acknowledge(let acknowledgement): return send(acknowledgement, of: device)
            }
        }
        let waiting = DoorMessage(
            device,
            HandOver(projectID: id, instance: device.instance, message: message))
        waitingCount += 1
        core.waitingCount += 1
        ready.append(waiting)
        core.hasReady(self)
        chooseReading()
    }

    /// A message leaves the door.
    func left(_ message: DoorMessage) {
        count(message, asAside: false)
        waitingCount -= 1
        core.waitingCount -= 1
        if waitingCount == 0, asideCount == 0 { failing.forget() }
        if message.isProbe {
            message.isProbe = false
            core.probeEnded(message.name, of: self)
        }
        chooseReading()
    }

    // MARK: Messages that keep failing

    /// Moves a message between those that take up room and those that are set aside.
    func count(_ message: DoorMessage, asAside isAside: Bool) {
        guard message.isAside != isAside, !isAside || core.asideCount < BridgeLimits.asideMax
        else { return }
        message.isAside = isAside
        let change = isAside ? 1 : -1
        asideCount += change
        core.asideCount += change
        waitingCount -= change
        core.waitingCount -= change
        chooseReading()
    }

    /// Sets a delivery aside. It shares its bytes with the message's other deliveries.
    func setAside(_ message: DoorMessage) {
        count(message, asAside: true)
        let bytes = message.handOver.message.message
        if let first = aside[message.name]?.first, first.handOver.message.message == bytes {
            message.handOver.message.message = first.handOver.message.message
        }
        aside[message.name, default: []].append(message)
    }

    /// The next of a message's deliveries that are set aside, if there is one.
    func takeAside(_ name: FailingMessages.Name) -> DoorMessage? {
        let message = aside[name]?.popFirst()
        if aside[name]?.isEmpty ?? false { aside[name] = nil }
        return message
    }

    /// Takes back all of a message's deliveries, to go on with them.
    func takeAllAside(_ name: FailingMessages.Name) -> CircularBuffer<DoorMessage> {
        let all = aside.removeValue(forKey: name) ?? []
        for message in all { count(message, asAside: false) }
        return all
    }

    /// Drops all deliveries that are set aside.
    func dropAside() {
        let all = aside.values.joined()
        aside = [:]
        for message in all { drop(message) }
    }

    /// A message is done: acknowledges it.
    func end(_ message: DoorMessage) {
        let device = message.device
        if message.handOver.message.isStored,
            let acknowledgement = device.taken.end(message.handOver.message.streamID)
        {
            send(acknowledgement, of: device)
        }
        left(message)
    }

    /// Drops a message without acknowledging it: it waits in the store for the instance's own connection, or is gone with
    /// the instance.
    func drop(_ message: DoorMessage) {
        message.device.taken.drop(message.handOver.message.streamID)
        left(message)
    }

    private func send(_ acknowledgement: Acknowledge, of device: DoorDevice) {
        guard let place = device.place else { return }
        place.link.send(.acknowledge(acknowledgement), on: place.channel)
    }

    /// Stops reading when there is no room, and starts again when half of it is free.
    func chooseReading() {
        let room = core.roomPerProject
        let mayRead = self.mayRead ? waitingCount < room : waitingCount <= room / 2
        if mayRead != self.mayRead { links.read(mayRead) }
    }
}

@available(*, unavailable)
extension DoorProject: Sendable {}
