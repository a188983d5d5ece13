// SPDX-License-Identifier: Apache-2.0
//
// Decides who may register (REG-7), and changes policies, keys and apps for an administrator (REG-8). The loop first checks a
// new device on a snapshot, so that strangers never reach the committer. The registration's transaction checks again, because
// a key may have been revoked, or a ticket used, in between. Rests on the ledgers.

package import MartletBase
package import MartletRows

extension Authentication {
    /// Checks what a new device presents against its project's policy (REG-7), and that an open project has the app
    /// (REG-8). No row is written.
    /// - Returns: the refusal; nil if the device may register.
    package static func refusal(
        of new: NewInstance, at now: Instant, in storage: borrowing Transaction
    ) throws(StorageError) -> MartletError? {
        if let fault = fault(inAppName: new.app) { return fault }
        guard let project = try storage.projects.project(id: new.project) else {
            if case .trusted = new.proof { return .noProject }
            return .notAdmitted
        }
        return try refusal(of: new, in: project, now, storage)
    }

    package static func fault(inAppName name: String) -> MartletError? {
        let allowed = name.utf8.allSatisfy { TopicName.isAllowed($0) }
        guard allowed, (1...Limits.appNameBytesMax).contains(name.utf8.count) else {
            return MartletError(
                .invalidArgument,
                """
                An app's name is its package name or bundle ID: 1 to \(Limits.appNameBytesMax) \
                characters of [a-zA-Z0-9-_.~%].
                """, field: "app")
        }
        return nil
    }

    static func refusal(
        of new: NewInstance, in project: Project, _ now: Instant, _ storage: borrowing Transaction
    ) throws(StorageError) -> MartletError? {
        if case .trusted = new.proof { return nil }
        let policy = try storage.registrations.policies(of: project.number).registration
        switch (policy, new.proof) {
        case (.open, _): break
        case (.key, .key(let id, let digest)):
            guard let key = try storage.registrations.registrationKey(id: id, in: project.number),
                key.digest.matches(digest), !key.isRevoked
            else { return .notAdmitted }
        case (.key, _): return .notAdmitted
        case (.ticket, .ticket(let ticket)):
            guard
                let key = try storage.registrations.ticketKey(id: ticket.keyID, in: project.number),
                !key.isRevoked
            else {
                return .notAdmitted(
                    "The ticket's key is not one of this project's, or was revoked.")
            }
            guard ticket.expires > now else {
                return .notAdmitted("The ticket has expired; fetch another from the app's server.")
            }
            guard try !storage.registrations.isSpent(ticket.digest, in: project.number) else {
                return .notAdmitted(
                    "The ticket was used; each registration needs a ticket of its own.")
            }
        case (.ticket, _): return .notAdmitted
        }
        guard policy == .open else { return nil }
        let app = try storage.projects.app(
            named: new.app, on: new.platform, in: project.number)
        guard let app, try storage.apps.state(of: app.number, in: project.number) == .live else {
            return MartletError(
                .permissionDenied,
                "The project has no such app, and in an open project only an administrator makes one.",
                field: "app")
        }
        return nil
    }
}

extension Engine {
    func changeRegistry(
        _ change: RegistryChange, projectID: String, now: Instant,
        in storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        guard var project = try storage.projects.project(id: projectID) else {
            return .refused(.noProject)
        }
        switch change {
        case .policies(let registration, let topics):
            var policies = try storage.registrations.policies(of: project.number)
            policies.registration = registration ?? policies.registration
            do throws(MartletError) {
                policies.topics = try topics?.validated() ?? policies.topics
            } catch {
                return .refused(error)
            }
            try storage.registrations.put(policies, of: project.number)
            return .done
        case .limits(let changes):
            return try changeLimits(changes, of: project, in: storage)
        case .createRegistrationKey(let key):
            return try createRegistrationKey(key, in: project, now: now, storage)
        case .revokeRegistrationKey(let id):
            guard
                var key = try storage.registrations.registrationKey(id: id, in: project.number)
            else { return .refused(.noRegistrationKey) }
            key.isRevoked = true
            try storage.registrations.put(key, in: project.number)
            return .done
        case .createTicketKey(let key):
            return try createTicketKey(key, in: project, now: now, storage)
        case .revokeTicketKey(let id):
            guard var key = try storage.registrations.ticketKey(id: id, in: project.number) else {
                return .refused(.noTicketKey)
            }
            key.isRevoked = true
            key.material = []
            try storage.registrations.put(key, in: project.number)
            return .done
        case .createApp(let name, let platform):
            switch try place(forApp: name, on: platform, in: project, storage) {
            case .refused(let error): return .refused(error)
            case .known:
                return .refused(
                    MartletError(
                        .alreadyExists, "The project already has this app on this platform.",
                        field: "app"))
            case .free(let deleted):
                _ = try makeApp(name, on: platform, again: deleted, in: &project, storage)
                try storage.projects.put(project, isNew: false)
                return .done
            }
        case .deleteApp(let name, let platform):
            if let fault = Authentication.fault(inAppName: name) { return .refused(fault) }
            let app = try storage.projects.app(named: name, on: platform, in: project.number)
            guard let app, try storage.apps.state(of: app.number, in: project.number) == .live
            else {
                return .refused(
                    MartletError(
                        .notFound, "The project has no such app on this platform.", field: "app"))
            }
            try storage.apps.leave(app.number, in: project.number)
            return .done
        }
    }

