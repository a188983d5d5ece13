// SPDX-License-Identifier: Apache-2.0
//
// Checks what must hold between any two calls, whatever came before. That takes a look at every session and every frame, so
// it is not for a broker that serves: simulations and tests check after each step. A broken invariant names the session or
// the chunk. Rests on OutputQueues and ProjectTable.

import MartletBase
import MartletBits
import MartletEngine
import MartletRows

extension Delivery {
    /// The first invariant that doesn't hold; nil if all do.
    package func brokenInvariant() -> String? {
        var references = [Int](repeating: 0, count: output.arena.chunkCount)
        output.arena.countPlaces(in: &references)
        for chunk in sharedChunks { references[Int(chunk)] += 1 }
        projects.forEachWork { references[Int($0.frame.chunk)] += 1 }
        var segmentCount = 0
        for index in 0..<UInt32(sessionCount) {
            if let fault = brokenQueue(of: index, &references, &segmentCount) { return fault }
            if let fault = brokenPosition(of: index) { return fault }
        }
        guard segmentCount == output.usedSegments else {
            return "\(output.usedSegments) segments are in use, and queues have \(segmentCount)"
        }
        return brokenCount() ?? output.arena.brokenCount(references)
    }

    /// Queues and fanouts have as many elements as their counts say.
    private func brokenCount() -> String? {
        var (ready, catchingUp, risen) = (0, 0, 0)
        for index in 0..<sessionCount {
            let flags = sessions[index].flags
            if flags.contains(.ready) { ready += 1 }
            if flags.contains(.catchingUp) { catchingUp += 1 }
            if flags.contains(.acknowledged) { risen += 1 }
        }
        guard ready == output.readyCount else {
            return "\(output.readyCount) sessions are ready to send, and \(ready) say so"
        }
        guard catchingUp == readingQueue.totalCount else {
            return
                "\(readingQueue.totalCount) sessions wait for a reading, and \(catchingUp) say so"
        }
        guard risen <= acknowledged.count else {
            return "\(risen) sessions have risen marks, and \(acknowledged.count) are told"
        }
        let singles = queuedAcknowledgements.reduce(0) { $0 + $1.single.count }
        guard singles == singleCount else {
            return "\(singleCount) single acknowledgements are counted, and \(singles) wait"
        }
        var (works, busy) = (0, 0)
        projects.forEach { project in
            works += project.pointee.turns.count
            if project.pointee.turns.count > 0 { busy += 1 }
        }
        guard works == projects.fanoutCount, busy == projects.turns.count else {
            return """
                \(projects.fanoutCount) fanouts of \(projects.turns.count) projects are counted, and \
                \(works) of \(busy) are in progress
                """
        }
        return nil
    }

    /// A queue's bytes and segments are those of its chain, and what is in flight is its beginning.
    private func brokenQueue(
        of index: UInt32, _ references: inout [Int], _ segmentCount: inout Int
    ) -> String? {
        let session = sessions[Int(index)]
        // The table starts as zeros, so a number that was never opened has no queue, not even an empty one.
        guard session.head != 0 || session.tail != 0 || session.queuedBytes > 0 else { return nil }
        var (bytes, count) = (0, 0)
        output.forEachSegment(of: index) { segment in
            bytes += Int(segment.length)
            count += 1
            references[Int(segment.chunk)] += 1
        }
        segmentCount += count
        guard bytes == Int(session.queuedBytes), count == Int(session.segmentCount) else {
            return """
                session \(index) counts \(session.queuedBytes) bytes in \(session.segmentCount) \
                segments, and its queue has \(bytes) in \(count)
                """
        }
        guard session.inFlightBytes <= session.queuedBytes else {
            return "session \(index) has more bytes in flight than are queued"
        }
        guard (session.head == .nothing) == (count == 0), (session.tail == .nothing) == (count == 0)
        else { return "session \(index) has a queue without a beginning or an end" }
        return nil
    }

    /// A device is found by its ordinal, and has a position for each lane where lanes are closed.
    private func brokenPosition(of index: UInt32) -> String? {
        let (session, device) = (sessions[Int(index)], devices[Int(index)])
        guard session.flags.contains(.device) else { return nil }
        guard projects.find(session.project)?.pointee.connected.handle(of: session.ordinal) == index
        else { return "session \(index) is not found by its ordinal" }
        guard device.closed.isEmpty || session.flags.contains(.split) else {
            return "session \(index) has closed lanes and one position for all lanes"
        }
        guard session.highestDelivered <= deliveredMarks(index).highest.rawValue else {
            return "session \(index) was sent a stream ID above its positions"
        }
        guard !device.waitsForStore || !device.isSettled || device.isOverfull else {
            return "session \(index) has caught up, and waits for an answer that changes nothing"
        }
        guard session.visitedThrough <= projects.find(session.project)?.pointee.lastArrival ?? 0
        else { return "session \(index) was visited for a fanout that has not begun" }
        guard device.isThrottled == waking.contains(index) else {
            return "session \(index) waits for a token or does not, against its closed lanes"
        }
        return nil
    }
}
