// SPDX-License-Identifier: Apache-2.0
//
// The gateway without HTTP. `Gateway` finds the first route that fits a call, authenticates the caller, and turns
// every refusal into an answer in the form of the route's area. Rests on Broker.

import Logging
public import Martlet
import MartletThreads
import Synchronization

/// Answers the calls of official SDKs out of a broker.
public final class Gateway: Sendable {
    /// Broker from which the gateway answers.
    public let broker: Broker
    /// Settings that the gateway was made with.
    public let configuration: GatewayConfiguration
    /// Further interfaces behind the gateway's port.
    package let doors: [any GatewayDoor]
    private let routes: [Route]
    package let metrics: GatewayMetrics
    package let retries: RetryTable
    /// GW-15: memory of requests without a right credential.
    let strangers = StrangerMemory()
    let longBodies = LongBodies()
    private let refusalLog: RefusalLog
    /// A hook for tests: called before a route's handler. The gateway refuses the call with the returned error.
    private let fault: (@Sendable (GatewayCall) -> GatewayError?)?
    /// OPS-7: whether the node is drained. A hook for tests gives another answer than the broker.
    private let isDrained: @Sendable () -> Bool
    private let requestsInProgress = Atomic<Int>(0)
    private let exchangesInProgress = Atomic<Int>(0)
    private let renderedMetrics = Mutex(RenderedMetrics())
    /// The text of `date`, which is made once a second.
    private let lastDate = Mutex<(second: Int64, text: String)>((-1, ""))
    /// Port of the listening socket; 0 before the server listens.
    let port = Atomic<Int>(0)

    /// Makes a gateway without a server. `GatewayServer` serves the gateway over HTTP, and `answer(_:)` answers a
    /// single call.
    public convenience init(_ broker: Broker, _ configuration: GatewayConfiguration = .init()) {
        self.init(broker, configuration, doors: [])
    }

    package init(
        _ broker: Broker, _ configuration: GatewayConfiguration,
        doors: [any GatewayDoor] = [], isDrained: (@Sendable () -> Bool)? = nil,
        fault: (@Sendable (GatewayCall) -> GatewayError?)? = nil
    ) {
        self.isDrained = isDrained ?? { [broker] in broker.isDrained }
        self.broker = broker
        self.configuration = configuration
        self.fault = fault
        self.doors = doors
        routes = Route.all + doors.flatMap(\.routes)
        retries = RetryTable(
            window: .seconds(Int64(configuration.retrySeconds)), folder: broker.folder,
            isDiskHanging: { [broker] in broker.silence != nil })
        if configuration.retrySeconds > 0, !retries.isKept {
            configuration.logger.warning(
                "repetitions of sends from before a restart will not be recognised",
                metadata: [
                    "file": "\(broker.folder)/gateway.unanswered",
                    "reason":
                        "the file or /proc/sys cannot be used, or another gateway has the file",
                ])
        }
        refusalLog = RefusalLog(configuration.logger)
        metrics = GatewayMetrics(other: configuration.metrics)
        for door in doors { door.begin(with: metrics.factory) }
        broker.strangers.add { [strangers] in
            StrangerBook.DoorFigures(
                bytes: strangers.bytes, turnedAway: strangers.turnedAwayCount)
        }
    }

    /// Wall-clock time of the broker, in seconds since 1970.
    var nowSeconds: Double {
        Double(broker.now.millisecondsSince1970) / 1000
    }

    /// The value of `Date` in an answer.
    var date: String {
        let now = broker.now
        let second = now.millisecondsSince1970 / 1000
        return lastDate.withLock { last in
            if last.second != second { last = (second, HTTPDate.text(of: now)) }
            return last.text
        }
    }

    /// Records the broker's present figures in the metrics. `/metrics` does so at each request; with another metrics
    /// backend, call this method from time to time.
    public func recordMetrics() {
        metrics.record(
            broker.statistics, requestsInProgress: requestsInProgress.load(ordering: .relaxed))
    }

    /// The answer of `/metrics`.
    var metricsText: [UInt8] {
        renderedMetrics.withLock { rendered in
            rendered.bytes {
                recordMetrics()
                return metrics.registry.text + broker.measuredText
            }
        }
    }

