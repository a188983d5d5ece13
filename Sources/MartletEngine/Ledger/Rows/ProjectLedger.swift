// SPDX-License-Identifier: Apache-2.0
//
// Projects, server keys, service-account keys and apps: few and small records. A project that a transaction changes is
// written once, at its end. Rests on the rows.

package import MartletBase
package import MartletRows

/// The records of projects, their keys and their apps.
package struct ProjectLedger: Ledger {
    package let context: LedgerContext

    package init(_ context: LedgerContext) { self.context = context }

    package func project(id: String) throws(StorageError) -> Project? {
        // Check the length first: a key must have 1 to 511 bytes.
        guard (1...Limits.projectIDBytesMax).contains(id.utf8.count) else { return nil }
        guard let found = try raw.get(.projectIDs, Key(bytes: Array(id.utf8))) else { return nil }
        var reader = RecordReader(found, of: .projectIDs)
        return try project(ProjectNumber(try reader.read(UInt32.self)))
    }

    package func project(_ number: ProjectNumber) throws(StorageError) -> Project? {
        guard let tally else { return try storedProject(number) }
        if let last = tally.lastProject, last.number == number { return last }
        var project = tally.projects[number]
        if project == nil { project = try storedProject(number) }
        if let project { tally.setLast(project) }
        return project
    }

    private func storedProject(
        _ number: ProjectNumber
    ) throws(StorageError) -> Project? {
        guard let found = try raw.get(.projects, Key(number)) else { return nil }
        return try Self.project(number, found)
    }

    /// The project in a snapshot. If the record equals the remembered one, it isn't decoded again.
    func project(
        _ number: ProjectNumber, remembered: inout RememberedProject
    ) throws(StorageError) -> Project? {
        guard let found = try raw.get(.projects, Key(number)) else { return nil }
        if let known = remembered.project, known.number == number, remembered.isEqual(to: found) {
            return known
        }
        let project = try Self.project(number, found)
        remembered.remember(project, found)
        return project
    }

    private static func project(
        _ number: ProjectNumber, _ found: UnsafeRawBufferPointer
    ) throws(StorageError) -> Project {
        var reader = RecordReader(found, of: .projects)
        let senderID = try reader.read(UInt64.self)
        let lastSequence = try reader.read(UInt64.self)
        let instanceCount = try reader.read(UInt64.self)
        let topicCount = try reader.read(UInt64.self)
        let nextOrdinal = try reader.read(UInt32.self)
        let nextTopic = try reader.read(UInt32.self)
        let nextApp = try reader.read(UInt32.self)
        let weight = try reader.read(UInt32.self)
        guard let overload = OverloadPolicy(rawValue: try reader.read(UInt8.self)) else {
            throw reader.damaged()
        }
        let reportCount = try reader.read(UInt64.self)
        let reportsFrom = try reader.read(UInt64.self)
        // Turns are multiples of the weight, so with a weight of 0 there would never be one.
        guard weight > 0 else { throw reader.damaged() }
        let appCount = try reader.read(UInt32.self)
        let id = try reader.text()
        return Project(
            number: number, id: id, senderID: senderID, limits: try Self.limits(&reader),
            weight: Int(weight), overload: overload,
            lastSequence: MessageSequence(lastSequence), instanceCount: instanceCount,
            topicCount: topicCount, reportCount: reportCount,
            reportsFrom: MessageSequence(reportsFrom), nextOrdinal: Ordinal(nextOrdinal),
            nextTopic: TopicNumber(nextTopic), nextApp: AppNumber(nextApp),
            appCount: appCount)
    }

    private static func limits(
        _ reader: inout RecordReader
    ) throws(StorageError) -> ProjectLimits {
        var limits = ProjectLimits()
        while !reader.isAtEnd {
            guard let limit = ProjectLimit(rawValue: try reader.read(UInt8.self)) else {
                throw reader.damaged()
            }
            let value = Int(try reader.read(UInt32.self))
            guard limit.bounds.contains(value) else { throw reader.damaged() }
            limits[limit] = value
        }
        return limits
    }

    /// The projects after `id`, in the order of their IDs, at most `limit`.
    package func projects(
        after id: String, limit: Int
    ) throws(StorageError) -> [Project] {
        let cursor = try Cursor(raw, .projectIDs)
        // With a zero byte the start is right behind `id`, or before all IDs if it is empty.
        let start = Key(bytes: Array(id.utf8.prefix(Limits.projectIDBytesMax)) + [0])
        var found = try cursor.seek(start)
        var result: [Project] = []
        while let entry = found, result.count < limit {
            var reader = RecordReader(entry.value, of: .projectIDs)
            if let project = try project(ProjectNumber(try reader.read(UInt32.self))) {
                result.append(project)
            }
            found = try cursor.next()
        }
        return result
    }

    /// Stores a new or changed project.
    package func put(_ project: Project, isNew: Bool) throws(StorageError) {
        if let tally {
            if let before = tally.lastProject, before.number == project.number {
                invariant(
                    project.lastSequence >= before.lastSequence, "A project's sequences rise.")
                invariant(
                    project.nextOrdinal >= before.nextOrdinal,
                    "An ordinal that was issued once is free only by its row.")
                invariant(
                    project.nextTopic >= before.nextTopic,
                    "A topic number that was issued once is free only by its row.")
                invariant(project.nextApp >= before.nextApp, "Numbers of apps are issued once.")
                invariant(
                    project.reportsFrom >= before.reportsFrom,
                    "Reports are removed in the order of the sequences.")
            }
            tally.setLast(project)
            tally.hasLastChanged = true
        } else {
            try write(project)
        }
        guard isNew else { return }
        var number = RecordWriter()
        number.append(project.number.rawValue)
        try raw.put(.projectIDs, Key(bytes: Array(project.id.utf8)), number.bytes)
        var next = RecordWriter()
        invariant(project.number < .unissued, "The highest number names no project.")
        next.append(project.number.rawValue + 1)
        try raw.put(.meta, Self.nextProjectKey, next.bytes)
    }

    /// Writes the projects that this transaction changed.
    func writeProjects() throws(StorageError) {
        for project in tally?.takeProjects() ?? [] { try write(project) }
    }

    private func write(_ project: Project) throws(StorageError) {
        invariant(
            project.lastSequence.isStored,
            "Sequences stay below the numbers of now-or-never messages.")
        var writer = RecordWriter()
        writer.append(project.senderID)
        writer.append(project.lastSequence.rawValue)
        writer.append(project.instanceCount)
        writer.append(project.topicCount)
        writer.append(project.nextOrdinal.rawValue)
        writer.append(project.nextTopic.rawValue)
        writer.append(project.nextApp.rawValue)
        writer.append(UInt32(project.weight))
        writer.append(project.overload.rawValue)
        writer.append(project.reportCount)
        writer.append(project.reportsFrom.rawValue)
        writer.append(project.appCount)
        writer.append(text: project.id)
        for limit in ProjectLimit.allCases {
            guard let value = project.limits[limit] else { continue }
            writer.append(limit.rawValue)
            writer.append(UInt32(value))
        }
        try raw.put(.projects, Key(project.number), writer.bytes)
    }

    /// The next project's number. The highest is never given, because the store keeps the number behind the last.
    package func nextProjectNumber() throws(StorageError) -> ProjectNumber {
        guard let found = try raw.get(.meta, Self.nextProjectKey) else { return ProjectNumber(0) }
        var reader = RecordReader(found, of: .meta)
        return ProjectNumber(try reader.read(UInt32.self))
    }

    private static var nextProjectKey: Key { Key(bytes: Array("projects".utf8)) }

    package func serverKey(id: String) throws(StorageError) -> ServerKey? {
        guard (1...64).contains(id.utf8.count),
            let found = try raw.get(.keys, Key(bytes: Array(id.utf8)))
        else { return nil }
        return try serverKey(id: id, found)
    }

    package func serverKeys(
        of project: ProjectNumber
    ) throws(StorageError) -> [ServerKey] {
        let cursor = try Cursor(raw, .keys)
        var found = try cursor.seek(Key(bytes: [0]))
        var result: [ServerKey] = []
        while let entry = found {
            let key = try serverKey(id: String(decoding: entry.key, as: UTF8.self), entry.value)
            if key.project == project { result.append(key) }
            found = try cursor.next()
        }
        return result
    }

    private func serverKey(
        id: String, _ bytes: UnsafeRawBufferPointer
    ) throws(StorageError) -> ServerKey {
        var reader = RecordReader(bytes, of: .keys)
        let project = ProjectNumber(try reader.read(UInt32.self))
        let isRevoked = try reader.read(UInt32.self) != 0
        let created = Instant(millisecondsSince1970: try reader.read(Int64.self))
        let digest = SecretDigest(bytes: Array(try reader.bytes(32)))
        return ServerKey(
            id: id, project: project, name: try reader.text(), digest: digest, created: created,
            isRevoked: isRevoked)
    }

    package func put(_ key: ServerKey) throws(StorageError) {
        var writer = RecordWriter()
        writer.append(key.project.rawValue)
        writer.append(UInt32(key.isRevoked ? 1 : 0))
        writer.append(key.created.millisecondsSince1970)
        writer.bytes += key.digest.bytes
        writer.append(text: key.name)
        try raw.put(.keys, Key(bytes: Array(key.id.utf8)), writer.bytes)
    }

    package func app(
        _ number: AppNumber, in project: ProjectNumber
    ) throws(StorageError) -> App? {
        guard let found = try raw.get(.apps, .app(number, in: project)) else { return nil }
        var reader = RecordReader(found, of: .apps)
        guard let platform = Platform(rawValue: try reader.read(UInt8.self)) else {
            throw reader.damaged()
        }
        return App(
            number: number, platform: platform,
            name: String(decoding: reader.rest(), as: UTF8.self))
    }

    package func app(
        named name: String, on platform: Platform, in project: ProjectNumber
    ) throws(StorageError) -> App? {
        guard let found = try raw.get(.appNames, .appName(name, platform, in: project)) else {
            return nil
        }
        var reader = RecordReader(found, of: .appNames)
        return App(number: AppNumber(try reader.read(UInt32.self)), platform: platform, name: name)
    }

    package func put(_ app: App, in project: ProjectNumber) throws(StorageError) {
        try raw.put(
            .apps, .app(app.number, in: project), [app.platform.rawValue] + Array(app.name.utf8))
        var writer = RecordWriter()
        writer.append(app.number.rawValue)
        try raw.put(.appNames, .appName(app.name, app.platform, in: project), writer.bytes)
    }

    package func serviceAccountKey(
        id: String
    ) throws(StorageError) -> ServiceAccountKey? {
        // Check the length first: a key must have 1 to 511 bytes.
        guard (1...Limits.serviceAccountIDBytesMax).contains(id.utf8.count),
            let found = try raw.get(.serviceAccounts, Key(bytes: Array(id.utf8)))
        else { return nil }
        return try serviceAccountKey(id: id, found)
    }

    package func serviceAccountKeys(
        of project: ProjectNumber
    ) throws(StorageError) -> [ServiceAccountKey] {
        let cursor = try Cursor(raw, .serviceAccounts)
        var found = try cursor.seek(Key(bytes: [0]))
        var result: [ServiceAccountKey] = []
        while let entry = found {
            let id = String(decoding: entry.key, as: UTF8.self)
            let key = try serviceAccountKey(id: id, entry.value)
            if key.project == project { result.append(key) }
            found = try cursor.next()
        }
        return result
    }

    private func serviceAccountKey(
        id: String, _ bytes: UnsafeRawBufferPointer
    ) throws(StorageError) -> ServiceAccountKey {
        var reader = RecordReader(bytes, of: .serviceAccounts)
        let project = ProjectNumber(try reader.read(UInt32.self))
        let isRevoked = try reader.read(UInt32.self) != 0
        let created = Instant(millisecondsSince1970: try reader.read(Int64.self))
        return ServiceAccountKey(
            id: id, project: project, name: try reader.text(), clientEmail: try reader.text(),
            publicKey: Array(reader.rest()), created: created, isRevoked: isRevoked)
    }

    package func put(_ key: ServiceAccountKey) throws(StorageError) {
        var writer = RecordWriter()
        writer.append(key.project.rawValue)
        writer.append(UInt32(key.isRevoked ? 1 : 0))
        writer.append(key.created.millisecondsSince1970)
        writer.append(text: key.name)
        writer.append(text: key.clientEmail)
        writer.bytes += key.publicKey
        try raw.put(.serviceAccounts, Key(bytes: Array(key.id.utf8)), writer.bytes)
    }

    /// A project's last sequence in this snapshot.
    package func lastSequence(
        of project: ProjectNumber
    ) throws(StorageError) -> MessageSequence {
        guard let found = try raw.get(.projects, Key(project)) else { return .none }
        guard found.count >= 16 else { throw RecordReader(found, of: .projects).damaged() }
        return MessageSequence(found.loadLittleEndian(UInt64.self, at: 8))
    }
}

/// A project, and the record that it was decoded from.
struct RememberedProject {
    private(set) var project: Project?
    private var record: [UInt8] = []

    func isEqual(to other: UnsafeRawBufferPointer) -> Bool {
        record.withUnsafeBytes { other.hasBytes(of: $0) }
    }

    mutating func remember(_ new: Project, _ bytes: UnsafeRawBufferPointer) {
        project = new
        record.removeAll(keepingCapacity: true)
        record.append(contentsOf: bytes)
    }
}

extension ProjectNumber {
    /// The highest number, which no project has: what comes after the last.
    static let unissued = ProjectNumber(.max)
}