    private func createRegistrationKey(
        _ key: NewKey, in project: Project, now: Instant, _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        if let error = Self.fault(inKeyName: key.name) { return .refused(error) }
        let count = try storage.registrations.registrationKeys(of: project.number).count
        guard count < Limits.registrationKeysPerProjectMax else {
            return .refused(.tooMany("registration keys", count, field: "registration_key"))
        }
        try storage.registrations.put(
            RegistrationKey(id: key.id, name: key.name, digest: key.digest, created: now),
            in: project.number)
        return .done
    }

    private func createTicketKey(
        _ key: NewTicketKey, in project: Project, now: Instant, _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        if let error = Self.fault(inKeyName: key.name) { return .refused(error) }
        guard key.id.utf8.allSatisfy({ TopicName.isAllowed($0) }),
            (1...64).contains(key.id.utf8.count)
        else {
            return .refused(
                MartletError(
                    .invalidArgument,
                    "The ID of a ticket key has 1 to 64 characters of [a-zA-Z0-9-_.~%].",
                    field: "ticket_key"))
        }
        let least = key.algorithm == .hs256 ? Limits.ticketSecretBytesMin : 1
        guard (least...Limits.ticketKeyBytesMax).contains(key.material.count) else {
            return .refused(
                MartletError(
                    .invalidArgument,
                    """
                    The secret or public key of a ticket key has \(least) to \
                    \(Limits.ticketKeyBytesMax) bytes.
                    """, field: "ticket_key"))
        }
        let known = try storage.registrations.ticketKeys(of: project.number)
        guard !known.contains(where: { $0.id == key.id }) else {
            return .refused(
                MartletError(
                    .alreadyExists, "The project has a ticket key with this ID; choose another ID.",
                    field: "ticket_key"))
        }
        guard known.count < Limits.ticketKeysPerProjectMax else {
            return .refused(.tooMany("ticket keys", known.count, field: "ticket_key"))
        }
        try storage.registrations.put(
            TicketKey(
                id: key.id, name: key.name, algorithm: key.algorithm, material: key.material,
                created: now), in: project.number)
        return .done
    }

    // MARK: Apps

    /// Whether a project has an app, or a place for the app.
    enum AppPlace {
        case known(App)
        /// - Parameter deleted: the app of this name whose deletion is done.
        case free(deleted: App?)
        case refused(MartletError)
    }

    func place(
        forApp name: String, on platform: Platform, in project: Project,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> AppPlace {
        if let fault = Authentication.fault(inAppName: name) { return .refused(fault) }
        let found = try storage.projects.app(named: name, on: platform, in: project.number)
        if let found {
            switch try storage.apps.state(of: found.number, in: project.number) {
            case .live: return .known(found)
            case .gone: break
            case .leaving:
                return .refused(
                    MartletError(
                        .unavailable, "The app is being deleted; try again when that is done.",
                        field: "app", retryDelayMilliseconds: 1000))
            }
        }
        guard project.appCount < UInt32(Limits.appsPerProjectMax) else {
            return .refused(.tooMany("apps", Limits.appsPerProjectMax, field: "app"))
        }
        return .free(deleted: found)
    }

    func makeApp(
        _ name: String, on platform: Platform, again deleted: App?, in project: inout Project,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> App {
        let number =
            deleted == nil ? try storage.instances.takeFree(.app, in: project.number) : nil
        return try storage.apps.make(
            name, on: platform, again: deleted, number: number, in: &project)
    }

    /// Unregisters up to `countMax` instances of deleted apps (REG-8).
    /// - Returns: the outcome of each unregistration.
    mutating func emptyDeletedApps(
        countMax: Int, now: Instant, _ storage: borrowing Transaction
    ) throws(StorageError) -> [Outcome] {
        var outcomes: [Outcome] = []
        while outcomes.count < countMax, let (number, app) = try storage.apps.nextLeaving() {
            audiences.forget()
            let left = try storage.sets.first(
                countMax - outcomes.count, of: .app(app), in: number)
            for ordinal in left {
                outcomes.append(
                    try unregister(ordinal, of: nil, in: number, now: now, storage))
            }
            guard left.isEmpty, var project = try storage.projects.project(number) else { continue }
            project.appCount -= 1
            try storage.projects.put(project, isNew: false)
            try storage.apps.hasLeft(app, in: number, now: now)
        }
        return outcomes
    }
}

extension MartletError {
    /// Refuses a new device that has proved nothing. The same for every policy, and for a project that doesn't exist;
    /// otherwise the answer would reveal which projects there are (REG-10).
    package static let notAdmitted = notAdmitted(
        "No project of this ID takes the device: it presents the project's registration key ('martlet "
            + "registration-key'), or a ticket of the app's server where the project wants one.")

    /// Refuses a new device whose ticket is properly signed, or isn't a ticket at all (REG-7).
    package static func notAdmitted(_ message: String) -> MartletError {
        MartletError(.permissionDenied, message, field: "registration")
    }

    fileprivate static var noRegistrationKey: MartletError {
        MartletError(
            .notFound, "The project has no registration key with this ID.",
            field: "registration_key")
    }

    fileprivate static var noTicketKey: MartletError {
        MartletError(
            .notFound, "The project has no ticket key with this ID.", field: "ticket_key")
    }
}
