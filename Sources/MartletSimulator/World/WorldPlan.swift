// SPDX-License-Identifier: Apache-2.0
//
// What a world is like, drawn from its seed: how large it is, what goes wrong in it, which limits hold.
// Times are microseconds, chances are per thousand. Rests on Randomness.

import MartletBase
import MartletEngine

/// One world.
struct WorldPlan {
    enum Kind: String {
        /// Everything at once.
        case mixed
        /// Projects that compete for one loop (FAN-2).
        case projects
        /// Two fanouts of one project (FAN-3).
        case fanouts
    }

    var kind = Kind.mixed
    var loopCount = 1
    var projectCount = 1
    var devicesPerProject = 4
    var topicCount = 3
    var limits = MailboxLimits()
    var conditions = NetworkConditions.perfect
    var habits = DeviceHabits()
    /// Connections of a loop.
    var connectionsMax = 2600
    var idleSeconds: UInt32 = 1800
    /// Until which things go wrong.
    var duration: Int64 = 4_000_000
    /// Between two messages of a project.
    var messageMean: Int64 = 100_000
    /// Between two deeds of a device.
    var actionMean: Int64 = 400_000
    var turnCost: Int64 = 60
    var commitCost: Int64 = 400
    var failedCommitChance = 0
    var failedReadChance = 0
    /// nil: production's.
    var acknowledgingBounds: AcknowledgingBounds?
    /// Between two ends of the broker's process; 0: none.
    var crashMean: Int64 = 0
    /// Those of them that are asked for.
    var shutDownChance = 0

    /// Devices that share a connection; 0: each has its own.
    var appsPerPhone = 0
    /// Between two changes of a project's groups; 0: it has none.
    var groupMean: Int64 = 0
    /// Between two messages that a device sends; 0: none does.
    var upstreamMean: Int64 = 0
    var listenersPerProject = 1
    /// Until a listener acknowledges.
    var listenerTakingMean: Int64 = 500

    // What messages are like.
    var directChance = 300
    var conditionChance = 200
    var groupChance = 0
    var nowOrNeverChance = 0
    var shortLivedChance = 0
    var collapsibleChance = 0
    var highPriorityChance = 0
    var cancelChance = 0
    var scheduledChance = 0
    var shortLifeSecondsMax = 3
    var idempotentChance = 0
    var paddingBytesMax = 0

    /// Whether devices doze, and whether they come and go for good.
    var isDozing = false
    var isRenewing = false

    /// - Parameter hasKnown: worlds may also have what is known not to be as it should.
    init(seed: UInt64, hasKnown: Bool = false) {
        var random = Randomness(seed: seed)
        switch seed % 16 {
        case 7: makeProjects(&random)
        case 15: makeFanouts(&random)
        default: makeMixed(&random)
        }
        // A connection that the store could not be told of, and that ends before it is told again,
        // counts as absence: STO-1 may then discard without notice what was held back meanwhile.
        if !hasKnown, failedCommitChance > 0 { limits.storedPerInstanceMax = 0 }
    }

    private mutating func makeMixed(_ random: inout Randomness) {
        loopCount = random.number(1...3)
        projectCount = random.number(1...3)
        devicesPerProject = random.number(1...9)
        topicCount = random.number(1...4)
        conditions = .random(&random)
        habits.takingMean = random.one(of: [0, 500, 5000, 60_000])
        habits.acknowledgedTogetherMax = random.one(of: [1, 10])
        habits.acknowledgementDelay = random.one(of: [100, 20_000, 1_000_000])
        duration = Int64(random.number(1...6)) * 1_000_000
        messageMean = random.one(of: [15_000, 60_000, 250_000])
        actionMean = random.one(of: [50_000, 300_000, 2_000_000])
        turnCost = random.one(of: [20, 60, 2000])
        commitCost = random.one(of: [100, 1000, 30_000])
        if random.chance(400) {
            failedCommitChance = random.one(of: [20, 200])
            failedReadChance = random.one(of: [0, 20, 100])
        }
        if random.chance(300) { crashMean = random.one(of: [500_000, 2_000_000]) }
        shutDownChance = random.one(of: [0, 500])
        scheduledChance = random.one(of: [0, 0, 200])
        nowOrNeverChance = random.one(of: [0, 100, 400])
        shortLivedChance = random.one(of: [0, 0, 200])
        collapsibleChance = random.one(of: [0, 0, 300, 900])
        cancelChance = random.one(of: [0, 0, 100])
        idempotentChance = random.one(of: [0, 300, 1000])
        paddingBytesMax = random.one(of: [0, 40, 3000])
        isDozing = random.chance(400)
        highPriorityChance = isDozing ? 400 : 0
        isRenewing = random.chance(250)
        limits.storedPerInstanceMax = random.one(of: [0, 0, 100, 5])
        limits.collapsibleBurst = random.one(of: [0, 3])
        limits.collapsibleRefillSeconds = 1
        if random.chance(200) {
            limits.deviceMessagesPerMinute = random.number(2...30)
            limits.deviceMessagesPerHour = random.number(5...60)
        }
        if random.chance(400) {
            groupMean = random.one(of: [100_000, 600_000])
            groupChance = random.one(of: [50, 400])
        }
        if random.chance(400) {
            upstreamMean = random.one(of: [60_000, 400_000])
            listenersPerProject = random.number(1...3)
            listenerTakingMean = random.one(of: [10, 500, 40_000])
        }
        if random.chance(200) { makeLong(&random) }
        connectionsMax = 512
        if random.chance(200) {
            // Room for everybody, and hardly for connections that are dead already.
            let listeners = upstreamMean > 0 ? listenersPerProject : 0
            connectionsMax = projectCount * (devicesPerProject + 1 + listeners) + 6
            idleSeconds = 5
            isRenewing = false
        }
        if random.chance(400) { appsPerPhone = random.number(1...5) }
        if random.chance(300) { boundAcknowledging(&random) }
    }

    /// So small that what is left of acknowledgements waits for the next transaction, and behind it what
    /// has come since.
    private mutating func boundAcknowledging(_ random: inout Randomness) {
        let cost = random.number(1...8)
        var bounds = AcknowledgingBounds(
            costMax: 2 * cost, costPerProjectMax: cost, piecesPerStep: 1)
        bounds.messagesPerPiece = UInt64(random.number(1...8))
        bounds.inboxRowsPerStep = random.number(1...4)
        bounds.singlesPerStep = random.number(1...4)
        bounds.sentCountsMax = random.number(1...8)
        acknowledgingBounds = bounds
    }

    /// Minutes instead of seconds, with as much in them.
    private mutating func makeLong(_ random: inout Randomness) {
        let factor = Int64(random.number(10...40))
        duration *= factor
        messageMean *= factor
        actionMean *= factor
        groupMean *= factor
        upstreamMean *= factor
        crashMean *= factor
        shortLifeSecondsMax *= Int(factor)
        limits.collapsibleRefillSeconds = random.number(1...20)
        idleSeconds = UInt32(random.one(of: [5, 1800]))
    }

    /// Half of a project's instances more than another's, fanouts that come faster than they are
    /// delivered.
    private mutating func makeProjects(_ random: inout Randomness) {
        kind = .projects
        projectCount = random.number(2...3)
        devicesPerProject = random.number(250...400)
        topicCount = 1
        limits = .none
        turnCost = 200
        messageMean = Int64(random.number(150...400))
    }

    private mutating func makeFanouts(_ random: inout Randomness) {
        kind = .fanouts
        devicesPerProject = random.number(2100...2400)
        topicCount = 2
        limits = .none
        turnCost = 200
    }
}
