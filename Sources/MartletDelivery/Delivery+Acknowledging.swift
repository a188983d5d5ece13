// SPDX-License-Identifier: Apache-2.0
//
// Acknowledgements of devices (TTL-4). A cumulative acknowledgement raises marks, one for each lane. A single
// acknowledgement goes to the committer unchanged. The end of a connection adds a departure: the position, the
// throttle and the time. After the commit, CONFIRMED tells the device which stream IDs are durable, so the
// device can forget them. Rests on Session.

import MartletBase
package import MartletEngine

extension Delivery {
    /// The most single acknowledgements that wait for the committer. Further acknowledgements are dropped, because
    /// a device could fill the memory. The price of a dropped acknowledgement is one more delivery.
    package static var singleAcknowledgementsMax: Int { 65_536 }
    /// Acknowledged messages between two CONFIRMED frames to a device, by the estimate in `unconfirmedCount`.
    static var confirmationsAfter: UInt8 { 64 }
    /// The most messages that a cumulative acknowledgement adds to the estimate. Stream IDs belong to the whole
    /// project, so the distance between two acknowledgements is only an upper bound of the acknowledged messages.
    static var messagesPerAcknowledgement: UInt64 { 16 }

    /// Whether a device has not acknowledged the last message on its connection.
    /// - Parameter index: an attached session's number.
    package func awaitsAcknowledgement(_ index: UInt32) -> Bool {
        sessions[Int(index)].highestDelivered > devices[Int(index)].acknowledgedThrough
    }

    /// Takes an acknowledgement of a device. The session is a device's, or was a device's until a newer connection
    /// of the instance replaced the session.
    /// - Returns: false for a stream ID above all stream IDs that the connection has sent.
    package mutating func acknowledge(
        _ index: UInt32, through claimed: UInt64, single: [UInt64]
    ) -> Bool {
        let session = sessions + Int(index)
        let device = devices + Int(index)
        let highest = max(session.pointee.highestDelivered, device.pointee.acknowledgedThrough)
        guard claimed <= highest, single.allSatisfy({ $0 <= highest }) else { return false }
        // A device repeats the list of taken messages in the HELLO of the newer connection.
        guard session.pointee.flags.contains(.device) else { return true }
        if !single.isEmpty { keepSingle(index, single) }
        // No message before a discard is left, so an acknowledgement below the discard has no effect.
        let isBefore =
            claimed < device.pointee.discardedThrough
            && device.pointee.acknowledged.lowest.rawValue < device.pointee.discardedThrough
        let through = isBefore ? 0 : claimed
        let cameLate = late.isEmpty ? nil : lateDeliveries(to: index, behind: through)
        let before = device.pointee.acknowledged
        var marks = before
        let delivered = deliveredMarks(index)
        let untoldFrom = device.pointee.untoldFrom
        for number in 0..<UInt8(Lane.count) {
            let lane = Lane(rawValue: number)
            let reached = cameLate?.cap(of: through, in: lane) ?? through
            var taken = min(reached, delivered[lane].rawValue)
            if lane == Self.heldLane { taken = min(taken, untoldFrom - 1) }
            if taken > marks[lane].rawValue { marks[lane] = MessageSequence(taken) }
        }
        // The mark of the held lane was beyond the notice before the notice was known.
        if marks.lowest.rawValue >= untoldFrom {
            for lane in Lane.all where before[lane].rawValue < untoldFrom {
                marks[lane] = MessageSequence(untoldFrom - 1)
            }
        }
        device.pointee.acknowledged = marks
        // The acknowledgement of a notice names the notice, because older messages may wait in a closed lane.
        let told = device.pointee.toldThrough
        if told > device.pointee.noticeTakenThrough {
            let isReached = through >= told && through > device.pointee.toldBehind
            if isReached || single.contains(told) {
                // The store may have forgotten the inactivity discard (STO-2) that gave the notice its ID.
                let notice = device.pointee.toldNotice
                let isOther = notice > 0 && notice != told
                keepSingle(index, isOther ? [min(notice, told), max(notice, told)] : [told])
                device.pointee.noticeTakenThrough = max(told, notice)
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

    /// Frees the details of a session that is not split, if the details have no other use.
    func foldDetails(_ index: UInt32) {
        guard !sessions[Int(index)].flags.contains(.split) else { return }
        devices[Int(index)].foldDetails()
    }

    /// The session's late messages above an acknowledgement; nil for a session without late messages.
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

    /// Notes the end of a connection. The marks of a session without open messages move up to the last finished
    /// fanout, so the next connection does not read the recipients of these fanouts.
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

    /// Takes back the departures and the lists in HELLOs of a refused batch. Both precede later acknowledgements. A list
    /// goes before the news of its connection: at the decision on the discards of the absence, the store then knows the
    /// messages of the device. Lists without room are dropped.
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

    /// Takes the acknowledgements that the store needs before the next commands: departures and single
    /// acknowledgements. Risen marks stay.
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

    /// Takes all acknowledgements since the last call: departures, single acknowledgements, and one entry for each
    /// session with risen marks.
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

    /// Notes that a batch of acknowledgements is on disk or lost. Lost marks go to the committer again with the
    /// next acknowledgement.
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

    /// The stream ID of the CONFIRMED frame that goes with the session's next send. For a device with many
    /// messages, a separate send would be one in six of all sends and receives.
    package mutating func takeConfirmation(_ index: UInt32) -> UInt64? {
        guard sessions[Int(index)].flags.contains(.confirmable) else { return nil }
        sessions[Int(index)].flags.remove(.confirmable)
        return devices[Int(index)].confirmableThrough
    }

    /// Sessions for which a CONFIRMED frame was due since the last call. Some of the sessions have received the
    /// frame already.
    package mutating func takeConfirmable() -> [UInt32] {
        defer { confirmable.removeAll(keepingCapacity: true) }
        return confirmable
    }
}

/// A device that receives CONFIRMED when a batch of acknowledgements is on disk.
struct Unconfirmed {
    let batch: UInt64
    let index: UInt32
    let connectionNumber: UInt64
    let through: UInt64
}
