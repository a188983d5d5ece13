// SPDX-License-Identifier: Apache-2.0
//
// A shared connection (role 5) to the broker in this process, over the loopback interface. The door's instances come to the
// broker like any device, so the loops need no second way to a session. Rests on MartletWire and NIO.

import Logging
import Martlet
import MartletClient
import MartletWire
import NIOCore

/// A shared connection to the broker, with an instance on each channel.
final class BrokerLink: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private enum Phase {
        /// Waits for WELCOME. Can transition to: open, ended.
        case opening
        /// Can transition to: ended.
        case open
        /// The connection is gone. Final.
        case ended
    }

    private enum App {
        case free
        /// `refusal` is the error with which the broker is about to detach the instance.
        case attached(Subscription, refusal: MartletError?)
        /// The instance has left; DETACHED hasn't come yet.
        case leaving
    }

    /// Seconds between pings, well within the time after which the broker closes a silent connection.
    private static let pingSeconds: Int64 = 60

    private let logger: Logger
    private let ended: (BrokerLink) -> Void
    private var phase = Phase.opening
    private var context: ChannelHandlerContext?
    private var splitter = FrameSplitter(frameBytesMax: Limits.brokerFrameBytesMax)
    private var writer = WireWriter()
    private var willFlush = false
    /// The apps by channel; channel 0 is the connection itself.
    private var apps = [App](repeating: .free, count: Limits.appsPerConnectionMax + 1)
    private var freeChannels = (1...UInt8(Limits.appsPerConnectionMax)).reversed().map { $0 }
    /// The channel of the last frame, in each direction.
    private var heard: UInt8 = 0
    private var told: UInt8 = 0

    /// - Parameter ended: called once, when no more instances can be attached.
    init(_ logger: Logger, ended: @escaping (BrokerLink) -> Void) {
        self.logger = logger
        self.ended = ended
    }

    var hasRoom: Bool {
        if case .ended = phase { return false }
        return !freeChannels.isEmpty
    }

    // MARK: Instances

    /// Attaches an instance on a free channel.
    func attach(_ subscription: Subscription) {
        guard let channel = freeChannels.popLast() else {
            preconditionFailure("A link without a free channel attaches no instance.")
        }
        apps[Int(channel)] = .attached(subscription, refusal: nil)
        subscription.place = (self, channel)
        if case .open = phase { sayHello(on: channel) }
    }

    /// Detaches the channel's instance. Its owner hears nothing more.
    func detach(_ channel: UInt8) {
        guard case .attached(let subscription, _) = apps[Int(channel)] else { return }
        subscription.place = nil
        switch phase {
        case .open:
            apps[Int(channel)] = .leaving
            send(.detach(Detach()), on: channel)
        case .opening, .ended:
            apps[Int(channel)] = .free
            freeChannels.append(channel)
        }
    }

    private func sayHello(on channel: UInt8) {
        guard case .attached(let subscription, _) = apps[Int(channel)],
            let hello = subscription.owner?.hello(subscription)
        else { return detach(channel) }
        send(.hello(hello), on: channel)
    }

    // MARK: Frames to the broker

    func send(_ frame: ClientFrame, on channel: UInt8) {
        if channel != told {
            told = channel
            ClientFrame.channel(ChannelSelection(number: channel)).encode(into: &writer)
        }
        frame.encode(into: &writer)
        guard !willFlush, let context else { return }
        willFlush = true
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.eventLoop.execute { bound.value.flush() }
    }

    /// Sends all frames of a round of the event loop in one write.
    private func flush() {
        willFlush = false
        guard let context, !writer.bytes.isEmpty else { return }
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: writer.bytes)), promise: nil)
        writer.reset()
    }

    // MARK: Frames of the broker

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let buffer = unwrapInboundIn(data)
        do {
            try splitter.split(buffer.readableBytesSpan) {
                (type, body) throws(WireError) in
                received(try BrokerFrame.decode(type: type, body: body))
            }
        } catch {
            logger.error(
                "a Web Push link was closed", metadata: ["error": "\(error.martletError)"])
            context.close(promise: nil)
        }
    }

    private func received(_ frame: BrokerFrame) {
        if case .channel(let selection) = frame {
            heard = selection.number
            return
        }
        guard heard != 0 else { return receivedForAll(frame) }
        let channel = heard
        if case .detached = frame { return freed(channel) }
        guard case .attached(let subscription, _) = apps[Int(channel)] else { return }
        switch frame {
        case .deliver(let message): deliver(message, to: subscription, on: channel)
        case .deleted(let notice):
            send(.acknowledge(Acknowledge(through: 0, streamIDs: [notice.streamID])), on: channel)
        case .confirmed(let confirmed): subscription.confirmed(confirmed.through)
        case .error(let frame):
            apps[Int(channel)] = .attached(subscription, refusal: frame.error)
        default: break
        }
    }

    private func receivedForAll(_ frame: BrokerFrame) {
        switch frame {
        case .welcome:
            phase = .open
            beat()
            for channel in apps.indices.dropFirst() {
                if case .attached = apps[channel] { sayHello(on: UInt8(channel)) }
            }
        case .ping(let ping): send(.pong(Pong(value: ping.value)), on: 0)
        // A link that carries no instance any more is closed in a while, which is its usual end.
        case .error(let frame) where freeChannels.count < Limits.appsPerConnectionMax:
            logger.warning(
                "the broker closed a Web Push link", metadata: ["error": "\(frame.error)"])
        default: break
        }
    }

    private func deliver(_ message: Deliver, to subscription: Subscription, on channel: UInt8) {
        guard let owner = subscription.owner else { return detach(channel) }
        guard owner.mayTake else { return owner.stall() }
        switch subscription.came(message.streamID) {
        case .send: owner.take(message, of: subscription)
        case .wait: break
        case .end(let acknowledgement): send(.acknowledge(acknowledgement), on: channel)
        }
    }

    private func freed(_ channel: UInt8) {
        let app = apps[Int(channel)]
        apps[Int(channel)] = .free
        freeChannels.append(channel)
        guard case .attached(let subscription, let refusal) = app else { return }
        subscription.place = nil
        subscription.owner?.detached(subscription, for: refusal)
    }

    // MARK: The connection

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func channelActive(context: ChannelHandlerContext) {
        send(.hello(.shared), on: 0)
        context.fireChannelActive()
    }

    private func beat() {
        guard let context, case .open = phase else { return }
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.eventLoop.scheduleTask(in: .seconds(Self.pingSeconds)) {
            guard case .open = bound.value.phase else { return }
            bound.value.send(.ping(Ping(value: 0)), on: 0)
            bound.value.beat()
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.context = nil
        end()
    }

    /// The broker couldn't be reached.
    func connectingFailed(_ error: any Error) {
        logger.warning(
            "Web Push cannot reach its broker",
            metadata: ["error": "\(NetworkFailure.words(error))"])
        end()
    }

    private func end() {
        if case .ended = phase { return }
        phase = .ended
        ended(self)
        for channel in apps.indices {
            guard case .attached(let subscription, let refusal) = apps[channel] else { continue }
            apps[channel] = .free
            subscription.place = nil
            subscription.owner?.detached(subscription, for: refusal)
        }
    }
}

@available(*, unavailable)
extension BrokerLink: Sendable {}
