// SPDX-License-Identifier: Apache-2.0
//
// The broker as the specification tells it: instances with their mailboxes, who is connected and how
// awake, what was accepted, what is due. Everything is done at once for every instance, one by one.
//
// Where the specification is silent, these are the rules (those of a mailbox are in EagerMailbox):
//
//  1. An instance that connects is given what is stored, in order, and is told what was discarded
//     first. What a doze or the throttle holds back is given when that ends, in order again.
//  2. The throttle (COL-4) takes a token whenever a stored collapsible message is given to a
//     connection, also again. What it left is known from one connection to the next, not after a crash.
//  3. A cumulative acknowledgement is for what was given on this connection up to that stream ID. What
//     was given behind a higher stream ID is meant only by one above all that was given before it:
//     an acknowledgement may have been on its way already.
//  4. Knowledge that dies in a crash: acknowledgements not handed over, what the throttle left, and
//     what the quotas left. Else it ends connections as anything else does.
//  5. What an instance was told was discarded stays discarded.
//  6. A message to several instances skips those over their quota; it is a recipient's quota that is
//     used, whether it is connected or not, inactive or not.
//  7. A scheduled message takes its audience and its quota when it is sent, which is when the broker
//     first looks after it was due; its life counts from when it was due. One for a token is for the
//     instance that had it when the message was accepted (REG-4); it is dropped if that has left by then,
//     or is over its quota. What the throttle lets go by then is
//     given before that or after it: both happen at the next look, one by the loops, one by the committer.
//  8. A message that is now or never uses nobody's quota, and is given to who is connected and not
//     dozing, or connected if it is urgent. It is not discarded for the inactive.
//
// Rests on EagerMailbox; on the engine's types only where something is handed over.

import MartletBase
import MartletEngine
import MartletRows

/// What the broker should do.
final class BrokerModel {
    /// One installed app.
    struct Instance {
        var token: String
        let platform: Platform
        let app: String
        /// Instances that nobody can tell apart, as far as this one says.
        var count = 1
        var topics: Set<String> = []
        var mailbox: EagerMailbox
        var connection: Connection?
        /// When it was last connected.
        var seen: Int64
        var minute: Credit
        var hour: Credit
        /// As it was when the last connection ended.
        var throttle: Credit
    }

    /// An instance's connection.
    struct Connection {
        var isDozing: Bool
        /// Serials of what it was given, in order.
        var given: [UInt64] = []
        var told: EagerMailbox.Notice?
        /// How many messages came before the notice.
        var givenBeforeNotice = 0
        var throttle: Credit
        /// It was given everything once, and told what was discarded.
        var isSettled = false
    }

    /// A bucket, told in the time that fills it: each use costs `interval`, and it holds `burst` uses.
    struct Credit: Equatable {
        let interval: Int64
        let burst: Int64
        var left: Int64
        var at: Int64

        /// nil interval or burst: never empty.
        init(burst: Int, interval: Int64, now: Int64) {
            self.burst = Int64(burst)
            self.interval = interval
            left = Int64(burst) * interval
            at = now
        }

        mutating func passTime(to now: Int64) {
            left = min(burst * interval, left + (now - at))
            at = now
        }

        var hasOne: Bool { burst == 0 || left >= interval }
        /// Until it has one.
        var delay: Int64 { hasOne ? 0 : interval - left }
        mutating func use() { if burst > 0 { left -= interval } }
    }

    /// A message as it was sent, by the number in its body.
    struct Message {
        var variants: [OutgoingVariant]
        var target: SendCommand.Target
        var key: String?
        /// Who had the token that it is for.
        var addressee: Int?
        /// Set when it is accepted for its recipients: its place among those that are.
        var serial: UInt64?
    }

    /// What an instance is given.
    struct Delivered: Hashable {
        var id: UInt64
        var isStored: Bool
    }

    /// What was counted of a message when it was accepted, and of those that have left since.
    struct Report {
        /// Instances that it is stored for, or was discarded for.
        var waited: Set<Int> = []
        var waitedCount = 0
        /// Instances whose variant was over before the message was sent. They are among `waitedCount` and `left`.
        var ended: Set<Int> = []
        var rateLimited: Set<Int> = []
        var rateLimitedCount = 0
        var nowOrNeverCount = 0
        var left: [EagerMailbox.Fate: Int] = [:]

