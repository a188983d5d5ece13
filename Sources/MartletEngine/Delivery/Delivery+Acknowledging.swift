// SPDX-License-Identifier: Apache-2.0
//
// What devices have taken (TTL-4): cumulative acknowledgements become marks per lane, single ones are
// handed on as they are, and a connection that ends leaves behind where it was. When what was handed
// on is on disk, devices are told, so that they need not remember it. Rests on Session.

import MartletBase

extension Delivery {
    /// Single acknowledgements kept until they are handed on. More are dropped, which costs one more
    /// delivery each; a device that goes on telling them would else fill the memory.
    public static var singleAcknowledgementsMax: Int { 65_536 }
    /// Messages after whose acknowledgement a device is told what is durable.
    static var confirmationsAfter: UInt8 { 64 }
    /// Stream IDs are the project's, so how far an acknowledgement moves on only bounds how many
    /// messages it is for. It counts as at most so many.
    static var messagesPerAcknowledgement: UInt64 { 16 }

    /// The session is a device's, or was before it was detached.
    /// - Returns: false if the device acknowledges what it was never sent.
    public mutating func acknowledge(
        _ index: UInt32, through claimed: UInt64, single: [UInt64]
    ) -> Bool {
        let session = sessions + Int(index)
        let device = devices + Int(index)
        let highest = max(session.pointee.highestDelivered, device.pointee.acknowledgedThrough)
        guard claimed <= highest, single.allSatisfy({ $0 <= highest }) else { return false }
        // What a replaced connection took is told again by the one that replaced it.
        guard session.pointee.flags.contains(.device) else { return true }
        if !single.isEmpty { keepSingle(index, single) }
        // Nothing is left from before what was discarded: it is acknowledged with that or not at all.
        let isBefore =
            claimed < device.pointee.discardedThrough
            && device.pointee.acknowledged.lowest.rawValue < device.pointee.discardedThrough
        let through = isBefore ? 0 : claimed
        let cameLate = late.isEmpty ? nil : lateDeliveries(to: index, behind: through)
        let before = device.pointee.acknowledged
        var marks = before
        let delivered = deliveredMarks(index)
        for number in 0..<UInt8(Lane.count) {
            let lane = Lane(rawValue: number)
            let reached = cameLate?.cap(of: through, in: lane) ?? through
            var taken = min(reached, delivered[lane].rawValue)
            if lane == Self.heldLane { taken = min(taken, device.pointee.untoldFrom &- 1) }
            if taken > marks[lane].rawValue { marks[lane] = MessageSequence(taken) }
        }
        device.pointee.acknowledged = marks
        // A notice is a position in all lanes, also where something from before waits in a closed one.
        let told = device.pointee.toldThrough
        if told > device.pointee.noticeTakenThrough {
            let isReached = through >= told && through > device.pointee.toldBehind
            if isReached || single.contains(told) {
                // The notice may name a discard (STO-2) that the store has forgotten meanwhile.
                let overflow = device.pointee.discarded?.through.rawValue ?? told
                keepSingle(index, overflow < told ? [overflow, told] : [told])
                device.pointee.noticeTakenThrough = told
            }
        }
        let advance = through - min(through, device.pointee.acknowledgedThrough)
        device.pointee.acknowledgedThrough = max(device.pointee.acknowledgedThrough, through)
        count(UInt64(single.count) + min(advance, Self.messagesPerAcknowledgement), device)
        guard marks != before else { return true }
        foldDetails(index)
        counters.acknowledged &+= 1
        if !session.pointee.flags.contains(.acknowledged) {
            session.pointee.flags.insert(.acknowledged)
            acknowledged.append(index)
        }
        return true
    }

    /// Frees the details of a session for which they do not matter any more.
    func foldDetails(_ index: UInt32) {
        guard !sessions[Int(index)].flags.contains(.split) else { return }
        devices[Int(index)].foldDetails()
    }

    /// What came late to a session and is not acknowledged with all that came before it.
    private mutating func lateDeliveries(
        to index: UInt32, behind through: UInt64
    ) -> LateDeliveries? {
        late[index]?.acknowledged(through)
        if late[index]?.isEmpty ?? false { late[index] = nil }
        return late[index]
    }

    private func count(_ messages: UInt64, _ device: UnsafeMutablePointer<DeviceSession>) {
        device.pointee.unconfirmedCount = UInt8(
            clamping: UInt64(device.pointee.unconfirmedCount) + messages)
    }

    /// - Parameter arrival: see `Acknowledgement`.
    mutating func keepSingle(
        _ index: UInt32, _ single: [UInt64], arrival: MessageSequence? = nil
    ) {
        guard singleCount + single.count <= Self.singleAcknowledgementsMax else { return }
        singleCount += single.count
        var acknowledgement = acknowledgement(of: index, single: single)
        acknowledgement.arrival = arrival
        closedAcknowledgements.append(acknowledgement)
    }

