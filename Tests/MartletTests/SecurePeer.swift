// SPDX-License-Identifier: Apache-2.0
//
// A peer of a TLS port: OpenSSL's client over memory, and a blocking socket. Rests on TLSPeers and Support.

import Glibc
import Martlet
import MartletWire
import TLSPeers
import Testing

/// A connection over TLS, spoken frame by frame.
final class SecurePeer {
    let socket: Peer
    let tls: TLSClient
    private var splitter = FrameSplitter(frameBytesMax: 1 << 20)
    private var arrived: [BrokerFrame] = []
    /// Bytes handed to the kernel at a time.
    var chunkBytes: Int

    /// Connects, and ends the handshake.
    convenience init(
        _ test: TestBroker, _ settings: TLSClientContext = TLSClientContext(),
        chunkBytes: Int = .max, receiveBufferBytes: Int32? = nil
    ) throws {
        try self.init(
            try test.peer(receiveBufferBytes: receiveBufferBytes), TLSClient(settings),
            chunkBytes: chunkBytes)
    }

    /// Ends a handshake that has begun on the socket.
    init(_ socket: Peer, _ tls: TLSClient, chunkBytes: Int = .max) throws {
        self.socket = socket
        self.tls = tls
        self.chunkBytes = chunkBytes
        while !tls.shake() {
            try flush()
            try receive()
        }
        try flush()
    }

    func flush() throws {
        var bytes = tls.take()[...]
        while !bytes.isEmpty {
            try socket.send(raw: Array(bytes.prefix(chunkBytes)))
            bytes = bytes.dropFirst(chunkBytes)
        }
    }

    /// Gives the next bytes of the socket to the client.
    func receive() throws {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = socket.withDescriptor { recv($0, &buffer, buffer.count, 0) }
        guard count > 0 else { throw Peer.Failure.receiving(count, errno: errno) }
        tls.give(buffer[..<count])
    }

    func send(_ frames: ClientFrame...) throws {
        var writer = WireWriter()
        for frame in frames { frame.encode(into: &writer) }
        tls.write(writer.bytes)
        try flush()
    }

    func next() throws -> BrokerFrame {
        while arrived.isEmpty {
            let plain = tls.read()
            if plain.isEmpty {
                try flush()
                guard !tls.hasServerClosed else { throw Peer.Failure.closed }
                try receive()
                continue
            }
            try plain.withUnsafeBytes { bytes in
                var chunk = bytes
                while let frame = try splitter.next(from: &chunk) {
                    arrived.append(try BrokerFrame.decode(type: frame.type, body: frame.body))
                }
            }
        }
        return arrived.removeFirst()
    }

    func welcome() throws -> Welcome {
        let frame = try next()
        guard case .welcome(let welcome) = frame else { throw Peer.Failure.unexpected(frame) }
        return welcome
    }

    /// A PING that has come back.
    func roundTrip(_ value: UInt64 = 7) throws {
        try send(.ping(Ping(value: value)))
        guard case .pong(let pong) = try next(), pong.value == value else {
            throw Peer.Failure.silent
        }
    }

    func newDevice() throws -> Welcome {
        try send(
            .hello(.newDevice(projectID: TestBroker.project, appName: "a.b", platform: .android)))
        return try welcome()
    }

    /// Reads until the broker has ended its side with close_notify.
    func waitForEnd() throws {
        do { while true { _ = try next() } } catch Peer.Failure.closed {}
        #expect(tls.hasServerClosed)
    }
}
