// SPDX-License-Identifier: Apache-2.0
//
// Alerts: the reasons for which TLS ends a connection, by their registered numbers (Source: RFC 8446 §6, B.2). Rests
// on nothing.

/// A reason for the end of a TLS connection. The peer is told the number.
public enum TLSAlert: UInt8, Error, Sendable {
    /// The sender sends no more bytes (§6.1).
    case closeNotify = 0
    /// A message came at a time at which no peer may send the message.
    case unexpectedMessage = 10
    /// A record was not sealed with the key of the connection.
    case badRecordMAC = 20
    /// A record is longer than a record may be.
    case recordOverflow = 22
    /// A field has a value outside of its range.
    case illegalParameter = 47
    /// A message has a wrong length.
    case decodeError = 50
    /// The user gave a handshake up; `closeNotify` follows (§6.1).
    case userCanceled = 90
}