    private func acknowledgement(
        of index: UInt32, single: [UInt64] = [], departure: Acknowledgement.Departure? = nil
    ) -> Acknowledgement {
        let device = devices + Int(index)
        return Acknowledgement(
            project: sessions[Int(index)].project, ordinal: sessions[Int(index)].ordinal,
            holder: device.pointee.holder, through: device.pointee.acknowledged, single: single,
            departure: departure, skipped: skipped.isEmpty ? nil : skipped[index])
    }

    /// The connection ends. One that has acknowledged everything can be told to be further than its
    /// last message was: that spares it reading the same recipients again on its next connection.
    mutating func keepDeparture(of index: UInt32, _ now: Instant) {
        let session = sessions + Int(index)
        let device = devices + Int(index)
        if !session.pointee.flags.contains(.behind), device.pointee.discarded == nil,
            session.pointee.highestDelivered <= device.pointee.acknowledged.lowest.rawValue
        {
            moveOn(index, to: projects[session.pointee.project].pointee.finishedThrough)
            device.pointee.acknowledged.formMaximum(deliveredMarks(index))
        }
        hasUrgentAcknowledgements = true
        closedAcknowledgements.append(
            acknowledgement(
                of: index,
                departure: Acknowledgement.Departure(
                    connectionNumber: device.pointee.connectionNumber,
                    position: MessageSequence(heardThrough(index)),
                    throttleFull: Instant(rawValue: session.pointee.throttleFull), seen: now)))
        skipped[index] = nil
        late[index] = nil
    }

    /// What ended connections left behind could not be written: it is handed on again, before what came
    /// since.
    public mutating func keep(_ departures: [Acknowledgement]) {
        guard !departures.isEmpty else { return }
        closedAcknowledgements.insert(contentsOf: departures, at: 0)
        hasUrgentAcknowledgements = true
    }

    /// What is to be in the store before what follows, and no more: marks that rise go on gathering.
    public mutating func takeUrgentAcknowledgements() -> [Acknowledgement] {
        var result: [Acknowledgement] = []
        swap(&result, &closedAcknowledgements)
        singleCount = 0
        hasUrgentAcknowledgements = false
        lastBatch &+= 1
        return result
    }

    /// Whether there are acknowledgements to hand on.
    public var hasAcknowledgements: Bool {
        !acknowledged.isEmpty || !closedAcknowledgements.isEmpty
    }

    /// Single acknowledgements, and what ended connections left behind.
    public var waitingCount: Int { closedAcknowledgements.count }

    /// What was acknowledged since the last call, each session's latest once.
    public mutating func takeAcknowledgements() -> [Acknowledgement] {
        var result = takeUrgentAcknowledgements()
        result.reserveCapacity(result.count + acknowledged.count)
        for index in acknowledged {
            let session = sessions + Int(index)
            guard session.pointee.flags.contains(.acknowledged) else { continue }
            session.pointee.flags.remove(.acknowledged)
            result.append(acknowledgement(of: index))
            if !skipped.isEmpty { skipped[index] = nil }
            let device = devices + Int(index)
            let through = device.pointee.acknowledged.lowest.rawValue
            if device.pointee.unconfirmedCount >= Self.confirmationsAfter,
                device.pointee.isUnconfirmed
            {
                device.pointee.unconfirmedCount = 0
                device.pointee.isUnconfirmed = false
                unconfirmed.append(
                    Unconfirmed(
                        batch: lastBatch, index: index,
                        connectionNumber: device.pointee.connectionNumber, through: through))
            }
        }
        acknowledged.removeAll(keepingCapacity: true)
        return result
    }

    /// A batch of what was handed on is on disk or lost. Lost marks are handed on again with the next
    /// acknowledgement.
    /// - Returns: who is to be told, and that everything up to there is acknowledged for good.
    public mutating func acknowledgementsSettled(
        _ batch: UInt64, areStored: Bool
    ) -> [(index: UInt32, through: UInt64)] {
        var all: [Unconfirmed] = []
        swap(&all, &unconfirmed)
        var result: [(index: UInt32, through: UInt64)] = []
        for one in all {
            if one.batch != batch {
                unconfirmed.append(one)
            } else if areStored, isDevice(one.index, one.connectionNumber) {
                result.append((index: one.index, through: one.through))
            }
        }
        return result
    }
}

/// A device that is to be told what is durable when a batch of acknowledgements is.
struct Unconfirmed {
    let batch: UInt64
    let index: UInt32
    let connectionNumber: UInt64
    let through: UInt64
}
