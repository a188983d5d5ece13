// SPDX-License-Identifier: Apache-2.0
//
// What a device asks of the broker: registration, another token, and its end (DEV-1); and how any request
// of a device is sent and answered.

public import MartletBase
public import MartletWire
import NIOCore
import NIOPosix

extension MartletDevice {
    /// DEV-1: registers a new instance. Keep what it returns; the key is told this once.
    public static func register(
        host: String, port: Int = Limits.defaultPort, projectID: String, appName: String,
        platform: Platform, options: DeviceOptions = DeviceOptions()
    ) async throws -> DeviceCredentials {
        let eventLoop = options.eventLoopGroup.next()
        let registration = Registration(eventLoop: eventLoop)
        let dialer = Dialer(
            host: host, port: port, eventLoop: eventLoop,
            settings: ConnectionSettings(options.heartbeat))
        // A connection does not hold its owner; the pending promise does.
        registration.promise.futureResult.whenComplete { _ in withExtendedLifetime(registration) {}
        }
        dialer.open(
            .newDevice(projectID: projectID, appName: appName, platform: platform), connection: 1,
            owner: registration)
        let welcome = try await registration.promise.futureResult.get()
        return DeviceCredentials(
            projectID: projectID, token: welcome.token, deviceKey: welcome.deviceKey)
    }

    /// TOP-9: a page of this instance's topics, after a name.
    public func topics(after: String = "", limit: UInt16 = 1000) async throws -> TopicPage {
        let answer = try await request { correlation in
            .listInstanceTopics(
                ListInstanceTopicsRequest(
                    correlation: correlation, token: "", after: after, limit: limit))
        }
        guard case .topicPage(let page) = answer else { throw unexpected(answer) }
        return page
    }

    /// REG-3: gives the token up. Nothing comes any more, and the sequence of messages ends. A
    /// store is empty then.
    public func unregister() async throws {
        let answer = try await request { correlation in
            .unregister(UnregisterRequest(correlation: correlation))
        }
        guard case .done = answer else { throw unexpected(answer) }
        end(nil)
        try await forgetState()
    }

    /// REG-4: gives this instance another token, and returns it. The old one is not registered any
    /// more. Subscriptions and stored messages stay. If the connection is lost before the answer,
    /// the next one says whether it was done; if it was not, it is asked for again, `attemptsMax`
    /// times, later each time. A store has the new token when this returns; whoever has none keeps
    /// `credentials` anew.
    @discardableResult
    public func rotateToken() async throws -> String {
        let old = credentials.token
        var backoff = options.backoff
        // WELCOME tells of a token that its own answer did not.
        while credentials.token == old {
            do {
                _ = try await link()
                if credentials.token == old { try await rotateOnce() }
            } catch let error as MartletError {
                if case .ended = state { throw error }
                guard !error.isFinal, backoff.attempts + 1 < options.attemptsMax else {
                    throw error
                }
                try await Task.sleep(
                    for: backoff.next(notBefore: error.retryDelayMilliseconds, using: &random))
            }
        }
        try await save()
        return credentials.token
    }

    private func rotateOnce() async throws {
        let answer = try await request { correlation in
            .rotate(RotateRequest(correlation: correlation))
        }
        guard case .rotated = answer else { throw unexpected(answer) }
    }

    /// DEV-1: the registration token, and every other one that this instance is given from now on:
    /// for those parts of an application that tell its server where to send. Each call makes a
    /// sequence of its own; it ends with the device.
    public func registrationTokens() -> AsyncStream<String> {
        let (stream, listener) = AsyncStream.makeStream(
            of: String.self, bufferingPolicy: .bufferingNewest(1))
        listener.yield(credentials.token)
        if case .ended = state {
            listener.finish()
            return stream
        }
        waitersEver += 1
        let number = waitersEver
        tokenListeners[number] = listener
        listener.onTermination = { [weak self] _ in
            Task { await self?.removeTokenListener(number) }
        }
        return stream
    }

    private func removeTokenListener(_ number: UInt64) { tokenListeners[number] = nil }

    func request(
        _ make: @Sendable (UInt32) -> ClientFrame
    ) async throws -> BrokerFrame {
        let link = try await link()
        let correlation = nextCorrelation()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (answer: Answer) in
                // Leaves in the same packet.
                acknowledge(ifDue: false)
                do {
                    try link.handler.value.send(make(correlation))
                    requests.insert(answer, correlation: correlation, connection: link.connection)
                    link.handler.value.resume()
                } catch {
                    answer.resume(throwing: error)
                }
            }
        } onCancel: {
            Task { await self.cancelRequest(correlation) }
        }
    }

    private func cancelRequest(_ correlation: UInt32) {
        requests.remove(correlation)?.resume(throwing: CancellationError())
    }

    /// The open connection, or the next one.
    func link() async throws -> Link {
        start()
        switch state {
        case .open(let link): return link
        case .ended(let error): throw error ?? RequestClient.closed
        case .idle, .waiting, .opening:
            waitersEver += 1
            let number = waitersEver
            return try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation {
                    openWaiters.append((number, $0))
                    openIfHeldOff()
                }
            } onCancel: {
                Task { await self.cancelOpenWaiter(number) }
            }
        }
    }

    private func cancelOpenWaiter(_ number: UInt64) {
        guard let index = openWaiters.firstIndex(where: { $0.number == number }) else { return }
        openWaiters.remove(at: index).waiter.resume(throwing: CancellationError())
    }

    func received(answer frame: BrokerFrame, on link: Link) {
        guard let correlation = frame.correlation else { return }
        // Known before whoever asked for it is: HELLO needs it, whoever does.
        if case .rotated(let rotated) = frame { replaceToken(rotated.token) }
        if let receipt = receiptsTold.removeValue(forKey: correlation) {
            return answered(receipt, by: frame)
        }
        if let told = topicsTold, told.correlation == correlation {
            topicsTold = nil
            return answered(told.wishes, by: frame, on: link)
        }
        guard let answer = requests.remove(correlation) else { return }
        if case .error(let refusal) = frame {
            answer.resume(throwing: refusal.error)
        } else {
            answer.resume(returning: frame)
        }
    }

    /// One that neither a caller nor what the device says by itself waits for.
    func nextCorrelation() -> UInt32 {
        var correlation = requests.nextCorrelation()
        while receiptsTold[correlation] != nil || topicsTold?.correlation == correlation {
            correlation = requests.nextCorrelation()
        }
        return correlation
    }
}

/// Waits for the WELCOME of a new device, then closes.
private final class Registration: ConnectionOwner {
    let promise: EventLoopPromise<Welcome>

    init(eventLoop: any EventLoop) { promise = eventLoop.makePromise() }

    func connectionOpened(_ link: Link) {
        promise.succeed(link.welcome)
        link.channel.close(promise: nil)
    }

    func connectionReceived(_ frame: BrokerFrame, connection: UInt64) {}

    func connectionClosed(_ error: MartletError, connection: UInt64) {
        // Does nothing where WELCOME came before.
        promise.fail(error)
    }
}
