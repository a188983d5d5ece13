// SPDX-License-Identifier: Apache-2.0
//
// The measured figures behind `martlet size`, each with its source. "Report" is Benchmarks/Published/report.md, measured
// on two cores of an AMD EPYC. Other processors and disks need other times; bytes are equal everywhere. `StoreSizeTests`
// compares the bytes with a real store, and prints them anew with MARTLET_MEASURE=1. Pure.

/// Figures of one broker: bytes, nanoseconds, and rates a second.
enum SizingFigures {
    // MARK: Memory

    /// Resident memory of `martlet gateway` without connections, in bytes: the program, its libraries and its threads.
    /// Source: VmRSS two seconds after the start, 2 loops: 36.5 MB; `martlet serve`: 31.9 MB.
    static let processBytes = 37e6
    /// Growth of the broker's own memory while projects flood, in bytes.
    /// Source: the bound of `make stress` (Benchmarks/README.md, "Stress"): 104 MiB.
    static let queueBytes = 104 * mebibyte
    /// User-space memory of an idle connection in plain text.
    /// Source: report, "Idle connections of Martlet": 331 at 10,000 connections, 248 at 102,000.
    static let connectionBytes = 331.0
    /// User-space memory of an idle connection over TLS. Source: the TLS article, at 10,000 connections.
    static let secureConnectionBytes = 910.0
    /// Memory of the kernel for the broker's end of an idle connection.
    /// Source: report, "Idle connections of Martlet", 102,000: 9,854 for both ends.
    static let socketBytes = 9854.0 / 2

    // MARK: Bytes of data.mdb

    /// A registered instance without topics: its token, record, mailbox and places in the sets of all instances.
    /// Source: `StoreSizeTests`, 100,000 instances: 233; 16 more for the mailbox of a device that has connected
    /// (`bench-load --save`, 10,000 devices).
    static let instanceBytes = 249.0
    /// The list of an instance's topics, without its elements. Source: `StoreSizeTests`: 28.
    static let topicListBytes = 28.0
    /// A subscription: an element in the instance's list, and a member of the topic's set.
    /// Source: `StoreSizeTests`, 5 topics for an instance: 9 in topics of 5,000 instances, 13 in topics of 500, 19 in
    /// topics of 25.
    static let subscriptionBytes = 13.0
    /// A stored message without its payload and without recipients. Source: `StoreSizeTests`: 111 for a message of 1
    /// byte to an instance, less the instance's row.
    static let messageBytes = 54.0
    /// The row of a recipient, for messages with few. Source: `StoreSizeTests`, between 20 and 64 recipients: 57.
    static let inboxRowBytes = 57.0
    /// Bytes of a row that share a page with other rows, for each byte of the row.
    /// Source: `StoreSizeTests`, payloads of 128, 512 and 1000 bytes: 1.0, 1.2 and 1.3.
    static let pageFill = 1.25
    /// The report of a message that some instance has taken.
    /// Source: report, "The store under a steady load": (6,951 − 5,247) pages for 67,872 messages.
    static let reportBytes = 103.0

    /// A page of the file. A row of more than half a page has pages of its own.
    static let pageBytes = 4096.0
    /// Header of a page, and the fields of a message beside its payload.
    static let pageHeaderBytes = 16.0
    static let messageFieldBytes = 80.0
    static let rowOfOwnPagesBytes = 2030.0

    /// Instances for which a bitmap of recipients has a page. Source: the article Storage, "Sets".
    static let instancesPerBlock = 32_640.0
    static let bitmapBytes = 4080.0
    /// Members of a block up to which a list of two bytes each takes the place of the bitmap.
    static let listMembersMax = 500.0
    static let blobHeaderBytes = 32.0
    static let blobBlockBytes = 16.0
    /// Recipients up to which each has a row. Source: the article Storage, "Mailbox".
    static let inboxRecipientsMax = 64.0

    // MARK: Bytes beside the rows

    /// Both files of the journal at their longest. Source: the article Storage, "Durability": 48 MiB before
    /// transactions wait for a checkpoint.
    static let journalBytes = 2 * 48 * mebibyte
    /// Room taken behind the end of data.mdb for deletions. Source: the article Storage, "A full disk".
    static let reserveBytes = 32 * mebibyte
    /// Freed pages of data.mdb that a crash may need: those of 2000 transactions of seven pages, with a margin.
    /// Source: the article Storage, "Durability".
    static let freedBytes = 64 * mebibyte
    /// The room that a migration wants beside the files: a sixteenth of them and 64 MiB more than their bytes.
    /// Source: the article Operating, "Upgrade and back".
    static let migrationShare = 17.0 / 16
    static let migrationBytes = 64 * mebibyte

    // MARK: Processor time, in nanoseconds

    /// A delivery of a stored message that leaves alone, with its acknowledgement.
    /// Source: report, "Fanout", Martlet durable, N=10000 1024 B W=1: 9,737.
    static let deliveryNanoseconds = 9737.0
    /// What TLS adds to a delivery that leaves alone. Source: section `tls`, N=1000 128 B W=1, TTL 0, medians of six
    /// pairs: 1,430.
    static let sealNanoseconds = 1430.0
    /// A transaction with its fsync, and each message in it. With one message outstanding, a message costs 276.7 µs at
    /// 1,926 a second; with 256 outstanding 7.5 µs at 109,269 a second.
    /// Source: report, "Durable work over the wire".
    static let commitNanoseconds = 274_000.0
    static let acceptNanoseconds = 2700.0
    /// A now-or-never message: a turn of the loop, and each message in it. 53.0 µs at 9,178 a second with 1
    /// outstanding; 3.7 µs at 251,471 a second with 64. Source: report, "Messages that are not stored, accepted".
    static let turnNanoseconds = 51_000.0
    static let passNanoseconds = 1800.0
    /// What HTTP adds to a send: 302 µs less 47 over the binary protocol.
    /// Source: report, "Sends over HTTP", to a token, 16 at once.
    static let requestNanoseconds = 255_000.0
    /// A device that connects, takes a message and leaves. Source: report, "Devices that come back", a message each.
    static let connectNanoseconds = 41_548.0
    /// A full handshake of TLS, with its connection. Source: `bench-load --handshakes 3000`: 483 µs; resumed 399 µs.
    static let handshakeNanoseconds = 483_000.0

    // MARK: Rates a second

    /// Transactions. Source: report, "Durable work over the wire", 1 outstanding, with an fsync of 0.2 ms.
    static let commitsMax = 1926.0
    /// Turns with now-or-never messages. Source: report, the same cell as `turnNanoseconds`.
    static let turnsMax = 9178.0
    /// Stored messages. Source: report, "Durable work over the wire", 256 outstanding.
    static let storedMessagesMax = 109_269.0
    /// Transactions of acknowledgements: a loop hands them over every 50 ms. Source: the article Architecture.
    static let acknowledgementCommits = 20.0

    /// Bytes written to the disk for a transaction, and for each message in it. Source: report, "Durable work over the
    /// wire": 36,639 with 1 message outstanding, 2,777 a message with 256.
    static let commitBytes = 36_639.0
    static let acceptBytes = 2777.0

    // MARK: Margins

    /// The busy part of the cores at the peak: the rest is for the kernel's network, checkpoints and neighbours.
    static let busyShare = 0.5
    /// The smallest machine: a core for a loop, a core for the committer.
    static let coresMin = 2.0
    /// Connections of a loop, unless `--connections-per-loop` says otherwise.
    static let connectionsPerLoop = 65_536.0

    static let mebibyte = 1_048_576.0
    static let secondsPerDay = 86_400.0
}
