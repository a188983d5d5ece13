// SPDX-License-Identifier: Apache-2.0
//
// A device: the client library's ledger between a connection and an application. The application takes messages one
// by one. The ledger decides which messages are new and which may be acknowledged. The work of MartletClient's event
// loop is done here, on simulated time. Rests on DeliveryLedger and Backoff.

import MartletBase
import MartletClient
import MartletWire

/// An instance and its application.
final class SimulatedDevice: SimulatedClient {
    /// An event that came and was not taken yet.
    private enum Waiting {
        case message(id: Int, streamID: UInt64, isStored: Bool)
        case deleted(streamID: UInt64)
    }

    let instance: InstanceModel
    let habits: DeviceHabits
    private var ledger = DeliveryLedger()
    private var backoff = Backoff(base: .milliseconds(20), cap: .seconds(1))
    private var random: Randomness
    private(set) var state = DeviceState.active
    private var helloState = DeviceState.active
    private var isOpen = false
    /// Whether the device wants to be connected.
    private(set) var isWanted = false
    private var waiting: [Waiting] = []
    private var isTaking = false
    private var isTimerSet = false
    /// Rises at each restart of the process; plans of an earlier life are void.
    private var life = 0
    private var correlation: UInt32 = 0
    private var attempt = 0
    /// Whether the device has tried to connect.
    var hasBegun: Bool { attempt > 0 }
    /// The phone whose connection the device shares; nil: the device has its own connection.
    private let phone: SimulatedPhone?
    /// The device's channel on the phone's connection; nil: not attached.
    private var channel: UInt8?
    /// Messages without an answer. `asked` has the messages sent on the present connection, by correlation.
    private var unanswered: [UpstreamModel] = []
    private var asked: [UInt32: UpstreamModel] = [:]

    init(
        number: Int, instance: InstanceModel, habits: DeviceHabits, phone: SimulatedPhone?,
        network: SimulatedNetwork, oracle: Oracle, random: Randomness
    ) {
        self.phone = phone
        self.instance = instance
        self.habits = habits
        self.random = random
        super.init(number: number, network: network, oracle: oracle)
    }

    // MARK: Connecting

    func want(_ wanted: Bool) {
        isWanted = wanted
        if wanted { open() }
    }

    private var isConnected: Bool { link != nil || channel != nil }

    override func connect() -> Bool {
        guard let phone else { return super.connect() }
        channel = phone.attach(self)
        return channel != nil
    }

    override func send(_ frames: [ClientFrame]) {
        if let phone {
            if let channel { phone.send(frames, on: channel) }
        } else {
            super.send(frames)
        }
    }

    private func open() {
        guard isWanted, !isConnected, instance.isRegistered else { return }
        guard connect() else {
            retry()
            return
        }
        attempt += 1
        helloState = state
        oracle.connected(instance)
        send(
            .hello(
                .device(
                    projectID: instance.project.id, token: instance.token,
                    deviceKey: instance.deviceKey, state: state,
                    unconfirmed: ledger.unconfirmed)))
        // A broker that was killed meanwhile does not answer.
        let present = attempt
        network.agenda.after(20_000_000) { [weak self] in
            guard let self, !isOpen, attempt == present, isConnected else { return }
            leave(.reset)
        }
    }

    private func retry() {
        let pause = backoff.next(using: &random)
        let (seconds, attoseconds) = pause.components
        let microseconds = seconds * 1_000_000 + attoseconds / 1_000_000_000_000
        network.agenda.after(microseconds + 1) { [weak self] in self?.open() }
    }

    override func lost() {
        isOpen = false
        channel = nil
        asked = [:]
        if isWanted { retry() }
    }

    /// Ends the connection. A device that wants to be connected connects again.
    func leave(_ ending: SimulatedLink.Ending) {
        guard isConnected else { return }
        if ending == .finished { acknowledge() }
        if let phone, let channel {
            guard ending == .finished else { return phone.breakOff(ending) }
            phone.detach(channel)
        }
        drop(ending)
        lost()
    }

    /// Kills and restarts the device's process. The process forgets messages not yet taken.
    func restart() {
        life += 1
        waiting = []
        unanswered = []
        isTaking = false
        isTimerSet = false
        ledger = DeliveryLedger(unconfirmed: ledger.unconfirmed)
        leave(.reset)
    }

    // MARK: Saying

    func setReading(_ reads: Bool) { (phone?.link ?? link)?.setReading(reads) }

    func setState(_ state: DeviceState) {
        self.state = state
        if isOpen { send(.deviceState(DeviceStateReport(state: state))) }
    }

    func change(_ operation: TopicOperation, topics: [String]) {
        guard isOpen else { return }
        correlation += 1
        send(
            .deviceTopics(
                DeviceTopicsRequest(
                    operation: operation, correlation: correlation, topics: topics)))
    }

