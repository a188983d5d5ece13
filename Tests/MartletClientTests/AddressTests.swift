// SPDX-License-Identifier: Apache-2.0
//
// A device tries a broker's addresses in turn, whatever is wrong with one of them, over real sockets (NET-7).

import MartletBase
import MartletClient
import MartletWire
import Testing

/// A broker with several addresses: only the test knows what each of them does.
private struct Addresses {
    let brokers: [FakeBroker]

    static func run(_ count: Int, _ test: (Addresses) async throws -> Void) async throws {
        var brokers: [FakeBroker] = []
        for _ in 0..<count { brokers.append(try await FakeBroker()) }
        do {
            try await test(Addresses(brokers: brokers))
        } catch {
            for broker in brokers { await broker.close() }
            throw error
        }
        for broker in brokers { await broker.close() }
    }

    private var fallbacks: [BrokerAddress] {
        brokers.dropFirst().map { BrokerAddress(host: "127.0.0.1", port: $0.port) }
    }

    func device() -> MartletDevice {
        var options = DeviceOptions()
        options.backoff = quickBackoff
        options.fallbacks = fallbacks
        return MartletDevice(
            host: "127.0.0.1", port: brokers[0].port,
            credentials: DeviceCredentials(projectID: "tides", token: "tok", deviceKey: "dev"),
            options: options)
    }

    func sender() -> MartletSender {
        var options = ClientOptions()
        options.backoff = quickBackoff
        options.attemptsMax = 2
        options.fallbacks = fallbacks
        return MartletSender(
            host: "127.0.0.1", port: brokers[0].port, projectID: "tides", serverKey: "key",
            options: options)
    }
}

/// Serves a sender's message.
private func serve(_ connection: FakeConnection) async {
    await connection.welcome()
    guard case .frame(.send(let request)) = await connection.next() else { return }
    connection.send(
        .accepted(Accepted(correlation: request.correlation, messageNumber: 1, recipients: 1)))
}

@Suite("The addresses of a broker", .timeLimit(.minutes(2))) struct AddressTests {
    @Test("NET-7 an address that accepts and then hangs up is followed by the next")
    func hangingUp() async throws {
        try await Addresses.run(3) { addresses in
            let sender = addresses.sender()
            async let result = sender.send(Message(data: ["k": "v"]), to: .token("t"))
            for broker in addresses.brokers.dropLast() { await broker.connection().close() }
            await serve(await addresses.brokers[2].connection())
            let sent = try await result
            #expect(sent.messageID == "projects/tides/messages/1")
            await sender.close()
        }
    }

    @Test("NET-7 an address that accepts and stays silent is followed by the next")
    func silence() async throws {
        try await Addresses.run(2) { addresses in
            let device = addresses.device()
            async let message = {
                var messages = device.messages.makeAsyncIterator()
                return try await messages.next()
            }()
            let silent = await addresses.brokers[0].connection()
            guard case .frame(.hello) = await silent.next() else {
                Issue.record("HELLO expected")
                return
            }
            let connection = await addresses.brokers[1].connection()
            #expect(await connection.welcome()?.role == .device)
            connection.deliver([7])
            let taken = try await message
            #expect(taken?["n"] == "7")
            #expect(await silent.next() == .closed)
            await device.close()
        }
    }

    @Test("NET-7 after a broker's refusal the next attempt begins with the next address")
    func refusals() async throws {
        try await Addresses.run(2) { addresses in
            let device = addresses.device()
            async let message = {
                var messages = device.messages.makeAsyncIterator()
                return try await messages.next()
            }()
            for index in [0, 1, 0] {
                let refusing = await addresses.brokers[index].connection()
                guard case .frame(.hello) = await refusing.next() else {
                    Issue.record("HELLO expected")
                    return
                }
                refusing.fail(.unavailable, retryDelay: 1)
                #expect(await refusing.next() == .closed)
            }
            let connection = await addresses.brokers[1].connection()
            await connection.welcome()
            connection.deliver([1])
            let taken = try await message
            #expect(taken?["n"] == "1")
            await device.close()
        }
    }

    @Test("NET-7 a client comes back to the address that answered last, and to the first after it")
    func memory() async throws {
        try await Addresses.run(2) { addresses in
            let device = addresses.device()
            async let message = {
                var messages = device.messages.makeAsyncIterator()
                return try await messages.next()
            }()
            await addresses.brokers[0].connection().close()
            let connection = await addresses.brokers[1].connection()
            await connection.welcome()
            connection.deliver([1])
            let taken = try await message
            #expect(taken?["n"] == "1")
            // The device drains with the broker, and comes back to the same address.
            connection.send(.draining(Draining(reconnectDelayMilliseconds: 1)))
            await connection.close()
            let again = await addresses.brokers[1].connection()
            guard case .frame(.hello) = await again.next() else {
                Issue.record("HELLO expected")
                return
            }
            await again.close()
            await addresses.brokers[0].connection().welcome()
            await device.close()
        }
    }

    @Test(
        "NET-7 a final refusal of one address ends the client, whatever other addresses there are")
    func finalRefusal() async throws {
        try await Addresses.run(2) { addresses in
            let sender = addresses.sender()
            async let error = refusal {
                _ = try await sender.send(Message(data: ["k": "v"]), to: .token("t"))
            }
            let connection = await addresses.brokers[0].connection()
            guard case .frame(.hello) = await connection.next() else {
                Issue.record("HELLO expected")
                return
            }
            connection.fail(.unauthenticated)
            #expect(await error?.word == .unauthenticated)
            await sender.close()
        }
    }

    @Test("NET-7 when no address answers, a request fails after as many rounds as it has attempts")
    func nobody() async throws {
        try await Addresses.run(2) { addresses in
            let sender = addresses.sender()
            async let error = refusal {
                _ = try await sender.send(Message(data: ["k": "v"]), to: .token("t"))
            }
            for _ in 0..<2 {
                for broker in addresses.brokers { await broker.connection().close() }
            }
            #expect(await error?.word == .unavailable)
            await sender.close()
        }
    }
}
