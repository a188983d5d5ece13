// SPDX-License-Identifier: Apache-2.0
//
// What goes on while a broker is killed: the process itself, devices that change their subscriptions, and
// senders. Each remembers what was answered and what was still open. Rests on WireClient and the built
// `martlet`.

import Foundation
import Glibc
import MartletBase
import MartletWire
import Synchronization
import Testing

/// A `martlet serve` of its own process.
final class Server {
    let process: Process
    let port: UInt16

    init(folder: String) throws {
        process = Self.process(folder)
        let output = Pipe()
        process.standardOutput = output
        let errors = Pipe()
        process.standardError = errors
        try process.run()
        struct Ready: Decodable { var port: UInt16 }
        var line = Data()
        while !line.contains(UInt8(ascii: "}")) {
            let more = output.fileHandleForReading.availableData
            guard !more.isEmpty else {
                let said = String(
                    decoding: errors.fileHandleForReading.availableData, as: UTF8.self)
                throw WireClient.Failure(text: "martlet serve ended before it listened: \(said)")
            }
            line += more
        }
        port = try JSONDecoder().decode(Ready.self, from: line).port
    }

    private static func process(_ folder: String) -> Process {
        let process = Process()
        process.executableURL = Desk.executable
        // What is asked here is that nothing is lost; limits are for losing some of it.
        let limits = [
            "stored-per-instance-max", "collapsible-burst", "device-messages-per-minute",
            "device-messages-per-hour", "topic-changes-per-second", "device-topic-burst",
        ].flatMap { ["--limit", $0 + "=0"] }
        process.arguments =
            ["serve", "--data", folder, "--port", "0", "--loops", "2", "--json"] + limits
        return process
    }

