// SPDX-License-Identifier: Apache-2.0
//
// The refusal of a request: one error word of the specification, the field or byte at fault, and a sentence with
// the remedy. The words and their numbers are part of the wire protocol, so a number is never reused. Rests on
// nothing.

/// The error words of the specification and their numbers on the wire.
public enum ErrorWord: UInt16, Sendable, CaseIterable, Hashable {
    /// A field is missing, malformed, too large, or contradicts another field.
    case invalidArgument = 1
    /// No valid credential was presented: wrong key, revoked key, unknown token.
    case unauthenticated = 2
    /// The credential is valid but does not allow the request.
    case permissionDenied = 3
    /// The named object does not exist.
    case notFound = 4
    /// The object to create already exists.
    case alreadyExists = 5
    /// The token is not registered, or a newer token replaced it.
    case unregistered = 6
    /// The token belongs to another project.
    case senderIDMismatch = 7
    /// A quota of one device is used up.
    case quotaExceeded = 8
    /// A quota or queue of the project or of the broker is used up; retry after the delay.
    case resourceExhausted = 9
    /// The instance has reached the limit of subscribed topics.
    case tooManyTopics = 10
    /// The broker cannot serve the request now; retry.
    case unavailable = 11
    /// A fault of the broker.
    case `internal` = 12
    /// The peer broke the wire protocol; the connection closes.
    case protocolViolation = 13
    /// Another connection of the same instance took over (NET-4).
    case replaced = 14
    /// The peer was silent for too long (NET-2, NET-3).
    case deadlineExceeded = 15
    /// A foreign push service does not accept the project's keys (GW-11).
    case thirdPartyAuthError = 16

    /// The word in the spelling of the specification and the command line.
    public var name: String {
        switch self {
        case .invalidArgument: "INVALID_ARGUMENT"
        case .unauthenticated: "UNAUTHENTICATED"
        case .permissionDenied: "PERMISSION_DENIED"
        case .notFound: "NOT_FOUND"
        case .alreadyExists: "ALREADY_EXISTS"
        case .unregistered: "UNREGISTERED"
        case .senderIDMismatch: "SENDER_ID_MISMATCH"
        case .quotaExceeded: "QUOTA_EXCEEDED"
        case .resourceExhausted: "RESOURCE_EXHAUSTED"
        case .tooManyTopics: "TOO_MANY_TOPICS"
        case .unavailable: "UNAVAILABLE"
        case .internal: "INTERNAL"
        case .protocolViolation: "PROTOCOL_VIOLATION"
        case .replaced: "REPLACED"
        case .deadlineExceeded: "DEADLINE_EXCEEDED"
        case .thirdPartyAuthError: "THIRD_PARTY_AUTH_ERROR"
        }
    }
}

/// A refusal: the fault, its place, and the remedy.
public struct MartletError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The error word of the specification, for programs.
    public var word: ErrorWord
    /// A sentence that names the fault and the remedy. Never contains a token or a key.
    public var message: String
    /// The field at fault (`"topic"`, `"message.data"`), or empty.
    public var field: String
    /// Byte offset of the fault inside the field's text, for conditions.
    public var byteOffset: UInt32?
    /// Delay after which a retry makes sense, in milliseconds; nil where a retry cannot help.
    public var retryDelayMilliseconds: UInt32?

    /// - Parameters:
    ///   - message: a sentence that names the fault and the remedy, without any token or key.
    ///   - field: the field at fault; empty, the default, for a fault of no single field.
    ///   - byteOffset: byte of the fault inside the field's text; nil, the default, for a fault without a place.
    ///   - retryDelayMilliseconds: delay before a retry, in milliseconds; nil, the default, where a retry cannot
    ///     help.
    public init(
        _ word: ErrorWord, _ message: String, field: String = "", byteOffset: UInt32? = nil,
        retryDelayMilliseconds: UInt32? = nil
    ) {
        self.word = word
        self.message = message
        self.field = field
        self.byteOffset = byteOffset
        self.retryDelayMilliseconds = retryDelayMilliseconds
    }

    /// The refusal on one line, such as `INVALID_ARGUMENT (topic, byte 3): MESSAGE Retry after 500 ms.`, without the
    /// absent parts.
    public var description: String {
        var text = word.name
        if !field.isEmpty { text += " (\(field)" }
        if let byteOffset {
            text += field.isEmpty ? " (byte \(byteOffset)" : ", byte \(byteOffset)"
        }
        if !field.isEmpty || byteOffset != nil { text += ")" }
        text += ": " + message
        if let retryDelayMilliseconds { text += " Retry after \(retryDelayMilliseconds) ms." }
        return text
    }
}
