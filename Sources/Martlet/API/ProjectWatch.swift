// SPDX-License-Identifier: Apache-2.0
//
// The events of a project for an embedder (EMB-3). An iteration is a watcher, from `makeAsyncIterator()` until its
// iterators are dropped. Rests on WatchBook.

public import MartletCommitter
import MartletEngine
import MartletRows

extension Broker {
    /// EMB-3: watches a project: accepted messages, the progress of messages to many, refusals by quotas, and sums
    /// once a second. Each iteration is a watcher of its own, with a buffer of 1024 events. Events that do not fit
    /// are dropped and counted in `ProjectSums.droppedCount`. The sequence ends when the task is cancelled, and when
    /// the broker is closed; the last event of a closed broker has the last sums.
    /// - Throws: `NOT_FOUND` for the project, `UNAVAILABLE` if the store cannot be read.
    public func watch(_ project: String) throws(MartletError) -> ProjectWatch {
        ProjectWatch(book: committer.watches, id: project, number: try number(of: project))
    }
}

/// The events of a project: see `Broker.watch(_:)`.
public struct ProjectWatch: AsyncSequence, Sendable {
    /// An event in the project.
    public typealias Element = ProjectEvent
    /// The sequence throws no error.
    public typealias Failure = Never

    let book: WatchBook
    let id: String
    let number: ProjectNumber

    /// Begins to watch. Events from now on are told.
    public func makeAsyncIterator() -> Iterator { Iterator(book.watch(number, id: id)) }

    /// A watcher. Dropping the iterator and all its copies ends the watch.
    public struct Iterator: AsyncIteratorProtocol {
        private let place: WatchPlace

        init(_ place: WatchPlace) { self.place = place }

        /// Waits for the next event. Waiting sums come before other waiting events. Copies of an iterator must not
        /// wait at the same time.
        /// - Returns: nil when the task is cancelled, or the broker is closed.
        public mutating func next() async -> ProjectEvent? { await place.watcher.next() }

        /// Takes the events that wait, sums first, and waits for no more. A reader that comes now and then is not woken
        /// for each event.
        package func takeWaiting() -> [ProjectEvent] { place.watcher.takeWaiting() }
    }
}
