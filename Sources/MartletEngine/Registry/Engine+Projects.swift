// SPDX-License-Identifier: Apache-2.0
//
// Projects and server keys (REG-5). The engine gets secrets only as digests. Rests on the ledgers.

import MartletBase
import MartletRows

extension Engine {
    func createProject(
        id: String, senderID: UInt64, conditionTopicsMax: Int, registration: RegistrationPolicy,
        key: NewKey?, now: Instant, in storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        let allowed = id.utf8.allSatisfy { byte in
            (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
                || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
                || byte == UInt8(ascii: "-")
        }
        guard allowed, (1...Limits.projectIDBytesMax).contains(id.utf8.count) else {
            return .refused(
                MartletError(
                    .invalidArgument,
                    "A project ID has 1 to \(Limits.projectIDBytesMax) characters of [a-z0-9-].",
                    field: "project"))
        }
        guard (0...Limits.conditionTopicsCeiling).contains(conditionTopicsMax) else {
            return .refused(Self.badTopicsMax)
        }
        guard try storage.projects.project(id: id) == nil else {
            return .refused(
                MartletError(
                    .alreadyExists, "A project with this ID exists; choose another ID.",
                    field: "project"))
        }
        let number = try storage.projects.nextProjectNumber()
        guard number != .unissued else {
            return .refused(
                MartletError(
                    .resourceExhausted,
                    "The broker has used up all project numbers; start another broker.",
                    field: "project"))
        }
        var project = Project(number: number, id: id, senderID: senderID)
        if conditionTopicsMax > 0 { project.limits[.topicsPerCondition] = conditionTopicsMax }
        try storage.projects.put(project, isNew: true)
        try storage.registrations.put(
            ProjectPolicies(registration: registration), of: project.number)
        if let key {
            try storage.registrations.put(
                RegistrationKey(id: key.id, name: key.name, digest: key.digest, created: now),
                in: project.number)
        }
        return .project(project)
    }

    private static var badTopicsMax: MartletError {
        MartletError(
            .invalidArgument,
            "A project may allow 1 to \(Limits.conditionTopicsCeiling) topics in a condition.",
            field: "topics_per_condition")
    }

    /// Changes a project's settings, for messages sent from now on (FAN-1, FAN-2, CON-3).
    func changeProject(
        id: String, weight: Int?, overload: OverloadPolicy?, conditionTopicsMax: Int?,
        in storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        guard var project = try storage.projects.project(id: id) else {
            return .refused(.noProject)
        }
        guard (1...Limits.projectWeightMax).contains(weight ?? 1) else {
            return .refused(
                MartletError(
                    .invalidArgument, "A project's weight is 1 to \(Limits.projectWeightMax).",
                    field: "weight"))
        }
        guard (1...Limits.conditionTopicsCeiling).contains(conditionTopicsMax ?? 1) else {
            return .refused(Self.badTopicsMax)
        }
        if let conditionTopicsMax { project.limits[.topicsPerCondition] = conditionTopicsMax }
        project.weight = weight ?? project.weight
        project.overload = overload ?? project.overload
        try storage.projects.put(project, isNew: false)
        return .project(project)
    }

    /// Gives a project its own limits, or takes them back (OPS-2). From this transaction on: what it has beyond a lower limit
    /// stays, but nothing is added.
    func changeLimits(
        _ changes: [ProjectLimitChange], of project: Project, in storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        var project = project
        for change in changes {
            if let value = change.value, !change.limit.bounds.contains(value) {
                return .refused(.outOfBounds(change.limit, value))
            }
            project.limits[change.limit] = change.value
        }
        try storage.projects.put(project, isNew: false)
        return .project(project)
    }

    func createKey(
        _ key: NewKey, projectID: String, now: Instant,
        in storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        guard let project = try storage.projects.project(id: projectID) else {
            return .refused(.noProject)
        }
        if let fault = Self.fault(inKeyName: key.name) { return .refused(fault) }
        let count = try storage.projects.serverKeys(of: project.number).count
        guard count < Limits.serverKeysPerProjectMax else {
            return .refused(.tooMany("server keys", count, field: "key"))
        }
        let stored = ServerKey(
            id: key.id, project: project.number, name: key.name, digest: key.digest, created: now,
            isRevoked: false)
        try storage.projects.put(stored)
        return .key(stored)
    }

    func revokeKey(
        id: String, projectID: String, in storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        guard let project = try storage.projects.project(id: projectID) else {
            return .refused(.noProject)
        }
        guard var key = try storage.projects.serverKey(id: id), key.project == project.number else {
            return .refused(
                MartletError(
                    .notFound, "The project has no such key; 'martlet key list' shows its keys.",
                    field: "key"))
        }
        key.isRevoked = true
        try storage.projects.put(key)
        return .key(key)
    }

    static func fault(inKeyName name: String) -> MartletError? {
        let hasControls = name.unicodeScalars.contains { $0.properties.generalCategory == .control }
        guard name.utf8.count > Limits.keyNameBytesMax || hasControls else { return nil }
        return MartletError(
            .invalidArgument,
            "A key's name has at most \(Limits.keyNameBytesMax) bytes and no control characters.",
            field: "name")
    }
}

extension MartletError {
    static func outOfBounds(_ limit: ProjectLimit, _ value: Int) -> MartletError {
        MartletError(
            .invalidArgument,
            """
            The limit \(limit.name) takes a number from \(limit.bounds.lowerBound) to \
            \(limit.bounds.upperBound), not \(value).
            """, field: limit.name)
    }

    /// Refuses one more key or app.
    static func tooMany(_ nouns: String, _ count: Int, field: String) -> MartletError {
        MartletError(
            .resourceExhausted, "The project has \(count) \(nouns); no more are allowed.",
            field: field)
    }
}
