// SPDX-License-Identifier: Apache-2.0
//
// The bounds of the XMPP connection server, each with its reason. A project's connections count among those of all its
// senders: 400 new per minute and 2500 at a time (QUO-3). Rests on nothing.

/// Bounds of the XMPP connection server. Sizes are in bytes and times in seconds, unless the name says otherwise.
public enum XMPPLimits {
    // MARK: Flow control

    /// The window of a connection: unacknowledged messages in each direction (GW-10). Past this many unanswered sends we
    /// stop reading from the app server; past this many unacknowledged deliveries we stop writing to it. FCM's documented
    /// limit ("XMPP connection server", flow control).
    static let windowMax = 100
    /// Unacknowledged receipts of a connection, within its window (GW-10). A quarter, so messages of devices have most of
    /// it.
    static let receiptsWindowMax = 25
    /// Names of sent messages, the IDs of app servers, kept for their receipts (RCP-1). A receipt of an older message
    /// names the broker's own ID. The IDs of 100,000 messages take some 15 MiB.
    static let namesMax = 100_000
    /// Seconds for which a message's ID is kept beyond its time to live (RCP-1): seven days. A device may report late.
    static let nameSpareSeconds: Int64 = 604_800

    // MARK: XML

    /// Longest stanza of an app server, in bytes (NET-6). A payload of 12 KiB, each byte written as six, fits into it.
    static let stanzaBytesMax = 128 * 1024
    /// Longest stanza in bytes before an app server has signed in (NET-6). The password and the name of a domain fit into
    /// it.
    static let strangerStanzaBytesMax = 8 * 1024
    /// Longest tag, in bytes (NET-6). A parser scans an unfinished tag again with each of its bytes, so the bound is
    /// small.
    static let tagBytesMax = 8 * 1024
    /// Depth of elements inside each other, the stream included (NET-6). A stanza of an app server needs four.
    public static let depthMax = 16
    /// Elements in a stanza (NET-6). A stanza of an app server needs four.
    static let elementsMax = 64
    /// Attributes of an element (NET-6). A stanza of an app server needs five.
    static let attributesMax = 32
    /// Longest part of an address, in bytes. RFC 6120 §7.7 and RFC 7622 fix it.
    static let addressPartBytesMax = 1023
    /// Longest `message_id` that an app server may choose, in bytes (GW-10). No limit is documented. 100,000 of the
    /// longest, kept for receipts, take 100 MB.
    static let messageIDBytesMax = 1024

    // MARK: Strangers

    /// Bytes of a connection before its app server has signed in (NET-6). The longest stanza of that time, and as much
    /// again for both streams.
    static let strangerBytesMax = 16 * 1024
    /// Strangers: connections whose app servers have not signed in (NET-6). At 16 KiB each they hold 16 MiB. At the bound
    /// the address with most loses its oldest.
    public static let strangersMax = 1024
    /// The part of one address in `strangersMax`, in connections of strangers (NET-6). A quarter, so others sign in
    /// meanwhile. A proxy has no part, because it stands for many.
    public static let strangersPerAddressMax = 256
    /// Seconds from the TCP connection to the end of the sign-in (NET-3). A frame on the device port may take as long.
    public static let signInSeconds: Int64 = 30
    /// Refusals of passwords after which a connection ends (REG-10). RFC 6120 §6.4.5 recommends two to
    /// five retries.
    public static let refusalsMax = 3

    // MARK: Connections

    /// Port for app servers (GW-10). It is FCM's, which stands in their settings.
    public static let port: UInt16 = 5235
    /// Connections of all projects at a time (OPS-5). Three projects can have as many as their senders may have open
    /// (QUO-3).
    public static let connectionsMax = 8192
    /// Seconds of silence before the server pings; if nothing comes back within the same time, it closes the connection
    /// (NET-2). A server has no battery to save, so its connection is looked at six times as often as a device's.
    public static let silenceSeconds: Int64 = 300
    /// Seconds that a connection has to settle what is unacknowledged after a change of the certificate (GW-10). An app
    /// server may take as long for any message (UPS-1).
    public static let drainSecondsMax: Int64 = 60
    /// Seconds for which a connection stays open after CONNECTION_DRAINING (GW-10). An app server needs a moment to turn
    /// to another connection.
    public static let drainSecondsMin: Int64 = 5
    /// Seconds that a connection has to settle what is unacknowledged when the broker ends (NET-5). Connections on the
    /// device port have as long.
    public static let shutdownSecondsMax: Int64 = 5
    /// Milliseconds for which a connection stays open after CONNECTION_DRAINING when the broker ends (NET-5). A long
    /// round trip; more would only hold up the restart.
    static let shutdownMillisecondsMin: Int64 = 500
    /// Seconds that a closing connection has to take the last bytes (NET-3). Connections on the device port have as long.
    public static let closingSecondsMax: Int64 = 5
    /// Bytes read at a time from an app server that has signed in. That is a few sends, and then other connections have
    /// their turn.
    static let readBytesMax = 16 * 1024
    /// Bytes read at a time from a stranger. Most sign-ins come in one read, and a flood costs little.
    static let strangerReadBytesMax = 2048
    /// Milliseconds between two looks for new receipts (RCP-1). Receipts come at the pace of people.
    static let receiptsMilliseconds: Int64 = 200
    /// Seconds after which a refused acknowledgement is repeated to the store (UPS-1). A busy store has caught up by
    /// then, and a minute is left before the message goes to another connection.
    static let takeAgainSeconds: Int64 = 1
}
