// SPDX-License-Identifier: Apache-2.0
//
// Remembers the IDs that app servers gave their messages, so that receipts can name them (RCP-1): a device's receipt names
// the broker's number of the message, and the app server knows only its own ID. To survive a restart the IDs are also in the
// file `xmpp.receipts` of the data folder, one per line:
//
//     NUMBER END PROJECT ID        END in milliseconds since 1970, ID in Base64
//
// A line is written before the app server hears that its message was accepted, but not synced: if the process is killed,
// the kernel still has it. If the machine crashes, the last lines may be missing, and receipts of those messages name the
// broker's number instead. Half a line at the end is skipped. Rests on PrivateFile.

import Glibc
import Logging
import Martlet
import MartletFiles
import Synchronization

/// The IDs of sent messages, by the broker's number of the message.
final class MessageNames: Sendable {
    private struct Key: Hashable {
        var project: String
        var number: UInt64
    }

    private struct Name {
        var id: String
        var end: Instant
    }

    private struct State {
        var names: [Key: Name] = [:]
        /// In the order in which they were sent, including some that have ended.
        var order: ArraySlice<Key> = []
        /// How many names each project has, including ended ones.
        var counts: [String: Int] = [:]
        var descriptor: Int32 = -1
        /// Lines in the file.
        var lineCount = 0
    }

    private let path: String
    private let most: Int
    private let logger: Logger
    private let state = Mutex(State())

    /// - Parameters:
    ///   - folder: the data folder.
    ///   - most: how many names to keep; beyond that the oldest go first.
    init(in folder: String, most: Int = XMPPLimits.namesMax, now: Instant, _ logger: Logger) {
        path = folder + "/xmpp.receipts"
        self.most = most
        self.logger = logger
        state.withLock { state in
            for line in Self.lines(path) { take(line, now, &state) }
            write(&state)
        }
    }

    deinit { state.withLock { state in if state.descriptor >= 0 { close(state.descriptor) } } }

    /// Notes the ID of a message.
    /// - Parameter end: after this instant we expect no more receipts for the message.
    func note(_ id: String, of number: UInt64, in project: String, until end: Instant, now: Instant)
    {
        state.withLock { state in
            let key = Key(project: project, number: number)
            add(Name(id: id, end: end), key, now, &state)
            append(Self.line(key, Name(id: id, end: end)), &state)
            if state.lineCount > 2 * max(state.names.count, 1024) { write(&state) }
        }
    }

    /// The ID of a message; nil if it wasn't sent over XMPP or has been forgotten.
    func name(of number: UInt64, in project: String) -> String? {
        state.withLock { $0.names[Key(project: project, number: number)]?.id }
    }

    /// Whether the project still expects receipts.
    func expects(_ project: String, now: Instant) -> Bool {
        state.withLock { state in
            forget(now, &state)
            return state.counts[project] != nil
        }
    }

    // MARK: Memory

    private func add(_ name: Name, _ key: Key, _ now: Instant, _ state: inout State) {
        if state.names.updateValue(name, forKey: key) == nil {
            state.counts[key.project, default: 0] += 1
            state.order.append(key)
        }
        forget(now, &state)
    }

    /// Forgets the oldest names while they have ended or there are too many.
    private func forget(_ now: Instant, _ state: inout State) {
        while let first = state.order.first {
            let hasEnded = state.names[first].map { $0.end < now } ?? true
            guard hasEnded || state.names.count > most else { break }
            state.order.removeFirst()
            guard state.names.removeValue(forKey: first) != nil else { continue }
            let count = (state.counts[first.project] ?? 1) - 1
            state.counts[first.project] = count > 0 ? count : nil
        }
    }

    // MARK: The file

    private static func line(_ key: Key, _ name: Name) -> [UInt8] {
        let id = Base64URL.encode(Array(name.id.utf8))
        return Array("\(key.number) \(name.end.millisecondsSince1970) \(key.project) \(id)\n".utf8)
    }

    private func take(_ line: ArraySlice<UInt8>, _ now: Instant, _ state: inout State) {
        let words = line.split(separator: UInt8(ascii: " "))
            .map { String(decoding: $0, as: UTF8.self) }
        guard words.count == 4, let number = UInt64(words[0]), let end = Int64(words[1]),
            let bytes = Base64URL.decode(words[3]),
            let id = String(validating: bytes, as: UTF8.self)
        else { return }
        let name = Name(id: id, end: Instant(millisecondsSince1970: end))
        guard name.end >= now else { return }
        add(name, Key(project: words[2], number: number), now, &state)
    }

    /// The whole lines of a file.
    private static func lines(_ path: String) -> [ArraySlice<UInt8>] {
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return [] }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(descriptor, &piece, piece.count)
            guard count > 0 else { break }
            bytes += piece.prefix(count)
        }
        let end = bytes.lastIndex(of: UInt8(ascii: "\n")) ?? 0
        return bytes[..<end].split(separator: UInt8(ascii: "\n"))
    }

    private func append(_ line: [UInt8], _ state: inout State) {
        guard state.descriptor >= 0 else { return }
        guard Glibc.write(state.descriptor, line, line.count) == line.count else {
            return fail("write", String(cString: strerror(errno)), &state)
        }
        state.lineCount += 1
    }

    /// Rewrites the file with just the names that we still have.
    private func write(_ state: inout State) {
        if state.descriptor >= 0 { close(state.descriptor) }
        state.descriptor = -1
        state.lineCount = 0
        var bytes: [UInt8] = []
        for key in state.order {
            guard let name = state.names[key] else { continue }
            bytes += Self.line(key, name)
            state.lineCount += 1
        }
        // No fsync: this runs on threads that serve, and the lines aren't synced either.
        do throws(PrivateFile.Failure) {
            state.descriptor = try PrivateFile.replace(path, with: bytes, isSynced: false)
                .leaveOpen()
        } catch {
            fail("replace", error.text, &state)
        }
    }

    /// Gives up on the file and goes on without. After a restart receipts name the broker's numbers.
    private func fail(_ operation: String, _ reason: String, _ state: inout State) {
        if state.descriptor >= 0 { close(state.descriptor) }
        state.descriptor = -1
        logger.error(
            "receipts after a restart will not name the IDs of app servers",
            metadata: ["file": "\(path)", "operation": "\(operation)", "reason": "\(reason)"])
    }
}
