// SPDX-License-Identifier: Apache-2.0
//
// Takes devices' acknowledgements (TTL-4). A cumulative one raises marks, one per lane. A single one goes to the committer as
// it is. When a connection ends, a departure follows: position, throttle and time. After the commit, CONFIRMED tells the
// device which acknowledgements are durable, so that it can forget those stream IDs. Rests on Session.

import MartletBase
package import MartletEngine

extension Delivery {
    /// How many single acknowledgements may wait for the committer. More are dropped, or a device could fill our memory. The
    /// price of a dropped acknowledgement is one more delivery.
    package static var singleAcknowledgementsMax: Int { 65_536 }
    /// Acknowledged messages between two CONFIRMED frames to a device, by the estimate in `unconfirmedCount`.
    static var confirmationsAfter: UInt8 { 64 }
    /// How much one cumulative acknowledgement adds to the estimate at most. Stream IDs count the whole project's messages, so
    /// the distance between two acknowledgements is only an upper bound.
    static var messagesPerAcknowledgement: UInt64 { 16 }

    /// Whether a device has not acknowledged the last message on its connection.
    /// - Parameter index: an attached session's number.
    package func awaitsAcknowledgement(_ index: UInt32) -> Bool {
        sessions[Int(index)].highestDelivered > devices[Int(index)].acknowledgedThrough
    }

    /// Takes an acknowledgement from a device. The session is a device's, or was until the instance's newer connection replaced
    /// it.
    /// - Returns: false if this connection has never sent a stream ID that high.
    package mutating func acknowledge(
        _ index: UInt32, through claimed: UInt64, single: [UInt64]
    ) -> Bool {
        let session = sessions + Int(index)
        let device = devices + Int(index)
        let highest = max(session.pointee.highestDelivered, device.pointee.acknowledgedThrough)
        guard claimed <= highest, single.allSatisfy({ $0 <= highest }) else { return false }
        // It was replaced. The HELLO of the newer connection lists what the device has taken.
        guard session.pointee.flags.contains(.device) else { return true }
        if !single.isEmpty { keepSingle(index, single) }
        // Nothing before a discard is left, so an acknowledgement below it has no effect.
        let old = device.pointee.marks
        let before = old.acknowledged
        let isBefore =
            claimed < old.discardedThrough
            && before.lowest.rawValue < old.discardedThrough
        let through = isBefore ? 0 : claimed
        let cameLate = late.isEmpty ? nil : lateDeliveries(to: index, behind: through)
        var marks = before
        let delivered = deliveredMarks(index)
        let untoldFrom = old.untoldFrom
        for number in 0..<UInt8(Lane.count) {
            let lane = Lane(rawValue: number)
            let reached = cameLate?.cap(of: through, in: lane) ?? through
            var taken = min(reached, delivered[lane].rawValue)
            if lane == Self.heldLane { taken = min(taken, untoldFrom - 1) }
            if taken > marks[lane].rawValue { marks[lane] = MessageSequence(taken) }
        }
        // The held lane's mark was past the notice before we knew of the notice.
        if marks.lowest.rawValue >= untoldFrom {
            for lane in Lane.all where before[lane].rawValue < untoldFrom {
                marks[lane] = MessageSequence(untoldFrom - 1)
            }
        }
        device.pointee.acknowledged = marks
        // A notice is acknowledged by naming it, because older messages may still wait in a closed lane.
        let told = old.toldThrough
        if told > old.noticeTakenThrough {
            let isReached = through >= told && through > old.toldBehind
            if isReached || single.contains(told) {
                // The notice got its ID from a discard for inactivity (STO-2), which the store may have forgotten.
                let notice = old.toldNotice
                let isOther = notice > 0 && notice != told
                keepSingle(index, isOther ? [min(notice, told), max(notice, told)] : [told])
                device.pointee.changingMarks().pointee.noticeTakenThrough = max(told, notice)
            }
        }
        let advance = through - min(through, device.pointee.acknowledgedThrough)
        device.pointee.acknowledgedThrough = max(device.pointee.acknowledgedThrough, through)
        count(UInt64(single.count) + min(advance, Self.messagesPerAcknowledgement), device)
        guard marks != before else { return true }
        foldMarks(index)
        counters.acknowledged &+= 1
        if !session.pointee.flags.contains(.acknowledged) {
            session.pointee.flags.insert(.acknowledged)
            acknowledged.append(index)
        }
        return true
    }

    /// Frees the memory of the marks of a session that isn't split, unless they need it.
    func foldMarks(_ index: UInt32) {
        guard !sessions[Int(index)].flags.contains(.split) else { return }
        devices[Int(index)].foldMarks()
    }

