// SPDX-License-Identifier: Apache-2.0
//
// The links of one event loop. All links and the user agents that use them live on the event loop, so no message changes
// threads on its way to a socket. A link carries as many instances as a shared connection has channels, of any user
// agents: an idle subscription costs a channel, and no socket of its own. Rests on BrokerLink.

import Logging
import Martlet
import NIOCore
import NIOPosix

/// The links of an event loop to the broker.
final class LinkPool {
    private let eventLoop: any EventLoop
    private let port: UInt16
    private let logger: Logger
    /// Links with a free channel are searched from the last, which has most.
    private var links: [BrokerLink] = []

    init(eventLoop: any EventLoop, port: UInt16, logger: Logger) {
        self.eventLoop = eventLoop
        self.port = port
        self.logger = logger
    }

    /// Attaches the instance of a subscription. The subscription's owner hears of messages, and of the end.
    func attach(_ subscription: Subscription) {
        if let link = links.last(where: \.hasRoom) { return link.attach(subscription) }
        let link = BrokerLink(logger) { [weak self] link in
            self?.links.removeAll { $0 === link }
        }
        links.append(link)
        link.attach(subscription)
        open(link)
    }

    private func open(_ link: BrokerLink) {
        let bound = NIOLoopBound(link, eventLoop: eventLoop)
        ClientBootstrap(group: eventLoop)
            .channelOption(.socketOption(.tcp_nodelay), value: 1)
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
