// SPDX-License-Identifier: Apache-2.0
//
// The links of a door on one event loop. What uses them lives on the same event loop, so no message changes threads on its
// way. A link carries as many instances as a shared connection has channels: an idle instance costs a channel, not a socket.
// Rests on BrokerLink.

package import Logging
import Martlet
package import NIOCore
import NIOPosix

/// What the log says of a door's links.
package struct LinkWords {
    let logger: Logger
    /// The door, at the beginning of a sentence.
    let door: String
    /// A link of the door.
    let name: String
    /// Level of the line for a link that the broker closed.
    let closing: Logger.Level

    package init(_ logger: Logger, door: String, name: String, closing: Logger.Level) {
        (self.logger, self.door, self.name, self.closing) = (logger, door, name, closing)
    }
}

/// The links of an event loop to the broker.
package final class LinkPool {
    private let eventLoop: any EventLoop
    private let port: UInt16
    private let words: LinkWords
    /// Searched for a free channel from the end, because the last link has the most.
    private var links: [BrokerLink] = []
    /// Whether the door has room for messages.
    private(set) var isReading = true

    package init(eventLoop: any EventLoop, port: UInt16, _ words: LinkWords) {
        self.eventLoop = eventLoop
        self.port = port
        self.words = words
    }

    /// Attaches an instance, which hears of messages, and of the end.
    package func attach(_ instance: any LinkedInstance) {
        if let link = links.last(where: \.hasRoom) { return link.attach(instance) }
        let link = BrokerLink(self, words)
        links.append(link)
        link.attach(instance)
        connect(link)
    }

    func ended(_ link: BrokerLink) { links.removeAll { $0 === link } }

    func close() { for link in links { link.close() } }

    /// Stops or goes on to read what comes from the broker.
    func read(_ isAllowed: Bool) {
        isReading = isAllowed
        if isAllowed { for link in links { link.readAgain() } }
    }

    private func connect(_ link: BrokerLink) {
        let bound = NIOLoopBound(link, eventLoop: eventLoop)
        ClientBootstrap(group: eventLoop)
            .channelOption(.socketOption(.tcp_nodelay), value: 1)
            .channelOption(.autoRead, value: false)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(bound.value)
                }
            }
            .connect(host: "127.0.0.1", port: Int(port))
            .whenFailure { error in bound.value.connectingFailed(error) }
    }
}

@available(*, unavailable)
extension LinkPool: Sendable {}
