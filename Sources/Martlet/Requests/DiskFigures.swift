// SPDX-License-Identifier: Apache-2.0
//
// Figures that come from the disk. A disk may hang for minutes, and with it each read and each look at a file: a thread of
// their own waits for it, so that metrics and status are told from memory meanwhile. Rests on the store.

import Dispatch
import Glibc
import MartletEngine
import MartletRows
import MartletStore
import MartletThreads
import Synchronization

/// What the disk tells of itself and of the store.
struct DiskFigures: Sendable {
    var mapBytes = 0
    var usedBytes = 0
    var fileBytes = 0
    var freeBytes = 0
    var byteCount = 0
    /// The projects that were asked for last.
    var projects: [ProjectNumber: Project] = [:]
}

/// Reads figures on a thread of its own.
final class DiskReader: Sendable {
    /// Longest wait for figures of this moment, in milliseconds. A disk that is well takes microseconds.
    private static let waitMilliseconds = 200

    private enum Phase { case direct, running, ended }

    private struct State {
        var phase = Phase.direct
        var figures = DiskFigures()
        /// Callers that wait for the next reading, and the projects that they ask for.
        var waiting: [DispatchSemaphore] = []
        var projects: Set<ProjectNumber> = []
        var isReading = false
        /// Whether the present reading was waited for in vain.
        var isLate = false
    }

    private let store: Store
    private let folder: String
    private let state = Mutex(State())
    private let asked = DispatchSemaphore(value: 0)

    init(_ store: Store, folder: String) {
        self.store = store
        self.folder = folder
    }

    /// The figures of this moment; while the disk hangs, the last ones, without waiting. Before `start` they are read on
    /// the caller's thread.
    /// - Parameter projects: the projects to be read; empty: those of the last time.
    func figures(of projects: [ProjectNumber] = []) -> DiskFigures {
        let mine = DispatchSemaphore(value: 0)
        let known = state.withLock { state -> DiskFigures? in
            switch state.phase {
            case .direct: return read(Set(projects), after: state.figures)
            case .running where !state.isLate: break
            case .running, .ended: return state.figures
            }
            state.waiting.append(mine)
            state.projects.formUnion(projects)
            return nil
        }
        if let known { return known }
        asked.signal()
        let isLate = mine.wait(timeout: .now() + .milliseconds(Self.waitMilliseconds)) == .timedOut
        return state.withLock { state in
            if isLate, state.isReading { state.isLate = true }
            return state.figures
        }
    }

    func start() throws(MartletError) {
        // The thread is not waited for, because the disk may hang at the end too.
        try SystemThread(name: "martlet-figures") { [self] in run() }.detach()
        state.withLock { $0.phase = .running }
    }

    /// Ends the thread. The figures stay as they are.
    func stop() {
        state.withLock { $0.phase = .ended }
        asked.signal()
    }

    private func run() {
        while true {
            asked.wait()
            let (before, projects, waiting, isLast) = state.withLock { state in
                defer { (state.waiting, state.projects) = ([], []) }
                state.isReading = true
                return (state.figures, state.projects, state.waiting, state.phase == .ended)
            }
            let figures = waiting.isEmpty ? before : read(projects, after: before)
            state.withLock { state in
                state.figures = figures
                (state.isReading, state.isLate) = (false, false)
            }
            for each in waiting { each.signal() }
            if isLast { return }
        }
    }

    /// What cannot be read stays as it was.
    private func read(_ numbers: Set<ProjectNumber>, after before: DiskFigures) -> DiskFigures {
        var figures = before
        let size = store.size
        (figures.mapBytes, figures.usedBytes) = (size.map, size.used)
        var file = stat()
        if stat(folder + "/data.mdb", &file) == 0 { figures.fileBytes = Int(file.st_size) }
        if let disk = DiskRoom(of: folder) {
            (figures.freeBytes, figures.byteCount) = (disk.freeBytes, disk.byteCount)
        }
        guard !numbers.isEmpty else { return figures }
        let known = try? store.read { (transaction) throws in
            var known: [ProjectNumber: Project] = [:]
            for number in numbers { known[number] = try transaction.projects.project(number) }
            return known
        }
        if let known { figures.projects = known }
        return figures
    }
}
