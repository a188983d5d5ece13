// SPDX-License-Identifier: Apache-2.0
//
// The requests of the door to a push service, and the answers. A service is an HTTP client for a single protocol, and decides
// only the meaning of an answer. Rests on Martlet.

package import Martlet
package import MartletWire

/// A message for one instance, on its way to a push service.
package struct HandOver: Sendable {
    /// ID of the project.
    package var projectID: String
    package var instance: BridgedInstance
    package var message: Deliver
    /// Attempts before this one.
    package var attempts = 0
    /// Whether attempts before this one may have failed because of the message itself: it shares no connection with others.
    package var isSuspect = false

    package init(projectID: String, instance: BridgedInstance, message: Deliver) {
        self.projectID = projectID
        self.instance = instance
        self.message = message
    }
}

/// The answer of a push service about a message.
package enum HandOverAnswer: Sendable, Hashable {
    /// The service has the message. Final.
    case taken
    /// The address is gone (REG-3). Final for the instance.
    case gone(reason: String)
    /// The service will never take the message. Final.
    case refused(reason: String)
    /// The service does not take messages of this instance now.
    case laterForInstance(reason: String, afterSeconds: Int64?)
    /// The service does not take messages now, or cannot be reached.
    case later(reason: String, afterSeconds: Int64?)
    /// The service does not accept the project's keys.
    case keyRefused(reason: String)
}

/// A foreign push service.
package protocol PushService: Sendable {
    var kind: BridgeKind { get }
    /// Hands a message over once. Called on any thread, for many messages at a time.
    /// - Parameter keys: the project's keys for the service, the newest first; never empty.
    func handOver(_ message: HandOver, with keys: [OpenBridgeKey]) async -> HandOverAnswer
    /// Forgets what is kept for a project, because its keys have changed.
    func keysChanged(of project: ProjectNumber) async
    /// Closes all connections.
    func close() async
}
