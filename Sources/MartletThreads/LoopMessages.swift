// SPDX-License-Identifier: Apache-2.0
//
// What other threads tell a loop, and the means to reach it. Rests on Inbox, News and Requests.

package import MartletBase
package import MartletEngine
package import MartletTransport
package import MartletWire
import Synchronization

/// A message of another thread to a loop.
package enum LoopMessage: Sendable {
    case outcome(ConnectionID, RequestContext, Outcome)
    /// The inquiry's answer to a question.
    case answer(ConnectionID, RequestCharge, BrokerFrame)
    case news(News)
    /// A batch of the loop's acknowledgements is on disk, or the store refused the batch. A refused batch comes
    /// with the departures and the lists in HELLOs of the batch, for another hand-over.
    case acknowledged(batch: UInt64, areStored: Bool, again: [Acknowledgement])
    /// The store knows of an instance's connection, and has all news of the connections before.
    case stored(ConnectionID, connectionNumber: UInt64)
    /// The store could not be told of an instance's connection.
    case notStored(ConnectionID)
    /// The store could not unregister a newcomer.
    case notUndone(Newcomer)
    /// NET-6: the strangers of an address hold too much memory.
    case endStrangers(PeerAddress)
    /// UPS-1: messages of devices for a listener of the loop.
    case upstream(UInt64, [UpstreamMessage])
    /// OPS-7: the node is drained, and the loop rests; or undrained, and the loop serves again.
    case rest(Bool)
    /// GW-9: a question to all loops, with its number among the surveys.
    case asked(LoopQuestion, by: LoopSurveys, number: UInt64)
    /// OPS-7: the run of this node has ended, and its connections count as lost: devices connect again.
    case runEnded
    /// OPS-7: the store is as new as some waiting HELLOs need.
    case fresh
    /// NET-5: finish accepted requests, then end.
    case shutDown
}

/// The means to reach a loop.
package struct LoopHandle: Sendable {
    package let inbox: Inbox<LoopMessage>
    package let address: TransportAddress
    package let waker: TransportWaker

    package init(inbox: Inbox<LoopMessage>, address: TransportAddress, waker: TransportWaker) {
        (self.inbox, self.address, self.waker) = (inbox, address, waker)
    }
}

/// The loops of a broker, in the order of their numbers. A loop is added before its first connection.
package final class Peers: Sendable {
    private let handles = Mutex<[LoopHandle]>([])

    package init() {}

    package func add(_ loop: LoopHandle) { handles.withLock { $0.append(loop) } }
    package var all: [LoopHandle] { handles.withLock { $0 } }
    package var count: Int { handles.withLock { $0.count } }
}

extension UpstreamDelivery {
    package init(_ message: UpstreamMessage) {
        self.init(
            number: message.number, accepted: message.accepted, expires: message.expires,
            token: message.token.text, appName: message.appName, messageID: message.messageID,
            message: message.body)
    }
}