        var targetedCount: Int { waitedCount + rateLimitedCount + nowOrNeverCount }
    }

    /// What is to be expected of a send.
    enum Answer: Equatable {
        case refused(ErrorWord)
        case quota(delayMilliseconds: Int64)
        case accepted(recipients: Int, rateLimited: Int, inactive: Int)
        case repeated(id: UInt64)
        case scheduled
        case validated(recipients: Int?)
    }

    let limits: BrokerLimits
    let brokenRule: EagerMailbox.BrokenRule
    private(set) var now: Int64
    var instances: [Int: Instance] = [:]
    var retiredTokens: [String] = []
    var messages: [UInt64: Message] = [:]
    /// The message at each place.
    var idsBySerial: [UInt64: UInt64] = [:]
    /// Not due yet.
    var scheduled: [(due: Int64, id: UInt64)] = []
    var repeats: [String: (id: UInt64, until: Int64)] = [:]
    private var nextInstance = 0
    var lastSerial: UInt64 = 0
    /// What instances were given since that was last asked.
    var deliveries: [Int: [Delivered]] = [:]
    /// What instances are to be told since that was last asked.
    var notices: [Int: EagerMailbox.Notice] = [:]
    /// REP-1: by serial.
    var reports: [UInt64: Report] = [:]
    /// The stream ID of what is stored, as the broker numbered it.
    var streamIDs: [UInt64: UInt64] = [:]

    init(limits: BrokerLimits, now: Int64, brokenRule: EagerMailbox.BrokenRule) {
        self.limits = limits
        self.now = now
        self.brokenRule = brokenRule
    }

    var ids: [Int] { instances.keys.sorted() }

    // MARK: Instances

    func register(token: String, platform: Platform, app: String) -> Int {
        nextInstance += 1
        instances[nextInstance] = Instance(
            token: token, platform: platform, app: app,
            mailbox: EagerMailbox(
                limits: .init(
                    stored: limits.storedPerInstanceMax, keys: limits.collapseKeysPerInstanceMax),
                brokenRule: brokenRule),
            seen: now,
            minute: perMinute, hour: perHour,
            throttle: Credit(
                burst: limits.collapsibleBurst,
                interval: Int64(limits.collapsibleRefillSeconds) * 1000, now: now))
        return nextInstance
    }

    private var perMinute: Credit {
        let count = limits.deviceMessagesPerMinute
        return Credit(burst: count, interval: 60_000 / Int64(max(1, count)), now: now)
    }

    private var perHour: Credit {
        let count = limits.deviceMessagesPerHour
        return Credit(burst: count, interval: 3_600_000 / Int64(max(1, count)), now: now)
    }

    func unregister(_ id: Int) {
        instances[id]!.mailbox.leave()
        for (serial, fate) in instances[id]!.mailbox.fates {
            reports[serial]?.left[fate, default: 0] += 1
        }
        retiredTokens.append(instances[id]!.token)
        instances[id] = nil
    }

    func rotate(_ id: Int, to token: String) {
        retiredTokens.append(instances[id]!.token)
        instances[id]!.token = token
    }

    // MARK: Connections

    /// - Parameter taken: what the device says it has taken.
    func connect(_ id: Int, isDozing: Bool, taken: Set<UInt64>) {
        if instances[id]!.connection != nil { disconnect(id) }
        acknowledge(id, taken)
        for serial in taken.sorted() { instances[id]!.mailbox.acknowledgeNotice(serial) }
        instances[id]!.seen = now
        var throttle = instances[id]!.throttle
        throttle.passTime(to: now)
        instances[id]!.connection = Connection(isDozing: isDozing, throttle: throttle)
        give(id)
    }

    func setDozing(_ id: Int, _ isDozing: Bool) {
        instances[id]!.connection!.isDozing = isDozing
        give(id)
    }

    func disconnect(_ id: Int) {
        guard let connection = instances[id]!.connection else { return }
        instances[id]!.connection = nil
        instances[id]!.seen = now
        instances[id]!.throttle = connection.throttle
    }

