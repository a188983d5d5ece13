// SPDX-License-Identifier: Apache-2.0
//
// Senders and administrators over real sockets: answers in any order, typed refusals, and what
// happens to requests when a connection is lost.

import MartletBase
import MartletClient
import MartletWire
import Testing

private var options: ClientOptions {
    var options = ClientOptions()
    options.backoff = quickBackoff
    options.heartbeat = .seconds(3600)
    return options
}

private func sender(_ broker: FakeBroker) -> MartletSender {
    MartletSender(
        host: "127.0.0.1", port: broker.port, projectID: "tides", serverKey: "key",
        options: options)
}

private func nextSend(_ connection: FakeConnection) async -> SendRequest? {
    guard case .frame(.send(let request)) = await connection.next() else { return nil }
    return request
}

private func accept(_ request: SendRequest?, number: UInt64, on connection: FakeConnection) {
    guard let request else {
        Issue.record("SEND expected")
        return
    }
    connection.send(
        .accepted(
            Accepted(correlation: request.correlation, messageNumber: number, recipients: 1)))
}

@Suite(.timeLimit(.minutes(2))) struct SenderTests {
    @Test("MSG-6 a message goes out as asked for, and its ID comes back")
    func send() async throws {
        try await FakeBroker.run { broker in
            let sender = sender(broker)
            let message = Message(notification: .init(title: "Hi"), data: ["k": "v"])
            async let result = sender.send(
                message, to: .condition("'a' in topics"), timeToLiveSeconds: 60, priority: .high)
            let connection = await broker.connection()
            #expect(await connection.welcome() == .sender(projectID: "tides", serverKey: "key"))
            let request = await nextSend(connection)
            #expect(request?.target == .condition("'a' in topics"))
            #expect(request?.timeToLiveSeconds == 60 && request?.priority == .high)
            #expect(try request?.message == message.encoded())
            accept(request, number: 42, on: connection)
            let awaitedResult = try await result
            #expect(awaitedResult.messageID == "projects/tides/messages/42")

            async let validated = sender.send(message, to: .token("t"), validateOnly: true)
            let check = await nextSend(connection)
            #expect(check?.validateOnly == true)
            accept(check, number: 0, on: connection)
            let awaitedValidated = try await validated
            #expect(awaitedValidated.messageID == nil)
            await sender.close()
            #expect(await connection.next() == .closed)
            #expect(await refusal { try await sender.connect() }?.word == .unavailable)
        }
    }

    @Test("NET-1 answers may come in any order")
    func outOfOrder() async throws {
        try await FakeBroker.run { broker in
            let sender = sender(broker)
            async let numbers = withThrowingTaskGroup(of: (Int, UInt64).self) { group in
                for index in 0..<100 {
                    group.addTask {
                        let result = try await sender.send(Message(), to: .topic("t\(index)"))
                        return (index, result.messageNumber)
                    }
                }
                var numbers: [Int: UInt64] = [:]
                for try await (index, number) in group { numbers[index] = number }
                return numbers
            }
            let connection = await broker.connection()
            await connection.welcome()
            var requests: [SendRequest] = []
            while requests.count < 100, let request = await nextSend(connection) {
                requests.append(request)
            }
            #expect(Set(requests.map(\.correlation)).count == 100)
            for request in requests.reversed() {
                let number = UInt64(request.target.text.dropFirst()) ?? .max
                accept(request, number: number + 1000, on: connection)
            }
            let result = try await numbers
            #expect(result.count == 100)
            #expect(result.allSatisfy { $0.value == UInt64($0.key) + 1000 })
            await sender.close()
        }
    }

    @Test("NET-1 an ERROR is thrown to whoever asked, with all it says, and nobody else notices")
    func typedErrors() async throws {
        try await FakeBroker.run { broker in
            let sender = sender(broker)
            let expected = MartletError(
                .invalidArgument, "Write && or ||.", field: "condition", byteOffset: 17,
                retryDelayMilliseconds: 9)
            async let error = refusal { _ = try await sender.audience(of: "bad") }
            let connection = await broker.connection()
            await connection.welcome()
            guard case .frame(let question) = await connection.next() else { return }
            async let result = sender.send(Message(), to: .topic("t"))
            let request = await nextSend(connection)
            connection.send(
                .error(ErrorFrame(correlation: question.correlation ?? 0, error: expected)))
            #expect(await error == expected)
            accept(request, number: 1, on: connection)
            let awaitedResult = try await result
            #expect(awaitedResult.messageNumber == 1)
            await sender.close()
        }
    }

    @Test("REG-5 a wrong key is refused at once and not tried again")
    func wrongKey() async throws {
        try await FakeBroker.run { broker in
            async let error = refusal {
                _ = try await MartletSender.connect(
                    host: "127.0.0.1", port: broker.port, projectID: "tides", serverKey: "wrong",
                    options: options)
            }
            await broker.connection().fail(.unauthenticated)
            #expect(await error?.word == .unauthenticated)
        }
    }

    @Test(
        "MSG-6 what was outstanding fails with UNAVAILABLE and is not sent again; the next call is")
    func loss() async throws {
        try await FakeBroker.run { broker in
            let sender = sender(broker)
            async let lost = refusal { _ = try await sender.send(Message(), to: .topic("lost")) }
            let first = await broker.connection()
            await first.welcome()
            #expect(await nextSend(first)?.target == .topic("lost"))
            await first.close()
            #expect(await lost?.word == .unavailable)

            async let result = sender.send(Message(), to: .topic("next"))
            await broker.connection().fail(.unavailable, retryDelay: 1)
            let second = await broker.connection()
            await second.welcome()
            let request = await nextSend(second)
            #expect(request?.target == .topic("next"))
            accept(request, number: 1, on: second)
            let awaitedResult = try await result
            #expect(awaitedResult.messageNumber == 1)
            await sender.close()
        }
    }

    @Test("DEV-1 a broker that stays away makes each call fail after the configured attempts")
    func attempts() async throws {
        try await FakeBroker.run { broker in
            let sender = sender(broker)
            for _ in 0..<2 {
                async let error = refusal { try await sender.connect() }
                for _ in 0..<5 { await broker.connection().close() }
                #expect(await error?.word == .unavailable)
            }
            await sender.close()
        }
    }

    @Test("DEV-1 a cancelled call that waits for the connection ends at once")
    func cancelledOpening() async throws {
        try await FakeBroker.run { broker in
            let sender = sender(broker)
            let call = Task { try await sender.connect() }
            let connection = await broker.connection()
            call.cancel()
            await #expect(throws: CancellationError.self) { try await call.value }
            // The connection goes on opening, for others.
            async let connected = sender.connect()
            await connection.welcome()
            _ = try await connected
            await sender.close()
        }
    }

    @Test("REG-5 a connection found to lead elsewhere gets no credential")
    func elsewhere() async throws {
        try await FakeBroker.run { broker in
            var options = options
            options.attemptsMax = 1
            options.beforeHello = { () throws(MartletError) in
                throw MartletError(.unavailable, "The broker has ended.")
            }
            let sender = MartletSender(
                host: "127.0.0.1", port: broker.port, projectID: "tides", serverKey: "key",
                options: options)
            async let error = refusal { try await sender.connect() }
            #expect(await broker.connection().next() == .closed)
            #expect(await error?.message == "The broker has ended.")
            await sender.close()
        }
    }

    @Test(
        "NET-5 after DRAINING old requests are still answered and new ones go to a new connection")
    func draining() async throws {
        try await FakeBroker.run { broker in
            let sender = sender(broker)
            async let old = sender.send(Message(), to: .topic("old"))
            let first = await broker.connection()
            await first.welcome()
            let request = await nextSend(first)
            first.send(.draining(Draining(reconnectDelayMilliseconds: 2)), .ping(Ping(value: 1)))
            #expect(await first.next() == .frame(.pong(Pong(value: 1))))
            async let new = sender.send(Message(), to: .topic("new"))
            let second = await broker.connection()
            await second.welcome()
            accept(await nextSend(second), number: 2, on: second)
            let awaitedNew = try await new
            #expect(awaitedNew.messageNumber == 2)
            accept(request, number: 1, on: first)
            let awaitedOld = try await old
            #expect(awaitedOld.messageNumber == 1)
            await sender.close()
        }
    }

    @Test("NET-3 no more than 1024 requests are outstanding; the next waits for an answer")
    func outstanding() async throws {
        try await FakeBroker.run { broker in
            let sender = sender(broker)
            async let all: Void = withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<1030 {
                    group.addTask { _ = try await sender.send(Message(), to: .topic("t")) }
                }
                try await group.waitForAll()
            }
            let connection = await broker.connection()
            await connection.welcome()
            var requests: [SendRequest] = []
            while requests.count < 1024, let request = await nextSend(connection) {
                requests.append(request)
            }
            connection.send(.ping(Ping(value: 1)))
            #expect(await connection.next() == .frame(.pong(Pong(value: 1))), "a 1025th went out")
            let cancelled = Task { try await sender.send(Message(), to: .topic("never")) }
            cancelled.cancel()
            await #expect(throws: CancellationError.self) { try await cancelled.value }
            for request in requests { accept(request, number: 1, on: connection) }
            for _ in 0..<6 { accept(await nextSend(connection), number: 1, on: connection) }
            try await all
            await sender.close()
        }
    }

    @Test("NET-3 a request that the broker would not take is refused here and harms nobody")
    func tooLong() async throws {
        try await FakeBroker.run { broker in
            let sender = sender(broker)
            let tokens = Array(repeating: String(repeating: "x", count: 600), count: 1000)
            async let error = refusal { _ = try await sender.subscribe(tokens, to: "t") }
            let connection = await broker.connection()
            await connection.welcome()
            #expect(await error?.word == .invalidArgument)
            async let result = sender.unsubscribe(["a", "b"], from: "t")
            guard case .frame(let frame) = await connection.next(),
                let request = frame.request(as: ChangeTopicRequest.self)
            else { return }
            #expect(request.operation == .unsubscribe && request.tokens == ["a", "b"])
            connection.send(
                .topicResult(
                    TopicResult(
                        correlation: request.correlation, successes: 1,
                        failures: [.init(index: 1, word: .notFound)])))
            let awaitedResult = try await result
            #expect(awaitedResult.failures == [.init(index: 1, word: .notFound)])
            await sender.close()
        }
    }

    @Test("MSG-3 a message that the broker would refuse is refused before it is sent")
    func invalidMessage() async throws {
        try await FakeBroker.run { broker in
            let sender = sender(broker)
            let error = await refusal {
                _ = try await sender.send(Message(data: ["from": "x"]), to: .topic("t"))
            }
            #expect(error?.word == .invalidArgument && error?.field == "message.data")
        }
    }

    @Test("OPS-1 an administrator makes projects and keys, and may send for the project named")
    func administrator() async throws {
        try await FakeBroker.run { broker in
            let administrator = MartletAdministrator(
                host: "127.0.0.1", port: broker.port, administratorKey: "adm", projectID: "tides",
                options: options)
            async let project = administrator.createProject("tides", conditionTopicsMax: 7)
            let connection = await broker.connection()
            #expect(
                await connection.welcome()
                    == .administrator(administratorKey: "adm", projectID: "tides"))
            guard case .frame(let first) = await connection.next(),
                let request = first.request(as: CreateProjectRequest.self)
            else { return }
            let record = ProjectSummary(
                id: request.projectID, senderID: 9,
                conditionTopicsMax: Int(request.conditionTopicsMax), instanceCount: 0,
                topicCount: 0)
            connection.send(
                .answer(
                    ProjectResult(
                        correlation: request.correlation, project: record, registrationKey: "r")))
            let awaitedProject = try await project
            #expect(awaitedProject.summary == record && awaitedProject.registrationKey == "r")

            async let key = administrator.createServerKey(named: "n", in: "tides")
            guard case .frame(let second) = await connection.next(),
                let wish = second.request(as: CreateKeyRequest.self)
            else { return }
            connection.send(
                .answer(KeyResult(correlation: wish.correlation, keyID: "k1", text: "s")))
            let awaitedKey = try await key
            #expect(awaitedKey.id == "k1" && awaitedKey.text == "s")

            async let sent = administrator.sender.send(Message(), to: .topic("t"))
            accept(await nextSend(connection), number: 3, on: connection)
            let awaitedSent = try await sent
            #expect(awaitedSent.messageNumber == 3)
            await administrator.close()
        }
    }
}
