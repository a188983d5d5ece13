// SPDX-License-Identifier: Apache-2.0
//
// The properties of a world, drawn from its seed: sizes, troubles and limits. Times are microseconds, chances are per
// thousand. Rests on Randomness.

import MartletBase
import MartletEngine

/// The plan of a world.
struct WorldPlan {
    enum Kind: String {
        /// All kinds of events at once.
        case mixed
        /// Projects that compete for one loop (FAN-2).
        case projects
        /// Two fanouts of one project (FAN-3).
        case fanouts
        /// All kinds of events on the nodes of a cluster (OPS-7).
        case cluster
    }

    var kind = Kind.mixed
    var loopCount = 1
    /// OPS-7: nodes of a cluster; 1: a broker alone.
    var nodeCount = 1
    /// OPS-7: quality of the cluster's log.
    var database = DatabaseConditions()
    /// OPS-7: mean time between two troubles of the cluster.
    var clusterTroubleMean: Int64 = 0
    /// OPS-7: mean time until the process of a node starts again.
    var restartMean: Int64 = 0
    var projectCount = 1
    var devicesPerProject = 4
    var topicCount = 3
    var limits = BrokerLimits()
    var conditions = NetworkConditions.perfect
    var habits = DeviceHabits()
    /// Connections of a loop, at most.
    var connectionsMax = 2600
    var idleSeconds: UInt32 = 1800
    /// Time until the troubles end.
    var duration: Int64 = 4_000_000
    /// Mean time between two messages of a project.
    var messageMean: Int64 = 100_000
    /// Mean time between two actions of a device.
    var actionMean: Int64 = 400_000
    var turnCost: Int64 = 60
    var commitCost: Int64 = 400
    var failedCommitChance = 0
    var failedReadChance = 0
    /// Bounds on acknowledgements; nil: production's bounds.
    var acknowledgingBounds: AcknowledgingBounds?
    /// Mean time between two ends of the broker's process; 0: the process never ends.
    var crashMean: Int64 = 0
    /// Chance that an end of the process is a shutdown, and not a kill.
    var shutDownChance = 0

    /// Devices on a shared connection; 0: each device has its own connection.
    var appsPerPhone = 0
    /// Mean time between two changes of a project's groups; 0: the world has no groups.
    var groupMean: Int64 = 0
    /// Mean time between two messages of a device; 0: devices send no messages.
    var upstreamMean: Int64 = 0
    var listenersPerProject = 1
    /// Mean time until a listener acknowledges a message.
    var listenerTakingMean: Int64 = 500

    // Properties of messages.
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

    /// Whether devices doze. `isRenewing`: whether instances unregister and new instances come.
    var isDozing = false
    var isRenewing = false

    /// - Parameter hasKnown: whether the world may run into known deficiencies.
    init(seed: UInt64, hasKnown: Bool = false) {
        var random = Randomness(seed: seed)
        switch seed % 16 {
        case 7: makeProjects(&random)
        case 15: makeFanouts(&random)
        default: makeMixed(&random)
        }
        // A failed commit can keep the beginning of a connection from the store. If the connection ends before the store is
        // told again, the time counts as absence, and held-back messages may be discarded as too many (STO-1). A broker alone
        // may give the notice the stream ID of a message that the device has.
        if !hasKnown, failedCommitChance > 0 { limits.storedPerInstanceMax = 0 }
    }

    /// OPS-7: the plan of a world with three nodes.
    init(clusterSeed seed: UInt64) {
        var random = Randomness(seed: seed ^ 0xC1)
        makeMixed(&random)
        kind = .cluster
        nodeCount = 3
        loopCount = random.number(1...2)
        projectCount = random.number(1...2)
        devicesPerProject = random.number(2...6)
        duration = Int64(random.number(8...20)) * 1_000_000
        messageMean = random.one(of: [100_000, 300_000, 1_000_000])
        actionMean = random.one(of: [500_000, 2_000_000])
        commitCost = 0
        crashMean = 0
        groupMean = 0
        groupChance = 0
        upstreamMean = 0
        limits.collapsibleRefillSeconds = 1
        shortLifeSecondsMax = 20
        connectionsMax = 512
        idleSeconds = 1800
        clusterTroubleMean = random.one(of: [400_000, 1_000_000, 3_000_000])
        restartMean = random.one(of: [100_000, 1_000_000, 5_000_000])
        database.delayMean = random.one(of: [100, 300, 2000])
        database.standbyMean = random.one(of: [100, 400, 5000])
        database.slowChance = random.one(of: [0, 0, 5])
        database.cancelChance = random.one(of: [0, 0, 5])
        database.killChance = random.one(of: [0, 0, 5])
    }

    /// OPS-7: the plan of a world with three nodes and no trouble, whose log is made slow.
    init(slowLogSeed seed: UInt64) {
        self.init(clusterSeed: seed)
        conditions = .perfect
        database = DatabaseConditions()
        (failedCommitChance, failedReadChance) = (0, 0)
        (isRenewing, isDozing, appsPerPhone) = (false, false, 0)
        limits = .none
        messageMean = 500_000
        actionMean = 5_000_000
        restartMean = 1_000_000
        duration = 200_000_000
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
        // Simulated devices change their topics more often than people do.
        limits.deviceTopicBurst = 0
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
            // Room for all clients, and hardly any room for dead connections.
            let listeners = upstreamMean > 0 ? listenersPerProject : 0
            connectionsMax = projectCount * (devicesPerProject + 1 + listeners) + 6
            idleSeconds = 5
            isRenewing = false
        }
        if random.chance(400) { appsPerPhone = random.number(1...5) }
        if random.chance(300) { boundAcknowledging(&random) }
    }

    /// Makes the bounds so small that part of the acknowledgements waits for the next transaction, and later
    /// acknowledgements wait behind that part.
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

    /// Stretches seconds to minutes, with as many events.
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

    /// Plans projects of unequal size, whose fanouts come faster than they are delivered. One project has half as
    /// many instances again as each other project.
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
