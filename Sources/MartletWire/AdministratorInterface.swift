// SPDX-License-Identifier: Apache-2.0
//
// The requests of an administrator: the broker in this process and the client of a connection have all of them, by
// the same names. Each request is an extension of the protocol in the file of its frames. Rests on `RequestPort`.

/// Management of projects, keys, service accounts, apps and policies, by an administrator of a broker: of `Broker` in
/// this process, or of `MartletAdministrator` on a connection. A refused request is thrown as `MartletError`.
public protocol AdministratorInterface: Sendable {
    /// `MartletError` in the broker's process. On a connection also `CancellationError`, for a cancelled task.
    associatedtype Failure: Error
    /// The way of the requests to the broker.
    var requests: RequestPort<Failure> { get }
}