    /// The broker dies and starts again.
    func crash() {
        for id in ids {
            if instances[id]!.connection != nil {
                instances[id]!.connection = nil
                instances[id]!.seen = now
            }
            instances[id]!.minute = perMinute
            instances[id]!.hour = perHour
        }
    }

    // MARK: Acknowledging

    func acknowledge(_ id: Int, through streamID: UInt64) {
        let connection = instances[id]!.connection!
        var meant: Set<UInt64> = []
        var before: UInt64 = 0
        var arrived = connection.given
        if let told = connection.told {
            arrived.insert(told.through, at: connection.givenBeforeNotice)
        }
        for serial in arrived {
            let own = streamIDs[serial]!
            if own <= streamID, own > before || streamID > before { meant.insert(serial) }
            before = max(before, own)
        }
        acknowledge(id, meant)
        if let told = connection.told, meant.contains(told.through) {
            instances[id]!.mailbox.acknowledgeNotice(through: told.through)
        }
    }

    /// These messages are taken.
    func acknowledge(_ id: Int, _ serials: Set<UInt64>) {
        instances[id]!.mailbox.acknowledge { serials.contains($0.serial) }
        instances[id]!.mailbox.passTime(to: now)
    }

    /// It has taken a notice with this stream ID, if that is one.
    func acknowledgeNotice(_ id: Int, _ serial: UInt64) {
        if instances[id]!.connection?.told?.through == serial {
            instances[id]!.mailbox.acknowledgeNotice(through: serial)
        } else {
            instances[id]!.mailbox.acknowledgeNotice(serial)
        }
    }

    func serial(of streamID: UInt64) -> UInt64? {
        streamIDs.first { $0.value == streamID }?.key
    }

    // MARK: Time

    /// Whether a doze and the throttle hold back messages of one instance.
    var hasThrottledDoze: Bool {
        ids.contains { id in
            guard let instance = instances[id], let connection = instance.connection,
                connection.isDozing
            else { return false }
            return instance.mailbox.pending.contains {
                $0.key != nil && !connection.given.contains($0.serial)
            }
        }
    }

    /// - Parameter givesFirst: what the throttle lets go is given before what is due is accepted.
    func passTime(to instant: Int64, givesFirst: Bool) {
        now = instant
        for id in ids {
            instances[id]!.mailbox.passTime(to: now)
            instances[id]!.minute.passTime(to: now)
            instances[id]!.hour.passTime(to: now)
            instances[id]!.throttle.passTime(to: now)
            instances[id]!.connection?.throttle.passTime(to: now)
            if instances[id]!.connection != nil { instances[id]!.seen = now }
        }
        if givesFirst { for id in ids { give(id) } }
        while let next = scheduled.min(by: { ($0.due, $0.id) < ($1.due, $1.id) }), next.due <= now {
            scheduled.removeAll { $0.id == next.id }
            accept(next.id, lifeFrom: next.due)
        }
        for id in ids { give(id) }
    }

    // MARK: Giving

    /// Gives a connected instance what it can be given.
    func give(_ id: Int) {
        guard var connection = instances[id]?.connection else { return }
        let mailbox = instances[id]!.mailbox
        let isTold = !connection.isSettled || !connection.isDozing
        let notice = isTold ? mailbox.notice : nil
        let isNew = notice.map { $0.through > connection.told?.through ?? 0 } ?? false
        if let notice, isNew {
            connection.told = notice
            notices[id] = notice
        }
        for item in mailbox.pending {
            if connection.given.contains(item.serial) || connection.isDozing && !item.isHigh {
                continue
            }
            if item.key != nil {
                guard connection.throttle.hasOne else { continue }
                connection.throttle.use()
            }
            connection.given.append(item.serial)
            instances[id]!.mailbox.given.insert(item.serial)
            deliveries[id, default: []].append(
                Delivered(id: idsBySerial[item.serial]!, isStored: true))
        }
        if isNew, let told = connection.told {
            let before = instances[id]!.connection!.given.count
            connection.givenBeforeNotice =
                before + connection.given[before...].count { $0 <= told.through }
        }
        connection.isSettled = true
        instances[id]!.connection = connection
    }
}