    /// One that is killed while it starts, or soon after.
    static func startAndKill(folder: String, after microseconds: UInt32) throws {
        let process = process(folder)
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        usleep(microseconds)
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    func kill9() {
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    deinit { if process.isRunning { kill9() } }
}

/// What was sent, and to whom it has to go.
struct Sent: Sendable, CustomStringConvertible {
    var id: String
    var recipients: Set<Int>
    /// What it replaces.
    var key = ""
    /// Until then it has to be there, in milliseconds since 1970.
    var lives = Int64.max
    /// From then on it must not be there.
    var dies = Int64.max
    /// When it is to be sent.
    var due = Int64.min
    /// In its message ID; known once it was accepted.
    var number: UInt64?

    var isScheduled: Bool { due > .min }

    var description: String {
        "\(id) for \(recipients.count), key '\(key)', lives to \(lives), due \(due), number "
            + "\(number ?? 0)"
    }
}

/// Milliseconds since 1970.
var wallClock: Int64 { Int64(Date().timeIntervalSince1970 * 1000) }

/// One connection under load. Used by its thread alone until that has ended.
class Load: @unchecked Sendable {
    var trouble: (any Error)?
    /// Requests that were answered, as far as they are counted; -1: none will be any more.
    let answeredCount = Atomic(0)

    func run(_ port: UInt16) throws {}

    func start(_ port: UInt16, _ group: DispatchGroup) {
        group.enter()
        let thread = Thread {
            do { try self.run(port) } catch { self.trouble = error }
            self.answeredCount.store(-1, ordering: .releasing)
            group.leave()
        }
        thread.start()
    }

    /// Waits until so many requests were answered.
    func wait(forAnswers count: Int) {
        while 0..<count ~= answeredCount.load(ordering: .acquiring) { usleep(500) }
    }
}

/// A device that subscribes and unsubscribes itself, one change at a time, and now and then acknowledges
/// what it gets meanwhile.
final class DeviceLoad: Load, @unchecked Sendable {
    let hello: Hello
    /// Acknowledged.
    var topics: Set<String>
    /// Sent, and not answered before the end.
    var open: (topic: String, operation: TopicOperation)?
    /// What it got, in that order.
    var got: [Deliver] = []
    /// How many of these it has acknowledged.
    var acknowledgedCount = 0

    init(_ hello: Hello, topics: Set<String>) {
        self.hello = hello
        self.topics = topics
    }

    override func run(_ port: UInt16) throws {
        let client = try WireClient(port: port)
        guard try client.hello(hello) else { return }
        var correlation: UInt32 = 0
        while true {
            correlation += 1
            let topic = "churn-\(Int.random(in: 0..<8))"
            let operation: TopicOperation = Bool.random() ? .subscribe : .unsubscribe
            open = (topic, operation)
            guard
                client.send(
                    DeviceTopicsRequest(
                        operation: operation, correlation: correlation, topics: [topic]))
            else { return }
            waiting: while true {
                switch try client.receive() {
                case nil: return
                case .topicResult(let result):
                    #expect(result.correlation == correlation && result.failures.isEmpty)
                    break waiting
                case .deliver(let delivery): take(delivery, client)
                case .ping, .confirmed: break
                case .some(let other): throw WireClient.Failure(text: "\(other)")
                }
            }
            open = nil
            if operation == .subscribe { topics.insert(topic) } else { topics.remove(topic) }
        }
    }

    private func take(_ delivery: Deliver, _ client: WireClient) {
        got.append(delivery)
        guard delivery.isStored, Int.random(in: 0..<100) == 0 else { return }
        acknowledgedCount = got.count
        client.send(Acknowledge(through: delivery.streamID))
    }
}

/// A sender that changes one topic for many devices at a time.
final class BatchLoad: Load, @unchecked Sendable {
    let hello: Hello
    let tokens: [String]
    var topics: Set<String>
    var open: (topic: String, operation: TopicOperation)?

    init(_ hello: Hello, tokens: [String], topics: Set<String>) {
        self.hello = hello
        self.tokens = tokens
        self.topics = topics
    }

    override func run(_ port: UInt16) throws {
        let client = try WireClient(port: port)
        guard try client.hello(hello) else { return }
        var correlation: UInt32 = 0
        while true {
            correlation += 1
            let topic = "batch-\(Int.random(in: 0..<4))"
            let operation: TopicOperation = Bool.random() ? .subscribe : .unsubscribe
            open = (topic, operation)
            let request = ChangeTopicRequest(
                correlation: correlation, operation: operation, topic: topic, tokens: tokens)
            guard client.send(request) else { return }
            guard let answer = try client.receive() else { return }
            guard case .topicResult(let result) = answer else {
                throw WireClient.Failure(text: "\(answer)")
            }
            #expect(Int(result.successes) == tokens.count)
            open = nil
            if operation == .subscribe { topics.insert(topic) } else { topics.remove(topic) }
        }
    }
}

/// A sender with several sends outstanding.
final class SendLoad: Load, @unchecked Sendable {
    let hello: Hello
    let cycle: Int
    let tokens: [String]
    var accepted: [Sent] = []
    var open: [UInt32: Sent] = [:]

    init(_ hello: Hello, cycle: Int, tokens: [String]) {
        self.hello = hello
        self.cycle = cycle
        self.tokens = tokens
    }

    override func run(_ port: UInt16) throws {
        let client = try WireClient(port: port)
        guard try client.hello(hello) else { return }
        var correlation: UInt32 = 0
        while true {
            while open.count < 8 {
                correlation += 1
                let (target, recipients) = makeTarget()
                let id = "\(cycle)-\(correlation)"
                let message = try Message(data: ["id": id]).encoded()
                open[correlation] = Sent(id: id, recipients: recipients)
                let request = SendRequest(
                    correlation: correlation, target: target, message: message)
                guard client.send(request) else { return }
            }
            guard let answer = try client.receive() else { return }
            guard case .accepted(let acceptance) = answer,
                var sent = open.removeValue(forKey: acceptance.correlation)
            else { throw WireClient.Failure(text: "\(answer)") }
            #expect(Int(acceptance.recipients) == sent.recipients.count)
            sent.number = acceptance.messageNumber
            accepted.append(sent)
        }
    }

    private func makeTarget() -> (MessageTarget, Set<Int>) {
        let all = tokens.indices
        switch Int.random(in: 0..<5) {
        case 0, 1:
            let index = Int.random(in: all)
            return (.token(tokens[index]), [index])
        case 2: return (.topic("all"), Set(all))
        case 3: return (.topic("even"), Set(all.filter { $0 % 2 == 0 }))
        default:
            return (
                .condition("'even' in topics && !('third' in topics)"),
                Set(all.filter { $0 % 2 == 0 && $0 % 3 != 0 })
            )
        }
    }
}

/// A sender that uses what mailboxes do with messages. One request at a time, so that the order in which
/// they were accepted is known.
final class MailboxLoad: Load, @unchecked Sendable {
    enum Use: CaseIterable {
        case keyed, shortLived, nowOrNever, urgent, reported, scheduled
        case cancelled, cancelledBeforeItIsDue
    }

    /// Not answered before the end.
    struct Open {
        var use: Use
        var request: SendRequest
        var sent: Sent
    }

    /// So few that a broker sends all that are due in one step, however many processes were killed.
    private static let scheduledMax = 4
    /// Instances that get messages with collapse keys: so few that most are replaced.
    private static let keyed = 10..<14

    let hello: Hello
    let cycle: Int
    let tokens: [String]
    /// MSG-9: what the last process did not answer is asked again.
    private let again: Open?
    /// In the order of their acceptance.
    var accepted: [Sent] = []
    var open: Open?
    /// No connection that begins now may bring them.
    var gone: Set<String> = []
    /// Cancelled, or not: nobody was told.
    var loose: Set<String> = []
    /// What was due then had been sent.
    var dueThrough = Int64.min
    private var scheduledCount = 0

    init(_ hello: Hello, cycle: Int, tokens: [String], again: Open?) {
        self.hello = hello
        self.cycle = cycle
        self.tokens = tokens
        self.again = again
        open = again
    }

    override func run(_ port: UInt16) throws {
        let client = try WireClient(port: port)
        guard try client.hello(hello) else { return }
        if let again {
            guard try send(again, client) else { return }
        }
        var correlation: UInt32 = 0
        while let use = Use.allCases.randomElement() {
            if use == .scheduled {
                guard scheduledCount < Self.scheduledMax else { continue }
                scheduledCount += 1
            }
            correlation += 1
            guard try send(make(use, correlation), client) else { return }
        }
    }

    /// False if the broker is gone.
    private func send(_ next: Open, _ client: WireClient) throws -> Bool {
        let began = wallClock
        var sent = next.sent
        open = next
        if next.use == .nowOrNever { gone.insert(sent.id) }
        guard client.send(next.request), let answer = try client.receive() else { return false }
        guard case .accepted(let acceptance) = answer else {
            throw WireClient.Failure(text: "\(answer)")
        }
        if !sent.isScheduled {
            #expect(Int(acceptance.recipients) == sent.recipients.count)
        }
        if let seconds = next.request.timeToLiveSeconds {
            sent.dies = wallClock + Int64(seconds) * 1000
        }
        sent.number = acceptance.messageNumber
        accepted.append(sent)
        open = nil
        dueThrough = began
        answeredCount.add(1, ordering: .releasing)
        guard next.use == .cancelled || next.use == .cancelledBeforeItIsDue else { return true }
        loose.insert(sent.id)
        let cancel = CancelRequest(
            correlation: next.request.correlation, messageNumber: acceptance.messageNumber)
        guard client.send(cancel), let answer = try client.receive() else { return false }
        switch answer {
        case .answer where answer.answer(as: Cancelled.self) != nil:
            gone.insert(sent.id)
            loose.remove(sent.id)
        // Who it was for may have acknowledged what the last process accepted.
        case .error where again?.sent.id == sent.id: break
        default: throw WireClient.Failure(text: "\(answer)")
        }
        return true
    }

    private func make(_ use: Use, _ correlation: UInt32) throws -> Open {
        let index = Int.random(in: tokens.indices)
        var sent = Sent(id: "\(cycle)-m\(correlation)", recipients: [index])
        var request = SendRequest(
            correlation: correlation, target: .token(tokens[index]),
            message: try Message(data: ["id": sent.id]).encoded(), idempotencyKey: sent.id)
        switch use {
        case .keyed:
            let index = Self.keyed.randomElement()!
            request.target = .token(tokens[index])
            sent.recipients = [index]
            request.collapseKey = "key \(Int.random(in: 0..<3))"
            sent.key = request.collapseKey
        case .shortLived:
            request.timeToLiveSeconds = 1
            sent.lives = wallClock + 1000
        case .nowOrNever: request.timeToLiveSeconds = 0
        case .urgent: request.priority = .high
        case .reported:
            request.options.wantsReceipts = true
            request.target = .topic("even")
            sent.recipients = Set(tokens.indices.filter { $0 % 2 == 0 })
        case .scheduled, .cancelled:
            request.target = .topic("third")
            sent.recipients = Set(tokens.indices.filter { $0 % 3 == 0 })
            // Some while this process runs, some after several others.
            if use == .scheduled { sent.due = wallClock + Int64.random(in: 0...1500) }
        case .cancelledBeforeItIsDue: sent.due = wallClock + 300
        }
        if sent.isScheduled { request.sendAt = Instant(millisecondsSince1970: sent.due) }
        return Open(use: use, request: request, sent: sent)
    }
}
