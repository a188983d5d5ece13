// SPDX-License-Identifier: Apache-2.0
//
// A page of a project's log that many devices read in one snapshot. Devices that come back together are mostly at the same
// place in the log. So the log's rows and the messages' records are read once for all of them, and each device costs a look
// at one bit per row. A page has no gaps, and grows as far as a device reads.
//
// It covers only the recipients' blobs. A device that has rows in the inbox, or single acknowledgements, reads its log on its
// own (`MailboxLog`), and so does one whose mailbox the rules may change. Rests on Schema.

package import MartletBase
import MartletBits
package import MartletEngine
package import MartletRows

/// A page of a project's log. It must end before the snapshot does.
package struct SharedLog: ~Copyable {
    /// What a reading found.
    package enum Found {
        /// The device must read its log on its own: the mailbox rules apply, it has entries outside the recipients' blobs, or
        /// a message would come late (TTL-4).
        case ruled
        /// How many entries there are; the messages to deliver are in `selected`. Unless `isEnd`, there may be more after
        /// `through`.
        case entries(Int, through: MessageSequence, isEnd: Bool)
    }

    private struct Row {
        let recipients: UnsafeRawBufferPointer
        let isDiscarded: Bool
        /// The block that `members` is of. Most readers of a page are in one block.
        var block = UInt32.max
        var members = BlockView.empty
        var record = UnsafeRawBufferPointer(start: nil, count: 0)
    }

    /// Most rows of a page: enough for devices that are at different places of the log.
    package static let rowsMaxDefault = 512

    private let inbox: Cursor
    private let singles: Cursor
    private let recipients: Cursor
    private let records: Cursor
    private let rowsMax: Int
    private let rows: UnsafeMutablePointer<Row>
    private var rowCount = 0
    /// The page's messages: for each row one per platform, in the order of the platforms.
    package let messages: UnsafeMutableBufferPointer<SharedMessage>
    /// What the last reader selected, as places in `messages`.
    private let selection: UnsafeMutablePointer<UInt32>
    /// How many messages the last reader selected.
    package private(set) var selectedCount = 0
    /// The page's project; nil before the first page.
    package private(set) var project: ProjectNumber?
    /// The first sequence of the page.
    private var first: MessageSequence = .none
    /// The log's next row after the page; nil at the end of the log.
    private var next: Cursor.Entry?
    /// Rows read from the store so far, over all pages.
    package private(set) var readCount = 0

    /// Opens cursors in a transaction, which must outlive the log.
    /// - Parameter rowsMax: most rows of a page.
    /// - Throws: `StorageError` if a cursor can't be opened.
    package init(
        _ transaction: borrowing Transaction, rowsMax: Int = rowsMaxDefault
    ) throws(StorageError) {
        let raw = transaction.raw
        let inbox = try Cursor(raw, .inbox)
        let singles = try Cursor(raw, .acknowledged)
        let recipients = try Cursor(raw, .recipients)
        let records = try Cursor(raw, .messages)
        self.inbox = inbox
        self.singles = singles
        self.recipients = recipients
        self.records = records
        self.rowsMax = rowsMax
        // One more, because two rows with the same sequence stay together.
        rows = .allocate(capacity: rowsMax + 1)
        messages = .allocate(capacity: (rowsMax + 1) * Platform.allCases.count)
        selection = .allocate(capacity: rowsMax + 1)
    }

    deinit {
        rows.deallocate()
        messages.deallocate()
        selection.deallocate()
    }

    /// The messages of the page so far, for all platforms.
    package var sharedMessages: UnsafeMutableBufferPointer<SharedMessage> {
        UnsafeMutableBufferPointer(rebasing: messages[..<(rowCount * Platform.allCases.count)])
    }

    /// The last reader's messages, as places in `messages`, in order.
    package var selected: UnsafeBufferPointer<UInt32> {
        UnsafeBufferPointer(start: selection, count: selectedCount)
    }

    /// Whether a reading can use this page.
    package func covers(_ reading: SharedReading) -> Bool {
        guard project == reading.owner.project, reading.after.rawValue + 1 >= first.rawValue else {
            return false
        }
        guard let next else { return true }
        let start = start(behind: reading.after)
        guard start == rowCount else { return start < rowsMax / 2 || rowCount < rowsMax }
        // The cursor is right after the page, because a page has no gaps.
        return rowCount < rowsMax && sequence(of: next) > reading.after
    }

    /// Begins a new page after a message. The last page's messages aren't shared any more.
    package mutating func begin(
        _ project: ProjectNumber, after: MessageSequence
    ) throws(StorageError) {
        self.project = project
        first = MessageSequence(after.rawValue + 1)
        rowCount = 0
        next = own(try recipients.seek(.sequence(first, in: project)))
    }

    /// Selects a device's messages from at most `rowsMax` rows, or one more if two rows have the last sequence.
    /// - Throws: `StorageError` if the store can't be read or a row is damaged.
    package mutating func read(
        _ reading: SharedReading, now: Instant, rowsMax limit: Int
    ) throws(StorageError) -> Found {
        selectedCount = 0
        let owner = reading.owner
        guard try !hasOwnRows(owner, after: reading.after) else { return .ruled }
        let (block, bit) = (owner.ordinal.blockIndex, owner.ordinal.bitIndex)
        let places = messages.baseAddress!
        let platform = Int(owner.platform.rawValue) - 1
        let normal = reading.marks[Lane(.normal, isCollapsible: false)]
        let high = reading.marks[Lane(.high, isCollapsible: false)]
        var at = start(behind: reading.after)
        let end = min(at + limit, rowsMax)
        var entries = 0
        while true {
            if at == rowCount {
                guard let next else {
                    return .entries(entries, through: through, isEnd: true)
                }
                let isSecond = at > 0 && sequence(of: next) == through
                guard at < end || isSecond else {
                    return .entries(entries, through: through, isEnd: false)
                }
                try append(next)
            } else if at >= end, at > 0, self.sequence(at) != self.sequence(at - 1) {
                return .entries(entries, through: self.sequence(at - 1), isEnd: false)
            }
            assert(at < rowCount, "A reading looks at rows of the page.")
            let row = rows + at
            if row.pointee.block != block {
                guard let set = CheckedRecipientSet(row.pointee.recipients),
                    let members = set.view(ofBlock: block)
                else { throw RecordReader(row.pointee.recipients, of: .recipients).damaged() }
                row.pointee.members = members
                row.pointee.block = block
            }
            let place = at * Platform.allCases.count + platform
            at += 1
            guard row.pointee.members.contains(bit: bit) else { continue }
            let message = places + place
            if message.pointee.state == .unread { try load(row, message, owner.platform) }
            switch message.pointee.state {
            case .unread, .absent: continue
            case .ruled: return .ruled
            case .dropped:
                entries += 1
                continue
            case .plain: entries += 1
            }
            let sequence = message.pointee.sequence
            guard message.pointee.expires > now, sequence > (message.pointee.isHigh ? high : normal)
            else { continue }
            guard sequence > reading.highest else { return .ruled }
            invariant(selectedCount <= rowsMax, "A reading selects rows of the page.")
            selection[selectedCount] = UInt32(truncatingIfNeeded: place)
            selectedCount += 1
        }
    }

    /// Calls `body` with a selected message, in a platform's form.
    package func withMessage<Result>(
        at place: UInt32, on platform: Platform, _ body: (borrowing PendingMessage) -> Result
    ) throws(StorageError) -> Result {
        invariant(
            Int(place) < rowCount * Platform.allCases.count, "A selected message lies in the page.")
        let record = try MessageRecord(rows[Int(place) / Platform.allCases.count].record)
        guard let variant = try record.variant(on: platform) else {
            throw MessageRecord.damaged(record.bytes)
        }
        return body(try record.pending(messages[Int(place)].sequence, variant))
    }

    // MARK: Rows

    /// Whether the device has rows in the inbox or single acknowledgements.
    private func hasOwnRows(
        _ owner: MailboxOwner, after: MessageSequence
    ) throws(StorageError) -> Bool {
        let prefix = Key.ordinal(owner.ordinal, in: owner.project)
        let first = MessageSequence(after.rawValue + 1)
        if let entry = try inbox.seek(.inbox(owner.ordinal, first, in: owner.project)),
            prefix.isPrefix(of: entry.key)
        {
            return true
        }
        guard let entry = try singles.seek(prefix) else { return false }
        return prefix.isPrefix(of: entry.key)
    }

    private mutating func append(_ entry: Cursor.Entry) throws(StorageError) {
        invariant(rowCount <= rowsMax, "A page of a log is bounded.")
        invariant(
            self.sequence(of: entry) >= through, "A page has the rows of a log in their order.")
        (rows + rowCount).initialize(
            to: Row(recipients: entry.value, isDiscarded: entry.key.count == 13))
        let sequence = sequence(of: entry)
        for platform in Platform.allCases.indices {
            (messages.baseAddress! + rowCount * Platform.allCases.count + platform).initialize(
                to: SharedMessage(sequence))
        }
        rowCount += 1
        readCount += 1
        next = own(try recipients.next())
    }

    private func load(
        _ row: UnsafeMutablePointer<Row>, _ message: UnsafeMutablePointer<SharedMessage>,
        _ platform: Platform
    ) throws(StorageError) {
        message.pointee.state = .absent
        if row.pointee.record.isEmpty {
            let key = Key.log(
                LogRow(message.pointee.sequence, isDiscarded: row.pointee.isDiscarded),
                in: project!)
            guard let found = try records.value(of: key) else { return }
            row.pointee.record = found
        }
        let record = try MessageRecord(row.pointee.record)
        guard let variant = try record.variant(on: platform) else { return }
        message.pointee.expires = variant.expires
        message.pointee.isHigh = variant.priority == .high
        if row.pointee.isDiscarded || variant.collapse != .none {
            message.pointee.state = .ruled
        } else {
            message.pointee.state = record.flags.contains(.isDropped) ? .dropped : .plain
        }
    }

    private func own(_ entry: Cursor.Entry?) -> Cursor.Entry? {
        guard let entry, Key(project!).isPrefix(of: entry.key) else { return nil }
        return entry
    }

    private func sequence(of entry: Cursor.Entry) -> MessageSequence {
        entry.key.sequence
    }

    private func sequence(_ row: Int) -> MessageSequence {
        messages[row * Platform.allCases.count].sequence
    }

    /// The page's last sequence, or the one before it if it is empty.
    private var through: MessageSequence {
        rowCount > 0 ? sequence(rowCount - 1) : MessageSequence(first.rawValue - 1)
    }

    /// The page's first row after a message.
    private func start(behind after: MessageSequence) -> Int {
        var low = 0
        var high = rowCount
        while low < high {
            let middle = (low + high) >> 1
            if sequence(middle) <= after { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
