// SPDX-License-Identifier: Apache-2.0
//
// The way of a request to a broker, in this process or on a connection. Both ways take each request, so the named
// requests of `AdministratorInterface` and `SenderInterface` are written once, beside their frames. Rests on
// `WireFrame`.

/// A way to ask a broker. Each request comes back as an answer or as an error.
package protocol RequestPerformer<Failure>: Sendable {
    associatedtype Failure: Error
    func ask<Request: WireRequest>(_ request: Request) async throws(Failure) -> Request.Answer
}

/// The way of the requests of an administrator or a sender. An application uses the named requests of
/// `AdministratorInterface` and `SenderInterface` in its place.
public struct RequestPort<Failure: Error>: Sendable {
    private let performer: any RequestPerformer<Failure>

    package init(_ performer: some RequestPerformer<Failure>) { self.performer = performer }

    func ask<Request: WireRequest>(_ request: Request) async throws(Failure) -> Request.Answer {
        try await performer.ask(request)
    }
}

extension UInt16 {
    /// The limit of a page. A limit outside of the type becomes 0 or the largest value, and the broker refuses both.
    init(pageLimit: Int) { self.init(clamping: pageLimit) }
}
