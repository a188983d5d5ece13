// SPDX-License-Identifier: Apache-2.0
//
// Short lists of a project: all keys of a kind, or all apps, in one frame. The frames of the lists have one form, and
// differ in their numbers and in their entries. A kind says both. Rests on `WireReader` and `WireWriter`.

/// A kind of short lists.
package protocol ListedKind: Sendable {
    associatedtype Entry: Sendable, Hashable
    /// Type of the request, and of its answer.
    static var listType: FrameType { get }
    static var pageType: FrameType { get }
    /// Bytes of the shortest entry. The bound lets the reader refuse a count that the frame cannot hold.
    static var entryBytesMin: Int { get }
    static func decode(from reader: inout WireReader) throws(WireError) -> Entry
    static func encode(_ entry: Entry, into writer: inout WireWriter)
}

/// Asks for all entries of a project. Answered by `ListResult`.
package struct ListRequest<Kind: ListedKind>: WireRequest {
    package typealias Answer = ListResult<Kind>

    package var correlation: UInt32
    package var projectID: String

    package init(correlation: UInt32 = 0, projectID: String) {
        self.correlation = correlation
        self.projectID = projectID
    }

    package static var type: FrameType { Kind.listType }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
    }
}

/// The answer to a `ListRequest`.
package struct ListResult<Kind: ListedKind>: WireAnswer {
    package var correlation: UInt32
    package var entries: [Kind.Entry]

    package init(correlation: UInt32 = 0, entries: [Kind.Entry]) {
        self.correlation = correlation
        self.entries = entries
    }

    package static var type: FrameType { Kind.pageType }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        entries = try reader.list(entryBytesMin: Kind.entryBytesMin) {
            (reader) throws(WireError) in try Kind.decode(from: &reader)
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.list(entries) { (writer, entry) in Kind.encode(entry, into: &writer) }
    }
}
