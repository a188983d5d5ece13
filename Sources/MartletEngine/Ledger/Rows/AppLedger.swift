// SPDX-License-Identifier: Apache-2.0
//
// The life of an app (REG-8). When it is deleted it loses its instances step by step, and keeps its place until the last has
// left. Its number and name stay as long as daily counts mention them; then the number goes to another app. Rests on
// DueLedger and ProjectLedger.

package import MartletBase
package import MartletRows

/// The apps of projects, and their deletion.
package struct AppLedger: Ledger {
    /// What has become of an app.
    package enum State: Sendable, Hashable {
        case live
        /// It was deleted, but instances are left. Can transition to: gone.
        case leaving
        /// Its last instance has left. Can transition to: live.
        case gone(since: Instant)
    }

    package let context: LedgerContext
    private var dueRows: DueLedger { DueLedger(context) }
    private var projects: ProjectLedger { ProjectLedger(context) }

    package init(_ context: LedgerContext) { self.context = context }

    package func state(
        of app: AppNumber, in project: ProjectNumber
    ) throws(StorageError) -> State {
        guard let found = try raw.get(.deletedApps, .app(app, in: project)) else { return .live }
        var reader = RecordReader(found, of: .deletedApps)
        let time = try reader.read(Int64.self)
        return time == 0 ? .leaving : .gone(since: Instant(millisecondsSince1970: time))
    }

    /// Apps that take a place, in the order of their numbers.
    package func apps(
        of project: Project
    ) throws(StorageError) -> [(app: App, isLeaving: Bool)] {
        var apps: [(app: App, isLeaving: Bool)] = []
        for number in 0..<project.nextApp.rawValue {
            guard let app = try projects.app(AppNumber(number), in: project.number) else {
                continue
            }
            switch try state(of: app.number, in: project.number) {
            case .live: apps.append((app, false))
            case .leaving: apps.append((app, true))
            case .gone: break
            }
        }
        return apps
    }

    /// Makes an app, perhaps again after its deletion. The caller has checked that there is a place for it.
    /// - Parameters:
    ///   - deleted: the app of this name whose deletion is done; nil if there is none.
    ///   - project: its next number and its count change. The caller stores it.
    package func make(
        _ name: String, on platform: Platform, again deleted: App?, number: UInt32?,
        in project: inout Project
    ) throws(StorageError) -> App {
        project.appCount += 1
        if let deleted {
            if case .gone(let since) = try state(of: deleted.number, in: project.number) {
                try raw.delete(
                    .due, .due(.deletedApp, since, project.number, UInt64(deleted.number.rawValue)))
            }
            try raw.delete(.deletedApps, .app(deleted.number, in: project.number))
            return deleted
        }
        let app = App(
            number: number.map { AppNumber($0) } ?? project.nextApp, platform: platform, name: name)
        if number == nil { project.nextApp = AppNumber(project.nextApp.rawValue + 1) }
        try projects.put(app, in: project.number)
        return app
    }

    /// Begins to delete an app.
    package func leave(_ app: AppNumber, in project: ProjectNumber) throws(StorageError) {
        try putDeletion(of: app, at: Instant(millisecondsSince1970: 0), in: project)
        try raw.put(
            .due,
            .due(
                .leavingApp, Instant(millisecondsSince1970: 0), project, UInt64(app.rawValue)), [])
    }

    /// A deleted app that may still have instances; nil if there is none.
    package func nextLeaving() throws(StorageError) -> (project: ProjectNumber, app: AppNumber)? {
        try dueRows.next(.leavingApp, through: Instant(millisecondsSince1970: 0)).map {
            ($0.project, AppNumber(UInt32(truncatingIfNeeded: $0.number)))
        }
    }

    /// Notes that a deleted app's last instance has left.
    package func hasLeft(
        _ app: AppNumber, in project: ProjectNumber, now: Instant
    ) throws(StorageError) {
        let id = UInt64(app.rawValue)
        try raw.delete(.due, .due(.leavingApp, Instant(millisecondsSince1970: 0), project, id))
        try putDeletion(of: app, at: now, in: project)
        try raw.put(.due, .due(.deletedApp, now, project, id), [])
    }

    private func putDeletion(
        of app: AppNumber, at time: Instant, in project: ProjectNumber
    ) throws(StorageError) {
        var writer = RecordWriter()
        writer.append(time.millisecondsSince1970)
        try raw.put(.deletedApps, .app(app, in: project), writer.bytes)
    }

    /// Forgets a deleted app's name.
    func forget(_ app: AppNumber, in project: ProjectNumber) throws(StorageError) {
        guard let known = try projects.app(app, in: project) else { return }
        try raw.delete(.deletedApps, .app(app, in: project))
        try raw.delete(.apps, .app(app, in: project))
        try raw.delete(.appNames, .appName(known.name, known.platform, in: project))
    }
}
