// SPDX-License-Identifier: Apache-2.0
//
// A connection of several apps of a device, spoken frame by frame: what comes is kept for the channel
// that it is for. Rests on Peer.

import Martlet
import MartletWire
import Testing

final class SharedPeer {
    let peer: Peer
    private var told: UInt8 = 0
    private var heard: UInt8 = 0
    private var arrived: [UInt8: [BrokerFrame]] = [:]

    init(_ test: TestBroker, receiveBufferBytes: Int32? = nil) throws {
        peer = try test.peer(receiveBufferBytes: receiveBufferBytes)
        try peer.send(.hello(.shared))
        #expect(try peer.welcome().role == .shared)
    }

    /// An instance, attached.
    convenience init(_ test: TestBroker, _ app: Credentials, on channel: UInt8) throws {
        try self.init(test)
        try attach(app, on: channel)
    }

    struct Credentials {
        var project: String
        var token: String
        var deviceKey: String
    }

    func send(_ frame: ClientFrame, on channel: UInt8) throws {
        if channel != told { try peer.send(.channel(ChannelSelection(number: channel))) }
        told = channel
        try peer.send(frame)
    }

    /// The next frame on a channel.
    func next(on channel: UInt8) throws -> BrokerFrame {
        while arrived[channel, default: []].isEmpty {
            let frame = try peer.next()
            if case .channel(let selection) = frame {
                heard = selection.number
            } else {
                arrived[heard, default: []].append(frame)
            }
        }
        return arrived[channel]!.removeFirst()
    }

    func welcome(on channel: UInt8) throws -> Welcome {
        let frame = try next(on: channel)
        guard case .welcome(let welcome) = frame else {
            if case .error(let error) = frame { throw error.error }
            throw Peer.Failure.unexpected(frame)
        }
        return welcome
    }

    /// A new instance.
    func register(
        in project: String = TestBroker.project, app: String = "com.example.tides",
        on channel: UInt8
    ) throws -> Credentials {
        try send(
            .hello(.newDevice(projectID: project, appName: app, platform: .android)), on: channel)
        let welcome = try welcome(on: channel)
        return Credentials(
            project: project, token: welcome.token, deviceKey: welcome.deviceKey)
    }

    @discardableResult
    func attach(
        _ app: Credentials, taken: [UInt64] = [], on channel: UInt8
    ) throws -> Welcome {
        try send(
            .hello(
                .device(
                    projectID: app.project, token: app.token, deviceKey: app.deviceKey,
                    state: .active, unconfirmed: taken)), on: channel)
        return try welcome(on: channel)
    }

    /// The text of the only data entry `n`, and where it came from.
    func message(on channel: UInt8) throws -> (n: String, streamID: UInt64) {
        var frame = try next(on: channel)
        while case .confirmed = frame { frame = try next(on: channel) }
        guard case .deliver(let message) = frame else { throw Peer.Failure.unexpected(frame) }
        let content = try Message(decoding: message.message, unknownTags: .skip)
        return (content["n"] ?? "", message.streamID)
    }

    /// The end of an app: the word of why, if there is one, then DETACHED.
    func end(on channel: UInt8) throws -> ErrorWord? {
        var word: ErrorWord?
        while true {
            switch try next(on: channel) {
            case .error(let error) where error.correlation == 0: word = error.error.word
            case .detached: return word
            default: break
            }
        }
    }

    /// Everything that was said before has been seen, and nothing else has come on a channel.
    func isQuiet(on channel: UInt8) throws -> Bool {
        try send(.ping(Ping(value: 7)), on: channel)
        if case .pong = try next(on: channel) { return true }
        return false
    }
}
