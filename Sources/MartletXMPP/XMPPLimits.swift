// SPDX-License-Identifier: Apache-2.0
//
// The bounds of the XMPP connection server, each with the row of the specification that asks for it. A project's connections
// count among those of all its senders: 400 new per minute and 2500 at a time (QUO-3). Rests on nothing.

/// Bounds of the XMPP connection server. Sizes are in bytes and times in seconds, unless the name says otherwise.
public enum XMPPLimits {
    // MARK: Flow control

    /// GW-10: unacknowledged messages of a connection in each direction. An app server that has so many sends on their
    /// way is not read from; an app server that acknowledges so few gets no more. Source: Firebase Cloud Messaging
    /// documentation, "XMPP connection server", flow control.
    static let windowMax = 100
    /// GW-10: unacknowledged receipts of a connection, so that messages of devices have most of the window.
    static let receiptsWindowMax = 25
    /// RCP-1: sent messages whose IDs are kept for their receipts. A receipt of a message beyond names the broker's own
    /// ID. The IDs of 100,000 messages take some 15 MiB.
    static let namesMax = 100_000
    /// RCP-1: for how long after a message's time to live its ID is kept: a device may report late (7 days).
    static let nameSpareSeconds: Int64 = 604_800

    // MARK: XML

    /// NET-6: longest stanza of an app server. A payload of 12 KiB, each byte written as six, fits into it.
    static let stanzaBytesMax = 128 * 1024
    /// NET-6: longest stanza before an app server has signed in. The password and the name of a domain fit into it.
    static let strangerStanzaBytesMax = 8 * 1024
    /// NET-6: longest tag. A parser scans an unfinished tag again with each of its bytes, so the bound is small.
    static let tagBytesMax = 8 * 1024
    /// NET-6: elements inside of each other, with the stream. A stanza of an app server needs four.
    public static let depthMax = 16
    /// NET-6: elements of a stanza. A stanza of an app server needs four.
    static let elementsMax = 64
    /// NET-6: attributes of an element. A stanza of an app server needs five.
    static let attributesMax = 32
    /// RFC 6120 §7.7, RFC 7622: longest part of an address.
    static let addressPartBytesMax = 1023
    /// Longest `message_id` that an app server may choose, in bytes (GW-10).
    static let messageIDBytesMax = 1024

    // MARK: Strangers

    /// NET-6: bytes of a connection before its app server has signed in, both streams and the whole sign-in.
    static let strangerBytesMax = 16 * 1024
    /// NET-6: connections whose app servers have not signed in. At the bound the address with most loses its oldest.
    public static let strangersMax = 1024
    /// NET-6: the part of one address in `strangersMax`. A proxy has no part, because it stands for many.
    public static let strangersPerAddressMax = 256
    /// NET-3: time from the TCP connection to the end of the sign-in.
    public static let signInSeconds: Int64 = 30
    /// REG-10: refused passwords on a connection, past which the connection ends. Source: RFC 6120 §6.4.5.
    public static let refusalsMax = 3

    // MARK: Connections

    /// GW-10: port for app servers of the original system.
    public static let port: UInt16 = 5235
    /// OPS-5: connections of all projects at a time.
    public static let connectionsMax = 8192
    /// NET-2: a connection that was silent for so long gets a ping, and ends after as long again.
    public static let silenceSeconds: Int64 = 300
    /// GW-10: after a change of the certificate, a connection has so long to finish what is unacknowledged.
    public static let drainSecondsMax: Int64 = 60
    /// GW-10: a connection is open for so long after CONNECTION_DRAINING, because an app server needs a moment to turn
    /// to another connection.
    public static let drainSecondsMin: Int64 = 5
    /// NET-5: at the broker's end, a connection has so long to finish what is unacknowledged, as on the device port.
    public static let shutdownSecondsMax: Int64 = 5
    /// NET-5: at the broker's end, a connection is open for so long after CONNECTION_DRAINING, in milliseconds.
    static let shutdownMillisecondsMin: Int64 = 500
    /// NET-3: a connection that closes has so long to take the last bytes.
    public static let closingSecondsMax: Int64 = 5
    /// Bytes read at a time of an app server that has signed in, so that other connections have their turns.
    static let readBytesMax = 16 * 1024
    /// Bytes read at a time of a stranger.
    static let strangerReadBytesMax = 2048
    /// RCP-1: time between two looks for new receipts, in milliseconds. Receipts come at the pace of people.
    static let receiptsMilliseconds: Int64 = 200
    /// UPS-1: time after which a refused acknowledgement is repeated to the store.
    static let takeAgainSeconds: Int64 = 1
}
