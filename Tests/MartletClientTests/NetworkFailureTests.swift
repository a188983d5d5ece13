// SPDX-License-Identifier: Apache-2.0
//
// Why a connection fails, as people read it: the system's words, without the calls, types and numbers of SwiftNIO.

import MartletBase
import MartletClient
import NIOCore
import Testing

@Suite(.timeLimit(.minutes(2))) struct NetworkFailureTests {
    @Test(
        "OPS-1 what SwiftNIO reports becomes words",
        arguments: [
            (IOError(errnoCode: 111, reason: "connection reset (error set)"), "Connection refused"),
            (IOError(errnoCode: 104, reason: "read(descriptor:)"), "Connection reset by peer"),
            (ChannelError.connectTimeout(.seconds(10)), "no answer within 10 s"),
            (ChannelError.alreadyClosed, "the connection is closed"),
        ] as [(any Error, String)])
    func words(error: any Error, words: String) {
        #expect(NetworkFailure.words(error) == words)
    }

    @Test(
        "OPS-1 a sender that reaches no broker says where and why",
        arguments: [
            ("127.0.0.1", "(Connection refused)"), ("nobody.invalid", "nobody.invalid"),
        ])
    func unreachable(host: String, reason: String) async throws {
        // A port on which nobody listens: it is reserved, and a stranger would need root.
        var options = ClientOptions()
        options.attemptsMax = 1
        let sender = MartletSender(
            host: host, port: 1, projectID: "tides", serverKey: "key", options: options)
        let error = await #expect(throws: MartletError.self) {
            try await sender.send(Message(data: ["k": "v"]), to: .token("t"))
        }
        let message = error?.message ?? ""
        #expect(message.contains(reason) && message.hasSuffix("is a broker there?"))
        for raw in ["errno", "error set", "SocketAddressError", "NIO", "(error"] {
            #expect(!message.contains(raw), "\(message)")
        }
        await sender.close()
    }
}
