// SPDX-License-Identifier: Apache-2.0
//
// A device's requests for registration, another token and unregistration (DEV-1), and the way in which any request
// of a device is sent and answered.

public import MartletBase
import MartletWire
import NIOCore
import NIOPosix

extension MartletDevice {
    /// DEV-1: registers a new instance. The application must keep the credentials, because the broker tells the
    /// device key only once. `options.registration` is what the project wants of a new device (REG-7).
    public static func register(
        host: String, port: Int = Limits.defaultPort, projectID: String, appName: String,
        platform: Platform, options: DeviceOptions = DeviceOptions()
    ) async throws -> DeviceCredentials {
        let credential = try await options.registration.credential()
        let eventLoop = options.eventLoopGroup.next()
        let registration = Registration(eventLoop: eventLoop)
        let dialer = Dialer(
            [BrokerAddress(host: host, port: port)] + options.fallbacks, eventLoop: eventLoop,
            settings: ConnectionSettings(options.heartbeat, options.encryption))
        // A connection does not keep its owner alive, so the pending promise does.
        registration.promise.futureResult.whenComplete { _ in withExtendedLifetime(registration) {}
        }
        dialer.open(
            .newDevice(
                projectID: projectID, appName: appName, platform: platform, credential: credential),
            connection: 1, owner: registration)
        let welcome = try await registration.promise.futureResult.get()
        return DeviceCredentials(
            projectID: projectID, token: welcome.token, deviceKey: welcome.deviceKey)
    }

    /// TOP-9: a page of this instance's topics with the number of subscribers, in the order of the names.
    /// - Parameters:
    ///   - after: the `next` of the page before.
    ///   - limit: 1 to 1000 entries.
    public func topics(
        after: String = "", limit: Int = Limits.pageEntriesMax
    ) async throws -> ListPage<TopicSummary> {
        let frame = try await request { correlation in
            .request(
                ListInstanceTopicsRequest(
                    correlation: correlation, token: "", after: after,
                    limit: UInt16(clamping: limit)))
        }
        guard let page = frame.answer(as: TopicPage.self) else { throw unexpected(frame) }
        return ListPage(page)
    }

    /// REG-3: unregisters the instance. No messages come afterwards, the sequence of messages ends, and the store
    /// is emptied.
    public func unregister() async throws {
        let answer = try await request { correlation in
            .unregister(UnregisterRequest(correlation: correlation))
        }
        guard case .done = answer else { throw unexpected(answer) }
        end(nil)
        try await forgetState()
    }

    /// REG-4: replaces the instance's token. The old token is no longer registered; subscriptions and stored
    /// messages stay. If the connection is lost before the answer, the next connection tells whether the broker
    /// replaced the token. If not, the device asks again, up to `attemptsMax` times with growing pauses. The store
    /// has the new token when the call returns; an application without a store must keep `credentials` anew.
    /// - Returns: the new token.
    @discardableResult
    public func rotateToken() async throws -> String {
        let old = credentials.token
        var backoff = options.backoff
        // WELCOME can bring a token whose ROTATED was lost.
        while credentials.token == old {
            do {
                _ = try await link()
                if credentials.token == old { try await rotateOnce() }
            } catch let error as MartletError {
                try await wait(after: error, &backoff)
            }
        }
        try await save()
        return credentials.token
    }

    /// Waits before the next attempt of a request.
    /// - Throws: the error, if it is final or ended the last attempt.
    func wait(after error: MartletError, _ backoff: inout Backoff) async throws {
        if case .ended = state { throw error }
        guard !error.isFinal, backoff.attempts + 1 < options.attemptsMax else { throw error }
        try await Task.sleep(
            for: backoff.next(notBefore: error.retryDelayMilliseconds, using: &random))
    }

    private func rotateOnce() async throws {
        let answer = try await request { correlation in
            .rotate(RotateRequest(correlation: correlation))
        }
        guard case .rotated = answer else { throw unexpected(answer) }
    }

    /// DEV-1: the present registration token, and every later token of the instance. Useful for the part of an
    /// application that tells the app server where to send. Each call makes a new sequence, which ends with the
    /// device.
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
                // The waiting acknowledgement leaves in the packet of the request.
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

    /// Returns the open connection, or waits for the next connection.
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
        // The token is replaced before the caller resumes, and also for a cancelled caller, because the next HELLO
        // needs the new token.
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

    /// Returns a correlation that neither a caller nor the device itself waits for.
    func nextCorrelation() -> UInt32 {
        var correlation = requests.nextCorrelation()
        while receiptsTold[correlation] != nil || topicsTold?.correlation == correlation {
            correlation = requests.nextCorrelation()
        }
        return correlation
    }
}

/// Waits for the WELCOME of a new device, then closes the connection.
private final class Registration: ConnectionOwner {
    let promise: EventLoopPromise<Welcome>

    init(eventLoop: any EventLoop) { promise = eventLoop.makePromise() }

    func connectionOpened(_ link: Link) {
        promise.succeed(link.welcome)
        link.channel.close(promise: nil)
    }

    func connectionReceived(_ frame: BrokerFrame, connection: UInt64) {}

    func connectionClosed(_ error: MartletError, connection: UInt64) {
        // No effect if WELCOME came before.
        promise.fail(error)
    }
}
