// SPDX-License-Identifier: Apache-2.0
//
// A project of the door: its instances, its links, its keys, and its messages in the door. Lives on the door's event loop.
// Rests on DoorLink.

import Logging
import Martlet
import MartletRows
import MartletWire
import NIOCore
import NIOPosix

/// A project with instances that push services reach.
final class DoorProject {
    let number: ProjectNumber
    let id: String
    let credential: String
    private unowned let core: DoorCore
    /// The keys by service, the newest first.
    var keys: [BridgeKind: [OpenBridgeKey]] = [:]
    var devices: [Ordinal: DoorDevice] = [:]
    private var links: [DoorLink] = []

    /// Messages to be handed over, in the order of coming.
    var ready: CircularBuffer<DoorMessage> = []
    /// Messages in the door that count for its room: `ready`, on their way, and those to be tried again.
    private(set) var waitingCount = 0
    /// GW-17: which messages keep failing.
    var failing = FailingMessages()
    /// The deliveries of messages that are set aside.
    private var aside: [FailingMessages.Name: CircularBuffer<DoorMessage>] = [:]
    /// Messages that keep failing, and do not count for the room.
    private var asideCount = 0
    var onTheirWay = 0
    /// Whether the project is in the core's ring of projects with ready messages.
    var isInTurns = false
    /// By service: the end of the rest after a service took no messages, or refused the keys.
    var restsUntil: [BridgeKind: NIODeadline] = [:]
    /// By service: messages that wait for the end of the rest.
    var resting: [BridgeKind: [DoorMessage]] = [:]
    /// By service: consecutive answers without a taken message.
    var failures: [BridgeKind: Int] = [:]
    /// By service: the last warning that the service takes no messages.
    var warned: [BridgeKind: NIODeadline] = [:]
    /// By service: rests since the last taken message.
    var rests: [BridgeKind: Int] = [:]
    private var isReading = true

    init(_ number: ProjectNumber, id: String, _ core: DoorCore) {
        (self.number, self.id, self.core) = (number, id, core)
        credential = core.broker.bridgeCredential
    }

    // MARK: Instances

    /// Takes over what the store knows of an instance.
    /// - Parameter found: nil: the instance has no address any more, or is not registered.
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
        let device = DoorDevice(found)
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

    /// Attaches the instances that have a key and are not attached, and detaches those without a key.
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
        if let link = links.last(where: \.hasRoom) { return link.attach(device) }
        let link = DoorLink(self, core.logger)
        links.append(link)
        link.attach(device)
        core.connect(link)
    }

    /// Notes that the broker has ended the session of an instance.
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

    func ended(_ link: DoorLink) { links.removeAll { $0 === link } }

    func closeLinks() { for link in links { link.close() } }

    // MARK: Messages

    /// Whether the door has room for messages of the project.
    var mayRead: Bool { isReading }

    /// Takes a message that the broker gives.
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

    /// Counts a message that keeps failing beside the room, or for the room again.
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

    /// Sets a delivery aside with the others of its message, whose bytes it shares.
    func setAside(_ message: DoorMessage) {
        count(message, asAside: true)
        let bytes = message.handOver.message.message
        if let first = aside[message.name]?.first, first.handOver.message.message == bytes {
            message.handOver.message.message = first.handOver.message.message
        }
        aside[message.name, default: []].append(message)
    }

    /// The next delivery of a message that is set aside; nil: there is none.
    func takeAside(_ name: FailingMessages.Name) -> DoorMessage? {
        let message = aside[name]?.popFirst()
        if aside[name]?.isEmpty ?? false { aside[name] = nil }
        return message
    }

    /// Takes all deliveries of a message that go on.
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

    /// Acknowledges a message: it has ended.
    func end(_ message: DoorMessage) {
        let device = message.device
        if message.handOver.message.isStored,
            let acknowledgement = device.taken.end(message.handOver.message.streamID)
        {
            send(acknowledgement, of: device)
        }
        left(message)
    }

    /// Drops a message that is not acknowledged: it waits in the store for the instance's own connection, or went with
    /// the instance.
    func drop(_ message: DoorMessage) {
        message.device.taken.drop(message.handOver.message.streamID)
        left(message)
    }

    private func send(_ acknowledgement: Acknowledge, of device: DoorDevice) {
        guard let place = device.place else { return }
        place.link.send(.acknowledge(acknowledgement), on: place.channel)
    }

    /// Begins or ends reading. Reading begins again when half of the room is free.
    func chooseReading() {
        let room = core.roomPerProject
        let mayRead = isReading ? waitingCount < room : waitingCount <= room / 2
        guard mayRead != isReading else { return }
        isReading = mayRead
        if mayRead { for link in links { link.read(true) } }
    }
}

@available(*, unavailable)
extension DoorProject: Sendable {}
