// SPDX-License-Identifier: Apache-2.0
//
// How much a loop does in one turn, and what it leaves for the next. A loop hears of new messages between turns: if turns are
// long, messages wait, and if they are short, each is sent by itself. Rests on DeliveryCeiling and ArrivalWaits.

import MartletBase
import MartletDelivery

/// The bounds of a turn, and what the last turns used.
struct Pace {
    /// Sessions looked at in a turn before the kernel gets its sends. A look costs 10–20 ns, and a send 3–4 µs.
    static let looksPerTurn = 16_384
    /// Sends of fanouts in a turn, handed to the kernel in one system call. Between two turns the loop hears of
    /// new messages. A session that still waits for its send gets the new messages with the old, so a burst in
    /// pieces costs hardly more than a burst at once.
    static let sendsPerTurn = 256
    /// Cost of reading mailboxes in a turn while other projects have messages. A row read or a message queued
    /// costs a unit, about a microsecond. So live messages of other projects wait for mailboxes no longer than
    /// for the sends of a turn.
    static let catchUpCostPerTurn = 256
    /// Cost of reading mailboxes in a turn while no other project has messages. The higher bound lets some
    /// fifty devices share the rows of a reading.
    static let catchUpCostPerTurnAlone = 1024
    /// Fewest mailboxes read in a turn of a storm: devices come back faster than the loop can read their
    /// mailboxes.
    static let stormReadings = 16
    /// Cost of the start of a reading: some searches.
    static let catchUpCostPerReading = 4
    /// Shared rows and messages for the cost of a unit. After the first reading of the turn, a look and a
    /// reference to a frame cost some ten nanoseconds.
    static let catchUpSharedPerCost = 16
    /// Queued bytes for the cost of a unit, because the kernel copies the bytes in the same turn.
    static let catchUpBytesPerCost = 4096
    /// Messages that a reading looks at, for any recipient. The bound lets a mailbox with a long log share the
    /// turn with other mailboxes.
    static let mailboxRowsPerRead = 256
    /// Milliseconds for which mailboxes are not read after the store could not be read.
    static let catchUpRestMilliseconds: Int64 = 100
    /// Milliseconds for which mailboxes are not read after a full turn, if other projects have messages.
    /// Meanwhile loops, committer and cores are free for the other projects.
    static let catchUpPauseMilliseconds: Int64 = 2

    /// FAN-7: the loop's part of the ceiling; nil: there is no ceiling.
    private var allowance: DeliveryAllowance?
    /// Deliveries taken from the part.
    private var paidDeliveries: UInt64 = 0
    /// When mailboxes are read again, in milliseconds of the monotonic clock.
    var catchUpResumes: Int64 = 0
    /// Sends of the last turn, and whether the loop waits for more arrivals after them.
    var turnSends = 0
    var arrivalWaits = ArrivalWaits()

    init(_ ceiling: DeliveryCeiling?) { allowance = ceiling.map { DeliveryAllowance($0) } }

    var hasCeiling: Bool { allowance != nil }

    /// FAN-7: how many deliveries of fanouts the turn may make.
    mutating func deliveriesMax(fanoutCount: Int, at now: Instant) -> Int {
        guard allowance != nil else { return .max }
        return fanoutCount > 0 ? allowance!.next(at: now) : 0
    }

    /// FAN-7: charges the deliveries of the turn.
    /// - Parameter delivered: all deliveries of fanouts since the loop began.
    mutating func pay(upTo delivered: UInt64) {
        allowance?.use(Int(delivered &- paidDeliveries))
        paidDeliveries = delivered
    }

    /// FAN-7: milliseconds until the ceiling allows a delivery; nil: there is no ceiling.
    mutating func wait(at now: Instant) -> Int? { allowance?.wait(at: now) }
}
