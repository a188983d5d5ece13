// SPDX-License-Identifier: Apache-2.0
//
// A backup of the data folder, for an administrator who makes another node of it (OPS-7). The stream of
// `martlet backup` comes in parts, each by a request of its own, so an administrator who is slow or gone costs the
// broker one part. Rests on `WireReader` and `WireWriter`.

/// BACKUP (0xB7): asks for the next part of a backup. Answered by BACKUP_PART.
public struct BackupRequest: WireRequest {
    package typealias Answer = BackupPart

    public var correlation: UInt32
    /// The number of the backup; 0: a new backup begins.
    public var backup: UInt64

    public init(correlation: UInt32 = 0, backup: UInt64 = 0) {
        self.correlation = correlation
        self.backup = backup
    }

    package static var type: FrameType { .backup }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        backup = try reader.u64()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.u64(backup)
    }
}

/// BACKUP_PART (0xB8): bytes of a backup.
public struct BackupPart: WireAnswer {
    public var correlation: UInt32
    /// The number of the backup, for the next request.
    public var backup: UInt64
    /// Whether the backup ends with the part.
    public var isLast: Bool
    /// The next bytes of the stream; empty: none are there yet.
    public var content: [UInt8]

    public init(correlation: UInt32 = 0, backup: UInt64, isLast: Bool, content: [UInt8]) {
        self.correlation = correlation
        self.backup = backup
        self.isLast = isLast
        self.content = content
    }

    package static var type: FrameType { .backupPart }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        backup = try reader.u64()
        isLast = try reader.flag("last")
        content = Array(reader.rest())
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.u64(backup)
        writer.flag(isLast)
        writer.raw(content)
    }
}

extension AdministratorInterface {
    /// The next part of a backup of the data folder.
    /// - Parameter backup: the number of the backup; 0: a new backup begins.
    package func backupPart(of backup: UInt64) async throws(Failure) -> BackupPart {
        try await requests.ask(BackupRequest(backup: backup))
    }
}
