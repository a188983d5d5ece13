// SPDX-License-Identifier: Apache-2.0
//
// A shared connection (role 5) to the broker in this process. The door's instances come to the broker like any device, so
// messages take the usual path, and the store keeps each one until the door acknowledges it. We read a link only while the
// door has room; what we don't read falls behind and waits in the store. Rests on MartletWire and NIO.

import Logging
import Martlet
import MartletClient
import MartletWire
import NIOCore

/// A shared connection to the broker, with an instance of one project on each channel.
final class DoorLink: ChannelInboundHandler {
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

    private enum Place {
        case free
        /// `refusal` is the error with which the broker is about to end the instance's session.
        case taken(DoorDevice, refusal: MartletError?)
        /// The instance has left; DETACHED hasn't come yet.
        case leaving
    }

    private let logger: Logger
    private unowned let project: DoorProject
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

    init(_ project: DoorProject, _ logger: Logger) {
        self.project = project
        self.logger = logger
    }

    var hasRoom: Bool {
        if case .ended = phase { return false }
        return !freeChannels.isEmpty
    }

    var isIdle: Bool { freeChannels.count == Limits.appsPerConnectionMax }

    // MARK: Instances

    func attach(_ device: DoorDevice) {
        guard let channel = freeChannels.popLast() else {
            preconditionFailure("A link without a free channel attaches no instance.")
        }
        places[Int(channel)] = .taken(device, refusal: nil)
        device.place = (self, channel)
        if case .open = phase { sayHello(of: device, on: channel) }
    }

    /// Detaches the channel's instance, which hears nothing more.
    func detach(_ channel: UInt8) {
        guard case .taken(let device, _) = places[Int(channel)] else { return }
        device.place = nil
        switch phase {
        case .open:
            places[Int(channel)] = .leaving
            send(.detach(Detach()), on: channel)
        case .opening, .ended:
            places[Int(channel)] = .free
            freeChannels.append(channel)
        }
    }

    private func sayHello(of device: DoorDevice, on channel: UInt8) {
        send(
            .hello(
                .device(
                    projectID: project.id, token: device.instance.token.text,
                    deviceKey: project.credential, state: .active,
                    unconfirmed: device.taken.reattach())),
            on: channel)
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

    func read(_ isAllowed: Bool) {
        guard isAllowed, isReadHeld, let context else { return }
        isReadHeld = false
        context.read()
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if project.mayRead { context.read() } else { isReadHeld = true }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let buffer = unwrapInboundIn(data)
        do {
            try splitter.split(buffer.readableBytesSpan) {
                (type, body) throws(WireError) in
                received(try BrokerFrame.decode(type: type, body: body))
            }
        } catch {
            logger.error(
                "a link to push services was closed", metadata: ["error": "\(error.martletError)"])
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
        guard case .taken(let device, _) = places[Int(channel)] else { return }
        switch frame {
        case .deliver(let message): project.came(message, for: device)
        case .deleted(let notice):
            send(.acknowledge(Acknowledge(through: 0, streamIDs: [notice.streamID])), on: channel)
        case .confirmed(let confirmed): device.taken.confirmed(confirmed.through)
        case .error(let frame): places[Int(channel)] = .taken(device, refusal: frame.error)
        default: break
        }
    }

    private func receivedForAll(_ frame: BrokerFrame) {
        switch frame {
        case .welcome:
            phase = .open
            beat()
            for channel in places.indices.dropFirst() {
                if case .taken(let device, _) = places[channel] {
                    sayHello(of: device, on: UInt8(channel))
                }
            }
        case .ping(let ping): send(.pong(Pong(value: ping.value)), on: 0)
        case .error(let frame):
            logger.debug(
                "the broker closed a link to push services", metadata: ["error": "\(frame.error)"])
        default: break
        }
    }

    private func freed(_ channel: UInt8) {
        let place = places[Int(channel)]
        places[Int(channel)] = .free
        freeChannels.append(channel)
        guard case .taken(let device, let refusal) = place else { return }
        device.place = nil
        project.detached(device, for: refusal)
    }

    // MARK: The connection

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func channelActive(context: ChannelHandlerContext) {
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
            "the door to push services cannot reach its broker",
            metadata: ["error": "\(NetworkFailure.words(error))"])
        end()
    }

    func close() {
        context?.close(promise: nil)
    }

    private func end() {
        if case .ended = phase { return }
        phase = .ended
        project.ended(self)
        for channel in places.indices {
            guard case .taken(let device, let refusal) = places[channel] else { continue }
            places[channel] = .free
            device.place = nil
            project.detached(device, for: refusal)
        }
    }
}

@available(*, unavailable)
extension DoorLink: Sendable {}