    /// Answers one call. Never fails: a failure becomes an answer with an error status.
    public func answer(_ call: GatewayCall) async -> GatewayAnswer {
        switch await admit(call) {
        case .admitted(let admitted):
            switch await content(
                of: call.body, of: admitted, most: configuration.bodyBytesMax, hold: { _ in true })
            {
            case .success(let body): await answer(admitted, body: body)
            case .failure(let error): admitted.route.refusal(error)
            }
        case .refused(let answer), .turnedAway(let answer): answer
        }
    }

    static let full = GatewayError(
        .unavailable, "The gateway has more to answer than it can; try again.",
        code: .unavailable, retryDelayMilliseconds: Limits.httpFullMilliseconds)

    // MARK: The head

    /// A call that may bring its body.
    struct Admitted: Sendable {
        var call: GatewayCall
        let route: Route
        /// Under whose name the body counts; nil for a stranger.
        let owner: String?
        let coding: BodyCoding
        let at = ContinuousClock.now
    }

    enum Admission: Sendable {
        case admitted(Admitted)
        case refused(GatewayAnswer)
        /// As `refused`, and the caller is to turn to another node on another connection (OPS-7).
        case turnedAway(GatewayAnswer)
    }

    /// GW-15: judges a call by its head: path, method and credential. The body has not come yet, and nothing is kept
    /// of it before.
    func admit(_ head: GatewayCall) async -> Admission {
        let began = ContinuousClock.now
        for route in routes where route.method == head.method {
            guard let parameters = route.match(head.path) else { continue }
            var call = head
            call.parameters = parameters
            do {
                let owner: String?
                switch try await judgeAnew(call, for: route) {
                case .sender(let caller):
                    call.caller = caller
                    try requireOwnProject(call, of: caller, route)
                    owner = caller.projectID
                case .other(let name): owner = name
                case .stranger: owner = nil
                }
                guard !route.isSending || !isDrained() else {
                    return .turnedAway(refusal(MartletError.drained, of: route, after: began))
                }
                return .admitted(
                    Admitted(
                        call: call, route: route, owner: owner, coding: try coding(of: call, route))
                )
            } catch {
                count(error, of: call)
                return .refused(refusal(await held(error, from: head), of: route, after: began))
            }
        }
        return .refused(unserved(at: head.path, after: ContinuousClock.now - began))
    }

    /// Refuses a call that no route takes: the path is unknown, or takes other methods.
    func unserved(at path: [String], after duration: Duration = .zero) -> GatewayAnswer {
        var methods: [String] = []
        for route in routes where route.match(path) != nil {
            methods.append(route.method.rawValue)
            // HEAD is answered like GET.
            if route.method == .get { methods.append("HEAD") }
        }
        var answer: GatewayAnswer
        if methods.isEmpty {
            answer = GatewayError(.notFound, "Nothing is served at this path.").envelope
        } else {
            let known = methods.joined(separator: ", ")
            answer =
                GatewayError(
                    .unimplemented, "This path takes \(known).", httpStatus: 405
                ).envelope
            answer.headers.append(("allow", known))
        }
        metrics.answered("none", status: answer.status, after: duration)
        broker.countRefusal(methods.isEmpty ? .notFound : .invalidArgument, in: nil)
        return answer
    }

    /// The answer to `OPTIONS *`, which asks what the server as a whole takes. Source: RFC 9110, section 9.3.7.
    var methods: GatewayAnswer {
        let known = Set(routes.map(\.method.rawValue)).union(["HEAD", "OPTIONS"]).sorted()
        metrics.answered("none", status: 200, after: .zero)
        return GatewayAnswer(headers: [("allow", known.joined(separator: ", "))])
    }

    /// OPS-7: judges a head. What the store of a node that follows refuses is judged again by a store that is as new as the
    /// call.
    private func judgeAnew(
        _ call: GatewayCall, for route: Route
    ) async throws -> Route.Judgement {
        guard !broker.isCurrent else { return try judge(call, for: route) }
        do { return try Freshness.any.ask { try judge(call, for: route) } } catch {
            // A call without a credential is refused by any store.
            if error is GatewayError { throw error }
            return try await broker.newest().ask { try judge(call, for: route) }
        }
    }

    /// OPS-7: carries out a call. The questions of the call find a store that is as new as the call, and hold up no
    /// thread.
    private func handle(
        _ call: GatewayCall, by route: Route
    ) async throws -> GatewayAnswer {
        guard !route.access.isOfAnyone, !broker.isCurrent else {
            return try await route.handler(call, self)
        }
        // A refused send is answered when the store has the refusal's row, and the rows before.
        let freshness = route.isSending ? Freshness.any : await broker.newest()
        return try await freshness.carryOut { try await route.handler(call, self) }
    }

