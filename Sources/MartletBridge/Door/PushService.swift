// SPDX-License-Identifier: Apache-2.0
//
// What the door asks of a push service, and what it can answer. A service is an HTTP client for one protocol; all that it
// decides is what an answer means. Rests on Martlet.

package import Martlet
package import MartletWire

/// A message on its way to one instance's push service.
package struct HandOver: Sendable {
    /// ID of the project.
    package var projectID: String
    package var instance: BridgedInstance
    package var message: Deliver
    /// Attempts before this one.
    package var attempts = 0
    /// Whether the message itself may be why earlier attempts failed. Then it gets a connection of its own.
    package var isSuspect = false

    package init(projectID: String, instance: BridgedInstance, message: Deliver) {
        self.projectID = projectID
        self.instance = instance
        self.message = message
    }
}

/// What a push service says about a message.
package enum HandOverAnswer: Sendable, Hashable {
    /// It has the message. Final.
    case taken
    /// The address is gone (REG-3). Final for the instance.
    case gone(reason: String)
    /// It will never take the message. Final.
    case refused(reason: String)
    /// It takes no messages for this instance now.
    case laterForInstance(reason: String, afterSeconds: Int64?)
    /// It takes no messages now, or can't be reached.
    case later(reason: String, afterSeconds: Int64?)
    /// It doesn't accept the project's keys.
    case keyRefused(reason: String)
}

/// Another company's push service.
package protocol PushService: Sendable {
    var kind: BridgeKind { get }
    /// Makes one attempt to hand a message over. Called on any thread, for many messages at once.
    /// - Parameter keys: the project's keys for the service, the newest first. Never empty.
    func handOver(_ message: HandOver, with keys: [OpenBridgeKey]) async -> HandOverAnswer
    /// A project's keys have changed: forgets whatever it kept for it.
    func keysChanged(of project: ProjectNumber) async
    /// Closes all connections.
    func close() async
}