    /// The session's late messages above an acknowledgement, if it has any.
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
        invariant(
            singleCount <= Self.singleAcknowledgementsMax,
            "The waiting single acknowledgements are bounded.")
        var acknowledgement = acknowledgement(of: index, single: single)
        acknowledgement.arrival = arrival
        queuedAcknowledgements.append(acknowledgement)
    }

    private func acknowledgement(
        of index: UInt32, single: [UInt64] = [], departure: Acknowledgement.Departure? = nil
    ) -> Acknowledgement {
        let device = devices + Int(index)
        var acknowledgement = Acknowledgement(
            project: sessions[Int(index)].project, ordinal: sessions[Int(index)].ordinal,
            holder: device.pointee.holder, through: device.pointee.acknowledged, single: single,
            departure: departure, skipped: skipped.isEmpty ? nil : skipped[index])
        acknowledgement.isHandedOver = device.pointee.isBridge
        return acknowledgement
    }

    /// Notes the end of a connection. If nothing is open, the session's marks move up to the last finished fanout, so that the
    /// next connection needn't read those fanouts' recipients.
    mutating func keepDeparture(of index: UInt32, _ now: Instant) {
        let session = sessions + Int(index)
        let device = devices + Int(index)
        if !session.pointee.flags.contains(.behind), device.pointee.marks.discarded == nil,
            session.pointee.highestDelivered <= device.pointee.acknowledged.lowest.rawValue
        {
            moveOn(index, to: projects[session.pointee.project].pointee.finishedThrough)
            device.pointee.acknowledged.formMaximum(deliveredMarks(index))
        }
        hasUrgentAcknowledgements = true
        queuedAcknowledgements.append(
            acknowledgement(
                of: index,
                departure: Acknowledgement.Departure(
                    connectionNumber: device.pointee.connectionNumber,
                    position: MessageSequence(heardThrough(index)),
                    throttleFull: Instant(rawValue: session.pointee.throttleFull), seen: now)))
        skipped[index] = nil
        late[index] = nil
    }

    /// Takes back the departures and the HELLO lists of a batch that was refused. Both go before later acknowledgements, and
    /// a list before the news of its connection: when the store decides what the absence discards, it then knows what the
    /// device has. If there is no room, lists are dropped.
    package mutating func keep(_ acknowledgements: [Acknowledgement]) {
        var kept: [Acknowledgement] = []
        for one in acknowledgements {
            guard
                one.departure != nil
                    || singleCount + one.single.count <= Self.singleAcknowledgementsMax
            else { continue }
            singleCount += one.single.count
            kept.append(one)
        }
        guard !kept.isEmpty else { return }
        queuedAcknowledgements.insert(contentsOf: kept, at: 0)
        hasUrgentAcknowledgements = true
    }

    /// Takes what the store needs before the next commands: departures and single acknowledgements. Raised marks stay.
    package mutating func takeQueuedAcknowledgements() -> [Acknowledgement] {
        var result: [Acknowledgement] = []
        swap(&result, &queuedAcknowledgements)
        assert(
            result.reduce(0) { $0 + $1.single.count } == singleCount,
            "The waiting single acknowledgements are counted.")
        singleCount = 0
        hasUrgentAcknowledgements = false
        lastBatch &+= 1
        return result
    }

    /// Whether acknowledgements wait for the committer.
    package var hasAcknowledgements: Bool {
        !acknowledged.isEmpty || !queuedAcknowledgements.isEmpty
    }

    /// The number of waiting single acknowledgements and departures.
    package var queuedAcknowledgementCount: Int { queuedAcknowledgements.count }

    /// Takes everything since the last call: departures, single acknowledgements, and an entry for each session whose marks
    /// have risen.
    package mutating func takeAcknowledgements() -> [Acknowledgement] {
        var result = takeQueuedAcknowledgements()
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

    /// A batch of acknowledgements is on disk, or lost. Lost marks go to the committer again with the next acknowledgement.
    package mutating func acknowledgementsSettled(_ batch: UInt64, areStored: Bool) {
        var all: [Unconfirmed] = []
        swap(&all, &unconfirmed)
        for one in all {
            if one.batch != batch {
                unconfirmed.append(one)
            } else if areStored, isDevice(one.index, one.connectionNumber) {
                invariant(
                    one.through >= devices[Int(one.index)].confirmableThrough,
                    "A confirmed stream ID never goes back.")
                devices[Int(one.index)].confirmableThrough = one.through
                guard !sessions[Int(one.index)].flags.contains(.confirmable) else { continue }
                sessions[Int(one.index)].flags.insert(.confirmable)
                confirmable.append(one.index)
            }
        }
    }

    /// The stream ID of the CONFIRMED frame to put into the session's next send. On its own it would be one in six of all
    /// sends and receives of a busy device.
    package mutating func takeConfirmation(_ index: UInt32) -> UInt64? {
        guard sessions[Int(index)].flags.contains(.confirmable) else { return nil }
        sessions[Int(index)].flags.remove(.confirmable)
        return devices[Int(index)].confirmableThrough
    }

    /// Sessions that a CONFIRMED frame was due for since the last call. Some have had it by now.
    package mutating func takeConfirmable() -> [UInt32] {
        defer { confirmable.removeAll(keepingCapacity: true) }
        return confirmable
    }
}

/// A device that gets CONFIRMED once a batch of acknowledgements is on disk.
struct Unconfirmed {
    let batch: UInt64
    let index: UInt32
    let connectionNumber: UInt64
    let through: UInt64
}
