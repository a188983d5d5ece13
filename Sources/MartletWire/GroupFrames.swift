// SPDX-License-Identifier: Apache-2.0
//
// Frames for creating, changing and looking up groups (GRP-1 to GRP-3), and the answers to a message to a group or
// to several targets. The broker decides how many tokens are allowed; the codec does not. Rests on `SendRequest`.

public import MartletBase

/// CREATE_GROUP (0x60): GRP-1, creates a group with its first members. Answered by GROUP.
public struct CreateGroupRequest: WireRequest {
    package typealias Answer = GroupResult

    public var correlation: UInt32
    public var name: String
    public var tokens: [String]

    public init(correlation: UInt32 = 0, name: String, tokens: [String]) {
        self.correlation = correlation
        self.name = name
        self.tokens = tokens
    }

    package static var type: FrameType { .createGroup }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        name = try reader.string()
        tokens = try reader.strings()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(name)
        writer.strings(tokens)
    }
}

/// CHANGE_GROUP (0x61): GRP-2, adds members to a group or removes members. Answered by GROUP.
public struct ChangeGroupRequest: WireRequest {
    package typealias Answer = GroupResult

    public var correlation: UInt32
    public var operation: GroupOperation
    public var name: String
    public var key: String
    public var tokens: [String]

    public init(
        correlation: UInt32 = 0, operation: GroupOperation, name: String, key: String,
        tokens: [String]
    ) {
        self.correlation = correlation
        self.operation = operation
        self.name = name
        self.key = key
        self.tokens = tokens
    }

    package static var type: FrameType { .changeGroup }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        operation = try reader.choice("operation")
        name = try reader.string()
        key = try reader.string()
        tokens = try reader.strings()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.u8(operation.rawValue)
        writer.string(name)
        writer.string(key)
        writer.strings(tokens)
    }
}

/// FIND_GROUP (0x63): GRP-3, looks up a group by name. Answered by GROUP.
public struct FindGroupRequest: WireRequest {
    package typealias Answer = GroupResult

    public var correlation: UInt32
    public var name: String

    public init(correlation: UInt32 = 0, name: String) {
        self.correlation = correlation
        self.name = name
    }

    package static var type: FrameType { .findGroup }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        name = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(name)
    }
}

/// GROUP (0x62): the present state of a group.
public struct GroupResult: WireAnswer {
    public var correlation: UInt32
    public var name: String
    public var key: String
    /// The members' tokens, in the order in which the members joined. Empty if the group has ended (GRP-4).
    public var tokens: [String]

    public init(correlation: UInt32 = 0, name: String, key: String, tokens: [String]) {
        self.correlation = correlation
        self.name = name
        self.key = key
        self.tokens = tokens
    }

    package static var type: FrameType { .group }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        name = try reader.string()
        key = try reader.string()
        tokens = try reader.strings()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(name)
        writer.string(key)
        writer.strings(tokens)
    }
}

/// LIST_GROUPS (0x64): asks for the project's groups in order of name. Answered by GROUP_PAGE.
public struct ListGroupsRequest: WireRequest {
    package typealias Answer = GroupPage

    public var correlation: UInt32
    /// Name after which the page begins; empty for the first page.
    public var after: String
    /// Most entries in the page, 1 to 1000.
    public var limit: UInt16

    public init(correlation: UInt32 = 0, after: String, limit: UInt16) {
        self.correlation = correlation
        self.after = after
        self.limit = limit
    }

    package static var type: FrameType { .listGroups }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        after = try reader.string()
        limit = try reader.u16()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(after)
        writer.u16(limit)
    }
}

/// GROUP_PAGE (0x65): groups in order of name, each with the count of its members.
public struct GroupPage: WireAnswer {
    public var correlation: UInt32
    /// True if there are groups after the last entry of the page.
    public var hasMore: Bool
    public var groups: [GroupSummary]

    public init(correlation: UInt32 = 0, hasMore: Bool, groups: [GroupSummary]) {
        self.correlation = correlation
        self.hasMore = hasMore
        self.groups = groups
    }

    package static var type: FrameType { .groupPage }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        hasMore = try reader.flag("more")
        groups = try reader.list(entryBytesMin: 6) { (reader) throws(WireError) in
            GroupSummary(
                name: try reader.string(), key: try reader.string(),
                memberCount: Int(try reader.u16()))
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.flag(hasMore)
        writer.list(groups) { (writer, group) in
            writer.string(group.name)
            writer.string(group.key)
            writer.u16(UInt16(clamping: group.memberCount))
        }
    }
}

/// GROUP_ACCEPTED (0x66): GRP-5, the answer to a SEND to a group: ACCEPTED, and the members that the message is not
/// for.
public struct GroupAccepted: WireFrame {
    public struct Failure: Sendable, Hashable {
        public var token: String
        public var word: ErrorWord

        public init(token: String, word: ErrorWord) {
            self.token = token
            self.word = word
        }
    }

    public var accepted: Accepted
    /// Members that the message was accepted for.
    public var successes: UInt16
    /// Members that the message is not for, each with the reason.
    public var failures: [Failure]

    public init(accepted: Accepted, successes: UInt16, failures: [Failure] = []) {
        self.accepted = accepted
        self.successes = successes
        self.failures = failures
    }

    public var correlation: UInt32 { accepted.correlation }
    package var type: FrameType { .groupAccepted }

    package init(from reader: inout WireReader) throws(WireError) {
        accepted = try Accepted(from: &reader)
        successes = try reader.u16()
        failures = try reader.list(entryBytesMin: 4) { (reader) throws(WireError) in
            Failure(token: try reader.string(), word: try reader.errorWord())
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        accepted.encodeBody(into: &writer)
        writer.u16(successes)
        writer.list(failures) { (writer, failure) in
            writer.string(failure.token)
            writer.u16(failure.word.rawValue)
        }
    }
}

/// MULTICAST_RESULT (0x68): the answer to MULTICAST: ACCEPTED, and the tokens that the message is not for.
public struct MulticastResult: WireFrame {
    public var accepted: Accepted
    /// Tokens that the message was accepted for.
    public var successes: UInt16
    /// Refused tokens, by index in the request's list of targets.
    public var failures: [TopicResult.Failure]

    public init(accepted: Accepted, successes: UInt16, failures: [TopicResult.Failure] = []) {
        self.accepted = accepted
        self.successes = successes
        self.failures = failures
    }

    public var correlation: UInt32 { accepted.correlation }
    package var type: FrameType { .multicastResult }

    package init(from reader: inout WireReader) throws(WireError) {
        accepted = try Accepted(from: &reader)
        successes = try reader.u16()
        failures = try reader.list(entryBytesMin: 4) { (reader) throws(WireError) in
            .init(index: try reader.u16(), word: try reader.errorWord())
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        accepted.encodeBody(into: &writer)
        writer.u16(successes)
        writer.list(failures) { (writer, failure) in
            writer.u16(failure.index)
            writer.u16(failure.word.rawValue)
        }
    }
}
