// SPDX-License-Identifier: Apache-2.0
//
// What a loop hands to the committer: requests once a turn, and acknowledgements in batches. Acknowledgements that gather
// meanwhile cost a transaction together no more than one. Rests on Delivery and the committer's inbox.

import MartletBase
import MartletDelivery
import MartletEngine
import MartletThreads
import MartletTransport

/// What waits for the committer, in the order in which it is to be applied.
struct HandOver {
    /// Least milliseconds between two batches of acknowledgements; the first after a rest goes at once. Those lost in a
    /// crash cost one more delivery, and the device drops the repeated message.
    static let acknowledgeMilliseconds: Int64 = 50
    /// REP-1: milliseconds for which counts of sent messages wait to be handed over together with
    /// acknowledgements.
    static let sentMilliseconds: Int64 = 1000
    /// Milliseconds after which requests are offered again to a full committer.
    static let restMilliseconds = 10
    /// Waiting requests and acknowledgements past which new connections are refused, because the news of ended
    /// connections is kept. Single acknowledgements alone are fewer.
    static let waitingMax = 2 * Delivery.singleAcknowledgementsMax
    /// Milliseconds for which acknowledgements wait after a refusal by the store.
    static let storeRestMilliseconds: Int64 = 1000

    /// Requests, handed over once a turn.
    var requests: [Request] = []
    /// Batches of acknowledgements at the committer. Meanwhile further acknowledgements gather in the loop, so
    /// devices cannot acknowledge faster than the committer writes. Urgent acknowledgements do not wait,
    /// because later commands depend on them.
    private var batches: Set<UInt64> = []
    private var lastAcknowledged: Int64 = 0
    /// When a count of sent messages began to wait for the committer; nil: no count waits.
    private var sentSince: Int64?

    /// Whether no batch of acknowledgements is at the committer.
    var isFree: Bool { batches.isEmpty }

    mutating func append(_ command: Command, _ reply: ReplyTo) {
        requests.append(Request(command: command, reply: reply))
    }

    /// Whether the next batch is handed over now. Without acknowledgements it has counts of sent messages alone.
    mutating func isDue(hasAcknowledgements: Bool, mustEnd: Bool, at now: Int64) -> Bool {
        let isDue: Bool
        if hasAcknowledgements {
            isDue = now - lastAcknowledged >= Self.acknowledgeMilliseconds
        } else {
            // Acknowledgements mostly follow and take the counts along. A batch for the counts alone would hold
            // the acknowledgements up.
            let since = sentSince ?? now
            sentSince = since
            isDue = now - since >= Self.sentMilliseconds
        }
        guard mustEnd || isFree && isDue else { return false }
        lastAcknowledged = now
        return true
    }

    mutating func began(batch: UInt64) {
        sentSince = nil
        batches.insert(batch)
    }

    mutating func ended(batch: UInt64) { batches.remove(batch) }

    /// The store has refused a batch.
    mutating func rest(at now: Int64) { lastAcknowledged = now + Self.storeRestMilliseconds }
}

extension Loop where Kernel: ~Copyable {
    mutating func handOverRequests() {
        guard !handOver.requests.isEmpty else { return }
        var batch: [Request] = []
        swap(&batch, &handOver.requests)
        switch context.committer.inbox.push(batch) {
        case .taken(let mustWake):
            if mustWake { transport.wake(context.committerAddress, value: 1) }
        case .full: refuse(batch, isFull: true)
        case .closed: refuse(batch, isFull: false)
        }
    }

    /// Handles a batch refused by the committer. Peers get an error and may ask again. News of connections is
    /// told only once, so the loop keeps the news, before later requests, until the committer has room.
    private mutating func refuse(_ batch: [Request], isFull: Bool) {
        let refusal = MartletError(
            .unavailable, "The broker has more to write than it can; try again.",
            retryDelayMilliseconds: 200)
        var kept: [Request] = []
        for request in batch {
            switch request.reply {
            case .connection(_, let id, let purpose):
                context.committer.noteRefusal(of: request.command, refusal)
                handle(.outcome(id, purpose, .refused(refusal)))
            case .acknowledging, .connected, .undoing: if isFull { kept.append(request) }
            case .caller, .counting, .node: break
            }
        }
        handOver.requests.insert(contentsOf: kept, at: 0)
    }

    /// Hands over a batch of acknowledgements, and of counts, if it is due.
    mutating func handOverAcknowledgements() {
        guard delivery.hasAcknowledgements || delivery.hasSent,
            handOver.isDue(
                hasAcknowledgements: delivery.hasAcknowledgements, mustEnd: ending.isDraining,
                at: context.monotonic())
        else { return }
        requestAcknowledgement()
        handOverRequests()
    }

    /// Hands over the acknowledgements of ended connections, and the lists of taken messages in HELLO.
    mutating func handOverUrgent() {
        guard delivery.hasUrgentAcknowledgements else { return }
        request(.acknowledge(delivery.takeQueuedAcknowledgements()))
    }

    /// STO-1: has the store decide on the discards of a doze, after all acknowledgements known to the loop.
    mutating func decideDozes() {
        var next = delivery.nextOverfull()
        guard next != nil else { return }
        handOverWaiting()
        while let index = next {
            tellConnected(places[index])
            next = delivery.nextOverfull()
        }
        handOverRequests()
    }

    /// Hands over all acknowledgements, because the next command depends on them.
    mutating func handOverWaiting() {
        if delivery.hasAcknowledgements { requestAcknowledgement() }
    }

    /// Hands over the counts of sent messages, because the next command depends on them.
    mutating func handOverSent() {
        if delivery.hasSent { requestAcknowledgement() }
    }

    private mutating func requestAcknowledgement() {
        request(.acknowledge(delivery.takeAcknowledgements(), sent: delivery.takeSent()))
        handOver.began(batch: delivery.lastBatch)
    }

    private mutating func request(_ command: Command) {
        handOver.append(
            command, .acknowledging(loop: context.number, batch: delivery.lastBatch))
    }

    /// Settles a batch of acknowledgements that the committer has answered.
    mutating func settleAcknowledgements(
        _ batch: UInt64, _ areStored: Bool, _ again: [Acknowledgement]
    ) {
        handOver.ended(batch: batch)
        if !areStored, !ending.isDraining {
            delivery.keep(again)
            handOver.rest(at: context.monotonic())
        }
        delivery.acknowledgementsSettled(batch, areStored: areStored)
    }
}
