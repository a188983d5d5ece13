// SPDX-License-Identifier: Apache-2.0
//
// The gateway without HTTP. `Gateway` finds the first route that fits a call, authenticates the caller, and turns
// every refusal into an answer in the form of the route's area. Rests on Broker.

import Logging
public import Martlet
import Synchronization

/// Answers the calls of official SDKs out of a broker.
public final class Gateway: Sendable {
    /// Broker from which the gateway answers.
    public let broker: Broker
    /// Settings that the gateway was made with.
    public let configuration: GatewayConfiguration
    let metrics: GatewayMetrics
    let retries: RetryTable
    let refusedLogins: RefusedLogins
    /// A hook for tests: called before a route's handler. The gateway refuses the call with the returned error.
    private let fault: (@Sendable (GatewayCall) -> GatewayError?)?
    private let requestsInProgress = Atomic<Int>(0)
    /// Port of the listening socket; 0 before the server listens.
    let port = Atomic<Int>(0)

    /// Makes a gateway without a server. `GatewayServer` serves the gateway over HTTP, and `answer(_:)` answers a
    /// single call.
    public convenience init(_ broker: Broker, _ configuration: GatewayConfiguration = .init()) {
        self.init(broker, configuration, fault: nil)
    }

    package init(
        _ broker: Broker, _ configuration: GatewayConfiguration,
        fault: (@Sendable (GatewayCall) -> GatewayError?)?
    ) {
        self.broker = broker
        self.configuration = configuration
        self.fault = fault
        retries = RetryTable(
            window: .seconds(Int64(configuration.retrySeconds)), folder: broker.folder)
        refusedLogins = RefusedLogins(configuration.logger)
        metrics = GatewayMetrics(other: configuration.metrics)
    }

    /// Wall-clock time of the broker, in seconds since 1970.
    var nowSeconds: Double {
        Double(broker.now.millisecondsSince1970) / 1000
    }

    /// Records the broker's present figures in the metrics. `/metrics` does so at each request; with another metrics
    /// backend, call this method from time to time.
    public func recordMetrics() {
        metrics.record(
            broker.statistics, requestsInProgress: requestsInProgress.load(ordering: .relaxed))
    }

    /// Answers one call. Never fails: a failure becomes an answer with an error status.
    public func answer(_ call: GatewayCall) async -> GatewayAnswer {
        let began = ContinuousClock.now
        let (route, answer) = await route(call)
        metrics.answered(
            route?.name ?? "none", status: answer.status, after: ContinuousClock.now - began)
        return answer
    }

    static let full = GatewayError(
        .unavailable, "The gateway has more to answer than it can; try again.",
        code: .unavailable, retryDelayMilliseconds: Limits.httpFullMilliseconds)

    private func route(_ call: GatewayCall) async -> (Route?, GatewayAnswer) {
        let count = requestsInProgress.add(1, ordering: .relaxed).newValue
        defer { requestsInProgress.subtract(1, ordering: .relaxed) }
        var methods: [String] = []
        for route in Route.all {
            guard let parameters = route.match(call.path) else { continue }
            guard route.method == call.method else {
                methods.append(route.method.rawValue)
                continue
            }
            // Routes for `.anyone` answer in a full gateway too, because an operator must see the overload.
            guard count <= configuration.requestsMax || route.access == .anyone else {
                return (route, route.refusal(Self.full))
            }
            var call = call
            call.parameters = parameters
            return (route, await answer(call, route))
        }
        guard methods.isEmpty else {
            var answer = GatewayError(
                .unimplemented, "This path takes \(methods.joined(separator: ", ")).",
                httpStatus: 405
            ).envelope
            answer.headers.append(("allow", methods.joined(separator: ", ")))
            return (nil, answer)
        }
        return (nil, GatewayError(.notFound, "Nothing is served at this path.").envelope)
    }

    private func answer(_ call: GatewayCall, _ route: Route) async -> GatewayAnswer {
        do {
            var call = call
            if route.access != .anyone {
                let caller = try authenticate(call, allowsKey: route.access == .bearerOrKey)
                if let project = call.parameters["project"], !caller.isOf(project) {
                    throw GatewayError(
                        .permissionDenied,
                        "The credential is not one of this project's; use one of its own.")
                }
                call.caller = caller
            }
            if let error = fault?(call) { throw error }
            return try await route.handler(call, self)
        } catch let error as GatewayError {
            return route.refusal(error)
        } catch let error as MartletError {
            return route.refusal(GatewayError(error))
        } catch {
            configuration.logger.error(
                "a call failed", metadata: ["route": "\(route.name)", "error": "\(error)"])
            return route.refusal(GatewayError(MartletError(.internal, "A call failed.")))
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
