// SPDX-License-Identifier: Apache-2.0
//
// The links of one event loop. The user agents that use them live on the same event loop, so no message changes threads on
// its way to a socket. A link carries instances of any user agents, as many as a shared connection has channels: an idle
// subscription costs a channel, not a socket. Rests on BrokerLink.

import Logging
import Martlet
import NIOCore
import NIOPosix

/// The links of an event loop to the broker.
final class LinkPool {
    private let eventLoop: any EventLoop
    private let port: UInt16
    private let logger: Logger
    /// Searched for a free channel from the end, because the last link has the most.
    private var links: [BrokerLink] = []

    init(eventLoop: any EventLoop, port: UInt16, logger: Logger) {
        self.eventLoop = eventLoop
        self.port = port
        self.logger = logger
    }

    /// Attaches a subscription's instance. Its owner hears of messages, and of the end.
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
