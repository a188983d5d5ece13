// SPDX-License-Identifier: Apache-2.0
//
// Streams of events for open pages: the broker's figures once a second, and the events of a project (EMB-3). The number of
// streams is bounded, in all, for each user and for each session. A slow viewer misses events, and is told how many. A stream
// ends with the rights of its session. Source: HTML Living Standard, server-sent events. Rests on Sampler and ProjectFeeds.

import Martlet
import Synchronization

/// The open streams of a console.
package final class Viewers: Sendable {
    private let open = Mutex(OpenStreams())
    private let feeds = ProjectFeeds()

    /// Open streams of all sessions.
    package var count: Int { open.withLock { $0.count } }

    /// Begins a stream.
    /// - Parameter followed: the project to follow; nil: none.
    /// - Throws: `RESOURCE_EXHAUSTED` for too many streams.
    func stream(
        to person: Person, _ followed: (project: String, watch: ProjectWatch)?,
        of console: Console
    ) throws(MartletError) -> AsyncStream<[UInt8]> {
        let isTaken = open.withLock { $0.take(person) }
        guard isTaken else {
            throw MartletError(
                .resourceExhausted, "There are as many open pages as there may be; close one.",
                retryDelayMilliseconds: 5000)
        }
        let (stream, continuation) = AsyncStream<[UInt8]>.makeStream(
            bufferingPolicy: .bufferingOldest(Limits.consoleEventsWaitingMax))
        let outlet = EventOutlet(continuation)
        let (people, samples) = (console.people, console.sampler.samples())
        let figures = Task {
            for await sample in samples {
                guard people.isOpen(person) else {
                    outlet.send(EventBatch(EventBatch.text("end", "{}"), count: 1))
                    break
                }
                outlet.send(
                    EventBatch(EventBatch.text("status", sample.text(for: person)), count: 1))
            }
            continuation.finish()
        }
        let feeds = feeds
        let place = followed.map { ($0.project, feeds.follow($0.project, $0.watch, outlet)) }
        continuation.onTermination = { [weak self] _ in
            figures.cancel()
            if let (project, number) = place { feeds.leave(project, number) }
            self?.open.withLock { $0.giveBack(person) }
        }
        return stream
    }
}

/// Open streams by session and by user.
private struct OpenStreams {
    private(set) var count = 0
    private var bySession: [String: Int] = [:]
    private var byUser: [String: Int] = [:]

    mutating func take(_ person: Person) -> Bool {
        guard count < Limits.consoleStreamsMax,
            bySession[person.session, default: 0] < Limits.consoleStreamsPerSessionMax,
            byUser[person.owner, default: 0] < Limits.consoleStreamsPerUserMax
        else { return false }
        count += 1
        bySession[person.session, default: 0] += 1
        byUser[person.owner, default: 0] += 1
        return true
    }

    mutating func giveBack(_ person: Person) {
        count -= 1
        Self.subtract(person.session, &bySession)
        Self.subtract(person.owner, &byUser)
    }

    private static func subtract(_ key: String, _ counts: inout [String: Int]) {
        let left = counts[key, default: 1] - 1
        counts[key] = left > 0 ? left : nil
    }
}

/// Events as the stream has them, written once for all viewers.
struct EventBatch: Sendable {
    let bytes: [UInt8]
    /// Number of events, those left out included.
    let count: Int

    init(_ text: String, count: Int) {
        bytes = Array(text.utf8)
        self.count = count
    }

    static func text(_ name: String, _ data: String) -> String {
        "event: \(name)\ndata: \(data)\n\n"
    }

    /// The event that tells of events left out; empty for none.
    static func leftOut(_ count: Int) -> String {
        count > 0 ? text("left-out", "{\"count\":\(count)}") : ""
    }
}

/// Sends events into a stream, and counts those that do not fit.
final class EventOutlet: Sendable {
    private let continuation: AsyncStream<[UInt8]>.Continuation
    private let leftOut = Mutex(0)

    init(_ continuation: AsyncStream<[UInt8]>.Continuation) { self.continuation = continuation }

    func send(_ events: EventBatch) {
        let missed = leftOut.withLock { $0 }
        let bytes =
            missed > 0 ? Array(EventBatch.leftOut(missed).utf8) + events.bytes : events.bytes
        switch continuation.yield(bytes) {
        case .enqueued: if missed > 0 { leftOut.withLock { $0 -= missed } }
        case .dropped: leftOut.withLock { $0 += events.count }
        case .terminated: break
        @unknown default: break
        }
    }
}
