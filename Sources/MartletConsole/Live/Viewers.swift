// SPDX-License-Identifier: Apache-2.0
//
// Streams of events for open pages: the broker's figures once a second, and the events of a project (EMB-3). The number of
// streams is bounded, in all and for each session. A slow viewer misses events, and is told how many. A stream ends with the
// rights of its session. Source: HTML Living Standard, server-sent events. Rests on Sampler and ProjectWatch.

import Martlet
import Synchronization

/// The open streams of a console.
package final class Viewers: Sendable {
    private let open = Mutex<[String: Int]>([:])

    /// Open streams of all sessions.
    package var count: Int { open.withLock { $0.values.reduce(0, +) } }

    /// Begins a stream.
    /// - Parameter watch: the project to follow; nil: none.
    /// - Throws: `RESOURCE_EXHAUSTED` for too many streams.
    func stream(
        to person: Person, _ watch: ProjectWatch?, of console: Console
    ) throws(MartletError) -> AsyncStream<[UInt8]> {
        let session = person.session
        let isTaken = open.withLock { open in
            guard open.values.reduce(0, +) < Limits.consoleStreamsMax,
                open[session, default: 0] < Limits.consoleStreamsPerSessionMax
            else { return false }
            open[session, default: 0] += 1
            return true
        }
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
                    outlet.send("end", "{}")
                    break
                }
                outlet.send("status", sample.text(for: person))
            }
            continuation.finish()
        }
        let events = Task {
            guard let watch else { return }
            for await event in watch {
                let (name, text) = EventText.of(event)
                outlet.send(name, text)
            }
        }
        continuation.onTermination = { [weak self] _ in
            figures.cancel()
            events.cancel()
            self?.open.withLock { open in
                let left = open[session, default: 1] - 1
                open[session] = left > 0 ? left : nil
            }
        }
        return stream
    }
}

/// Sends events into a stream, and counts those that do not fit.
private final class EventOutlet: Sendable {
    private let continuation: AsyncStream<[UInt8]>.Continuation
    private let leftOut = Mutex(0)

    init(_ continuation: AsyncStream<[UInt8]>.Continuation) { self.continuation = continuation }

    func send(_ name: String, _ text: String) {
        let missed = leftOut.withLock { $0 }
        var event = "event: \(name)\ndata: \(text)\n\n"
        if missed > 0 { event = "event: left-out\ndata: {\"count\":\(missed)}\n\n" + event }
        switch continuation.yield(Array(event.utf8)) {
        case .enqueued: if missed > 0 { leftOut.withLock { $0 -= missed } }
        case .dropped: leftOut.withLock { $0 += 1 }
        case .terminated: break
        @unknown default: break
        }
    }
}