    private func judge(_ call: GatewayCall, for route: Route) throws -> Route.Judgement {
        switch route.access {
        case .anyone, .exchange: .stranger
        case .judged(let judge): try judge(call)
        case .bearer, .bearerOrKey:
            .sender(try authenticate(call, allowsKey: route.access.takesKey))
        }
    }

    /// - Throws: PERMISSION_DENIED if the path names another project than that of a sender's credential.
    private func requireOwnProject(
        _ call: GatewayCall, of caller: Caller, _ route: Route
    ) throws(GatewayError) {
        switch route.access {
        case .anyone, .exchange, .judged: return
        case .bearer, .bearerOrKey:
            guard let project = call.parameters["project"], !caller.isOf(project) else { return }
            throw GatewayError(
                .permissionDenied,
                "The credential is not one of this project's; use one of its own.")
        }
    }

    /// OPS-10: counts a refusal that the broker has not counted: one by the gateway itself, or by a door. The project is that of
    /// a right credential.
    func count(_ error: any Error, of call: GatewayCall) {
        let cause: ErrorWord?
        switch error {
        case let wrong as WrongCredential:
            cause = wrong.refusal is MartletError ? nil : .unauthenticated
        case let error as any AnsweredError: cause = error.countedCause
        case let error as GatewayError: cause = error.isCounted ? nil : error.status.cause
        case is MartletError: cause = nil
        default: cause = .internal
        }
        if let cause { broker.countRefusal(cause, in: call.caller?.projectID) }
    }

    private func refusal(
        _ error: any Error, of route: Route, after began: ContinuousClock.Instant
    ) -> GatewayAnswer {
        let answer: GatewayAnswer
        switch error {
        case let error as any AnsweredError: answer = error.answer
        case let error as GatewayError: answer = route.refusal(error)
        case let error as MartletError: answer = route.refusal(GatewayError(error))
        default:
            configuration.logger.error(
                "a call failed", metadata: ["route": "\(route.name)", "error": "\(error)"])
            answer = route.refusal(GatewayError(MartletError(.internal, "A call failed.")))
        }
        metrics.answered(route.name, status: answer.status, after: ContinuousClock.now - began)
        return answer
    }

    /// The coding that is unpacked.
    /// - Throws: 415 for any other coding.
    private func coding(of call: GatewayCall, _ route: Route) throws(GatewayError) -> BodyCoding {
        // GET and OPTIONS have no body that anybody reads.
        guard !route.keepsCoding, call.method != .get, call.method != .options else {
            return .identity
        }
        guard let coding = BodyCoding(of: call) else {
            throw GatewayError(
                .invalidArgument, "A body comes as it is, or with 'Content-Encoding: gzip'.",
                violations: [], httpStatus: 415)
        }
        return coding
    }

    /// GW-1: the content of an admitted body, unpacked beside the threads of connections.
    /// - Parameters:
    ///   - most: longest content, in bytes.
    ///   - hold: counts bytes of the content before they are kept.
    func content(
        of body: [UInt8], of admitted: Admitted, most: Int, hold: @escaping @Sendable (Int) -> Bool
    ) async -> Result<[UInt8], GatewayError> {
        guard case .gzip = admitted.coding else { return .success(body) }
        return await withTaskExecutorPreference(globalConcurrentExecutor) {
            let refusal: GatewayError
            do throws(BodyCoding.Failure) {
                return .success(try admitted.coding.content(of: body, most: most, hold: hold))
            } catch {
                refusal =
                    switch error {
                    case .tooLong: Self.tooLong(most)
                    case .full: Self.full
                    case .broken:
                        GatewayError(
                            .invalidArgument, "The body is not whole, or not in gzip.",
                            code: .invalidArgument, violations: [])
                    }
            }
            self.metrics.answered(admitted.route.name, status: refusal.httpStatus, after: .zero)
            self.count(refusal, of: admitted.call)
            return .failure(refusal)
        }
    }

    static func tooLong(_ most: Int) -> GatewayError {
        GatewayError(
            .invalidArgument, "A request has at most \(most) bytes.", violations: [],
            httpStatus: 413)
    }

    // MARK: The whole call

    /// Most exchanges of assertions at a time: strangers have a part of their own of the requests in progress, an eighth.
    /// Rounded up, because a gateway that exchanges nothing serves no SDK.
    private var exchangesMax: Int { (configuration.requestsMax + 7) / 8 }

