// SPDX-License-Identifier: Apache-2.0
//
// A sender's commands for accepted messages, `martlet cancel` (MSG-10) and `martlet receipts` (RCP-1), and a device's
// command for a new token, `martlet rotate` (REG-4). Rests on SenderScope and MartletDevice.

import ArgumentParser
import Martlet
import MartletAnswers
import MartletClient
import Synchronization

struct CancelCommand: SenderCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel",
        abstract: "Cancel a message: whoever has not got it does not get it.",
        discussion: "A scheduled message is not sent at all.")

    @Argument(help: "The message ID, as `martlet send` printed it, or its number.")
    var messageID: String

    @OptionGroup var sender: SenderScope

    func perform() async throws {
        let summary = try await sender.ask { try await $0.cancel(messageID) }
        sender.note("message.cancel", messageID)
        let answer = CancelAnswer(
            messageID: messageID, wasScheduled: summary.wasScheduled,
            delivered: summary.deliveredCount)
        if output.json { return JSON.print(answer) }
        let instances =
            answer.delivered == 1 ? "1 instance has" : "\(answer.delivered) instances have"
        Terminal.print(
            answer.wasScheduled
                ? "cancelled; it had not been sent" : "cancelled; \(instances) it already")
    }
}

struct ReceiptsCommand: SenderCommand {
    static let configuration = CommandConfiguration(
        commandName: "receipts",
        abstract: "Print what became of messages that were sent with --receipts, as it comes.",
        discussion: """
            Begins with what nobody has taken yet. A receipt is taken once it is printed, and does not \
            come again. Ctrl-C ends with 0.
            """)

    @Option(parsing: .unconditional, help: "End after so many receipts, 1 or more.")
    var count: Int?

    @OptionGroup var sender: SenderScope

    func validate() throws {
        guard count ?? 1 > 0 else { throw ValidationError("--count takes at least 1.") }
    }

    func perform() async throws {
        let isJSON = output.json
        try await sender.take(count) { sender, left in
            try await sender.takeReceipts {
                let answer = ReceiptAnswer($0)
                Terminal.print(isJSON ? JSON.line(answer) : Self.text(answer))
                // A receipt that nobody can read is not taken.
                try Terminal.requirePrinted()
                return left.step()
            }
        }
    }

    private static func text(_ receipt: ReceiptAnswer) -> String {
        let instant = Martlet.Instant(millisecondsSince1970: receipt.instant).iso8601
        return "\(instant)  \(receipt.kind)  \(receipt.messageID)  \(receipt.token)"
    }
}

/// Counts the results still wanted.
final class Countdown: Sendable {
    private let left: Mutex<Int>

    init(from count: Int) { left = Mutex(count) }

    /// Counts a result.
    /// - Returns: whether more results are wanted.
    func step() -> Bool {
        left.withLock { left in
            left -= 1
            return left > 0
        }
    }
}

struct RotateCommand: ReportingCommand {
    static let configuration = CommandConfiguration(
        commandName: "rotate",
        abstract: "Give a device of `martlet listen` another token.",
        discussion: """
            The old token is not registered any more; subscriptions and stored messages stay. The device \
            must not listen at the same time.
            """)

    @Argument(help: ArgumentHelp("The device's state file.", valueName: "path"))
    var state: String

    @Option(parsing: .unconditional, help: "The broker's address.")
    var host = "127.0.0.1"

    @Option(parsing: .unconditional, help: "The broker's port, 1 to 65535.")
    var port = Limits.defaultPort

    @OptionGroup var tls: ClientTLSOptions

    @OptionGroup var output: OutputOptions

    private struct Answer: Encodable {
        var token: String
    }

    func validate() throws {
        guard (1...65_535).contains(port) else {
            throw ValidationError("--port takes a number from 1 to 65535.")
        }
    }

    func perform() async throws {
        let token = try await rotated()
        if output.json { return JSON.print(Answer(token: token)) }
        Terminal.print("Token \(token)")
    }

    /// REG-4: gives the device a new token. Messages that come meanwhile are not taken, and come again.
    private func rotated() async throws -> String {
        let file = DeviceStateFile(path: state)
        guard let stored = try file.load() else {
            throw MartletError(
                .notFound, "There is no '\(state)'; `martlet listen` makes one.", field: "state")
        }
        let device = MartletDevice(
            host: host, port: port, stored: stored, store: file,
            options: try tls.applied(to: DeviceOptions()))
        do {
            let token = try await device.rotateToken()
            await device.close()
            return token
        } catch {
            await device.close()
            throw error
        }
    }
}

private struct ReceiptAnswer: Encodable {
    var messageID: String
    var token: String
    var kind: String
    /// Milliseconds since 1970.
    var instant: Int64

    init(_ receipt: DeliveryReceipt) {
        messageID = receipt.messageID
        token = receipt.token
        kind = receipt.kind.name
        instant = receipt.instant.millisecondsSince1970
    }
}
