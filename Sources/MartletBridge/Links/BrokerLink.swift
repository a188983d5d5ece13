// SPDX-License-Identifier: Apache-2.0
//
// A shared connection (role 5) to the broker in this process, over the loopback interface. A door's instances come to the
// broker like any device, so messages take the usual path, the loops need no second way to a session, and the store keeps
// each message until the door acknowledges it. We read a link only while the door has room; what we don't read falls behind
// and waits in the store. Rests on MartletWire and NIO.

import Logging
import Martlet
import MartletClient
package import MartletWire
package import NIOCore

/// An instance of a door. Its calls come from the event loop of its link.
package protocol LinkedInstance: AnyObject {
    /// Where it is attached; nil if it isn't.
    var place: (link: BrokerLink, channel: UInt8)? { get set }
    /// The frame that attaches it; nil if nobody wants its messages any more.
    func hello() -> Hello?
    /// A message has come from the broker.
    func came(_ message: Deliver)
    /// The acknowledgements up to `through` are on disk.
    func confirmed(_ through: UInt64)
    /// The broker has ended its session, or the link is gone.
    func detached(for refusal: MartletError?)
}

/// A shared connection to the broker, with an instance on each channel.
package final class BrokerLink: ChannelInboundHandler {
    package typealias InboundIn = ByteBuffer
    package typealias OutboundOut = ByteBuffer

    private enum Phase {
        /// Waits for WELCOME. Can transition to: open, ended.
        case opening
        /// Can transition to: ended.
        case open
        /// The connection is gone. Final.
        case ended
    }

    private enum Place {
        case free
        /// `refusal` is the error with which the broker is about to end the instance's session.
        case taken(any LinkedInstance, refusal: MartletError?)
        /// The instance has left; DETACHED hasn't come yet.
        case leaving
    }

    private let words: LinkWords
    private weak var pool: LinkPool?
    private var phase = Phase.opening
    private var context: ChannelHandlerContext?
    private var splitter = FrameSplitter(frameBytesMax: Limits.brokerFrameBytesMax)
    private var writer = WireWriter()
    private var willFlush = false
    private var isReadHeld = false
    /// The instances by channel; channel 0 is the connection itself.
    private var places = [Place](repeating: .free, count: Limits.appsPerConnectionMax + 1)
    private var freeChannels = (1...UInt8(Limits.appsPerConnectionMax)).reversed().map { $0 }
    /// The channel of the last frame, in each direction.
    private var heard: UInt8 = 0
    private var told: UInt8 = 0

    init(_ pool: LinkPool, _ words: LinkWords) {
        self.pool = pool
        self.words = words
    }

    var hasRoom: Bool {
        if case .ended = phase { return false }
        return !freeChannels.isEmpty
    }

    // MARK: Instances

    func attach(_ instance: any LinkedInstance) {
        guard let channel = freeChannels.popLast() else {
            preconditionFailure("A link without a free channel attaches no instance.")
        }
        places[Int(channel)] = .taken(instance, refusal: nil)
        instance.place = (self, channel)
        if case .open = phase { sayHello(of: instance, on: channel) }
    }

    /// Detaches the channel's instance, which hears nothing more.
    package func detach(_ channel: UInt8) {
        guard case .taken(let instance, _) = places[Int(channel)] else { return }
        instance.place = nil
        switch phase {
        case .open:
            places[Int(channel)] = .leaving
            send(.detach(Detach()), on: channel)
        case .opening, .ended:
            places[Int(channel)] = .free
            freeChannels.append(channel)
        }
    }

    private func sayHello(of instance: any LinkedInstance, on channel: UInt8) {
        guard let hello = instance.hello() else { return detach(channel) }
        send(.hello(hello), on: channel)
    }

    // MARK: Frames to the broker

    package func send(_ frame: ClientFrame, on channel: UInt8) {
        if channel != told {
            told = channel
            ClientFrame.channel(ChannelSelection(number: channel)).encode(into: &writer)
        }
        frame.encode(into: &writer)
        guard !willFlush, let context else { return }
        willFlush = true
        context.eventLoop.assumeIsolated().execute { [weak self] in self?.flush() }
    }

    /// Sends all frames of a round of the event loop in one write.
    private func flush() {
        willFlush = false
        guard let context, !writer.bytes.isEmpty else { return }
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: writer.bytes)), promise: nil)
        writer.reset()
    }

    // MARK: Frames from the broker

    /// Reads on after a time without room.
    func readAgain() {
        guard isReadHeld, let context else { return }
        isReadHeld = false
        context.read()
    }

    package func channelReadComplete(context: ChannelHandlerContext) {
        if pool?.isReading ?? true { context.read() } else { isReadHeld = true }
    }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let buffer = unwrapInboundIn(data)
        do {
            try splitter.split(buffer.readableBytesSpan) {
                (type, body) throws(WireError) in
                received(try BrokerFrame.decode(type: type, body: body))
            }
        } catch {
            words.logger.error(
                "a \(words.name) was closed", metadata: ["error": "\(error.martletError)"])
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
        guard case .taken(let instance, _) = places[Int(channel)] else { return }
        switch frame {
        case .deliver(let message): instance.came(message)
        case .deleted(let notice):
            send(.acknowledge(Acknowledge(through: 0, streamIDs: [notice.streamID])), on: channel)
        case .confirmed(let confirmed): instance.confirmed(confirmed.through)
        case .error(let frame): places[Int(channel)] = .taken(instance, refusal: frame.error)
        default: break
        }
    }

    private func receivedForAll(_ frame: BrokerFrame) {
        switch frame {
        case .welcome:
            phase = .open
            beat()
            for channel in places.indices.dropFirst() {
                if case .taken(let instance, _) = places[channel] {
                    sayHello(of: instance, on: UInt8(channel))
                }
            }
        case .ping(let ping): send(.pong(Pong(value: ping.value)), on: 0)
        // A link that carries no instance any more is closed in a while, which is its usual end.
        case .error(let frame) where freeChannels.count < Limits.appsPerConnectionMax:
            words.logger.log(
                level: words.closing, "the broker closed a \(words.name)",
                metadata: ["error": "\(frame.error)"])
        default: break
        }
    }

    private func freed(_ channel: UInt8) {
        let place = places[Int(channel)]
        places[Int(channel)] = .free
        freeChannels.append(channel)
        guard case .taken(let instance, let refusal) = place else { return }
        instance.place = nil
        instance.detached(for: refusal)
    }

    // MARK: The connection

    package func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    package func channelActive(context: ChannelHandlerContext) {
        send(.hello(.shared), on: 0)
        context.read()
        context.fireChannelActive()
    }

    private func beat() {
        guard let context, case .open = phase else { return }
        context.eventLoop.assumeIsolated().scheduleTask(
            in: .seconds(BridgeLimits.pingSeconds)
        ) { [weak self] in
            guard let self, case .open = phase else { return }
            send(.ping(Ping(value: 0)), on: 0)
            beat()
        }
    }

    package func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    package func channelInactive(context: ChannelHandlerContext) {
        self.context = nil
        end()
    }

    /// The broker couldn't be reached.
    func connectingFailed(_ error: any Error) {
        words.logger.warning(
            "\(words.door) cannot reach its broker",
            metadata: ["error": "\(NetworkFailure.words(error))"])
        end()
    }

    func close() {
        context?.close(promise: nil)
    }

    private func end() {
        if case .ended = phase { return }
        phase = .ended
        pool?.ended(self)
        for channel in places.indices {
            guard case .taken(let instance, let refusal) = places[channel] else { continue }
            places[channel] = .free
            instance.place = nil
            instance.detached(for: refusal)
        }
    }
}

@available(*, unavailable)
extension BrokerLink: Sendable {}