    /// UPS-1: sends a message, and repeats the message on each connection until the answer comes.
    func submit(_ sent: UpstreamModel) {
        // The broker recognises a message until its device has sent a hundred more.
        guard unanswered.count < Limits.upstreamIDsPerInstanceMax / 2 else { return }
        unanswered.append(sent)
        tell(sent)
    }

    private func tell(_ sent: UpstreamModel) {
        guard isOpen else { return }
        correlation += 1
        asked[correlation] = sent
        send(.upstream(sent.request(correlation: correlation)))
    }

    private func answered(_ correlation: UInt32, _ error: MartletError?) -> UpstreamModel? {
        guard let sent = asked.removeValue(forKey: correlation) else { return nil }
        if error?.word == .unavailable {
            let life = life
            network.agenda.after(50_000) { [weak self] in
                guard let self, self.life == life, !asked.values.contains(where: { $0 === sent })
                else { return }
                tell(sent)
            }
        } else {
            unanswered.removeAll { $0 === sent }
        }
        return sent
    }

    func ping() { if isOpen { send(.ping(Ping(value: UInt64(life)))) } }

    func unregister() {
        guard isOpen else { return }
        correlation += 1
        send(.unregister(UnregisterRequest(correlation: correlation)))
    }

    // MARK: Hearing

    override func handle(_ frame: BrokerFrame) {
        switch frame {
        case .welcome(let welcome):
            isOpen = true
            backoff.succeeded()
            ledger.connected(acknowledgedThrough: welcome.acknowledgedThrough)
            if state != helloState { send(.deviceState(DeviceStateReport(state: state))) }
            for sent in unanswered { tell(sent) }
        case .deliver(let deliver): received(deliver)
        case .deleted(let deleted):
            // The application hears nothing of a notice whose stream ID a taken message has.
            guard ledger.deliver(deleted.streamID) else { return acknowledgeSoon() }
            oracle.deleted(deleted, by: instance)
            queue(.deleted(streamID: deleted.streamID))
        case .confirmed(let confirmed): ledger.confirm(through: confirmed.through)
        case .error(let error) where error.correlation == 0:
            oracle.connectionRefused(error.error, number)
        case .error(let error): _ = answered(error.correlation, error.error)
        case .upstreamAccepted(let accepted):
            guard let sent = answered(accepted.correlation, nil) else { return }
            oracle.answered(sent, accepted.number)
        default: break
        }
    }

    private func received(_ deliver: Deliver) {
        guard let id = oracle.delivered(deliver, to: instance) else { return }
        if deliver.isStored {
            if ledger.isConfirmed(deliver.streamID) { oracle.repeated(id, to: instance) }
            guard ledger.deliver(deliver.streamID) else { return acknowledgeSoon() }
        }
        queue(.message(id: id, streamID: deliver.streamID, isStored: deliver.isStored))
    }

    // MARK: Taking

    private func queue(_ event: Waiting) {
        guard habits.takingMean > 0 else { return take(event) }
        waiting.append(event)
        takeSoon()
    }

    private func takeSoon() {
        guard !isTaking, !waiting.isEmpty else { return }
        isTaking = true
        let life = life
        network.agenda.after(random.pause(mean: habits.takingMean)) { [weak self] in
            guard let self, self.life == life, !waiting.isEmpty else { return }
            isTaking = false
            take(waiting.removeFirst())
            takeSoon()
        }
    }

    private func take(_ event: Waiting) {
        switch event {
        case .message(let id, let streamID, let isStored):
            oracle.taken(id, by: instance)
            guard isStored else { return }
            ledger.take(streamID)
        case .deleted(let streamID): ledger.take(streamID)
        }
        acknowledgeSoon()
    }

    private func acknowledgeSoon() {
        guard isOpen, ledger.unsentCount > 0 else { return }
        guard ledger.unsentCount < habits.acknowledgedTogetherMax else { return acknowledge() }
        guard !isTimerSet else { return }
        isTimerSet = true
        let life = life
        network.agenda.after(habits.acknowledgementDelay) { [weak self] in
            guard let self, self.life == life else { return }
            isTimerSet = false
            acknowledge()
        }
    }

    private func acknowledge() {
        guard isOpen else { return }
        while let (through, single) = ledger.acknowledgement {
            send(.acknowledge(Acknowledge(through: through, streamIDs: single)))
            ledger.acknowledged(through: through, single: single)
        }
    }
}

/// The speed of a device.
struct DeviceHabits {
    /// Mean time that the application spends on a message, in microseconds; 0: no time.
    var takingMean: Int64 = 0
    var acknowledgedTogetherMax = 10
    var acknowledgementDelay: Int64 = 20_000
}