    /// Answers an admitted call.
    func answer(_ admitted: Admitted, body: [UInt8]) async -> GatewayAnswer {
        let began = ContinuousClock.now
        var call = admitted.call
        call.body = body
        let route = admitted.route
        do {
            let isExchange = route.access.isExchange
            let count =
                isExchange
                ? exchangesInProgress.add(1, ordering: .relaxed).newValue
                : requestsInProgress.add(1, ordering: .relaxed).newValue
            defer {
                if isExchange {
                    exchangesInProgress.subtract(1, ordering: .relaxed)
                } else {
                    requestsInProgress.subtract(1, ordering: .relaxed)
                }
            }
            // Routes of the operator answer in a full gateway too, because an operator must see the overload.
            guard
                route.access.isOfAnyone
                    || count <= (isExchange ? exchangesMax : configuration.requestsMax)
            else { throw Self.full }
            // REG-9: a body may take long, and the credential may have ended meanwhile.
            if call.caller != nil, began - admitted.at > Self.admissionLife,
                case .sender(let caller) = try await judgeAnew(call, for: route)
            {
                call.caller = caller
            }
            if let error = fault?(call) { throw error }
            let answered = call
            // A request with a credential may wait for the disk, and must not hold up the threads of connections.
            let answer =
                route.access.isOfAnyone
                ? try await handle(call, by: route)
                : try await withTaskExecutorPreference(globalConcurrentExecutor) {
                    try await handle(answered, by: route)
                }
            metrics.answered(
                route.name, status: answer.status, after: ContinuousClock.now - began)
            return answer
        } catch {
            count(error, of: call)
            return refusal(await held(error, from: call), of: route, after: began)
        }
    }

    /// REG-9: how long the credential of a head is good without a further look.
    private static let admissionLife = Duration.milliseconds(500)

    /// Logs a TLS handshake that failed.
    func noteFailedHandshake(_ reason: String, from peer: String) {
        refusalLog.tell(.handshake, from: peer, ["reason": "\(reason)"])
    }

    /// REG-10: the refusal of a wrong credential, when it may be told. The call is not one of the requests in progress
    /// meanwhile.
    private func held(_ error: any Error, from call: GatewayCall) async -> any Error {
        guard let wrong = error as? WrongCredential else { return error }
        let address = call.peer.flatMap { PeerAddress($0) } ?? .loopback
        do throws(MartletError) { try await holdBack(wrong.kind, from: address) } catch {
            return GatewayError(error)
        }
        return wrong.refusal
    }

    /// REG-10: logs a wrong credential, and waits if the address had too many.
    /// - Throws: `RESOURCE_EXHAUSTED` if too many refusals of the address wait already.
    func holdBack(_ kind: String, from address: PeerAddress) async throws(MartletError) {
        refusalLog.refused(kind, from: address.description)
        switch broker.strangers.refused(from: address) {
        case .atOnce: break
        case .later:
            try? await Task.sleep(for: .milliseconds(StrangerBook.waitMilliseconds))
            broker.strangers.settled(address)
        case .never:
            throw MartletError(
                .resourceExhausted, "Too many credentials from this address were refused.",
                retryDelayMilliseconds: UInt32(StrangerBook.waitMilliseconds))
        }
    }
}

/// REG-10: the refusal of a credential, for a reason that concerns the credential itself.
package struct WrongCredential: Error {
    /// Kind of the credential, for the log.
    let kind: String
    let refusal: any Error

    package init(kind: String, refusal: any Error) {
        self.kind = kind
        self.refusal = refusal
    }
}

extension GatewayError.Status {
    /// The word under which the refusal is counted.
    fileprivate var cause: ErrorWord {
        switch self {
        case .invalidArgument, .unimplemented: .invalidArgument
        case .unauthenticated: .unauthenticated
        case .permissionDenied: .permissionDenied
        case .notFound: .notFound
        case .alreadyExists: .alreadyExists
        case .resourceExhausted: .resourceExhausted
        case .unavailable: .unavailable
        case .deadlineExceeded: .deadlineExceeded
        case .internal: .internal
        }
    }
}

extension GatewayCall {
    /// The caller of a route with authentication.
    /// - Throws: UNAUTHENTICATED for a call without a caller.
    var identified: Caller {
        get throws(GatewayError) {
            guard let caller else {
                throw GatewayError(.unauthenticated, GatewayError.noCredential)
            }
            return caller
        }
    }
}
