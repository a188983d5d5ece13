// SPDX-License-Identifier: Apache-2.0
//
// A node of the tests' own on a link to a real node: it has the keys of the cluster, and says what a test wants. Rests on
// KeyedConnection and NodeFrame.

import Foundation
import Glibc
import MartletBase
import MartletCluster
import MartletCrypto
import MartletWire

final class LinkPeer {
    private let descriptor: Int32
    private let link: KeyedConnection
    private var splitter = FrameSplitter(frameBytesMax: NodeLimits.frameBytesMax)
    private var frames: [NodeFrame] = []

    /// Connects to a node of the bench, with the keys of its folder.
    init(_ bench: ClusterBench, to node: String, incarnation: [UInt8]) throws {
        let text = try String(contentsOfFile: bench.path(node) + "/token.key", encoding: .utf8)
        guard let key = Base64URL.decode(text.trimmingCharacters(in: .whitespacesAndNewlines))
        else { throw PostgresPrograms.Failure(description: "the folder has no key") }
        let socket = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = bench.nodePort(node).bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let isConnected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        guard isConnected else {
            close(socket)
            throw PostgresPrograms.Failure(description: "nothing listens for nodes")
        }
        _ = fcntl(socket, F_SETFL, O_NONBLOCK)
        descriptor = socket
        let secret = AuthenticationKey(key).code(of: Array("martlet links".utf8) + incarnation)
        link = KeyedConnection(socket, secret: secret, isServer: false)!
        let patience = Patience("the handshake does not end")
        while link.shakeHands() != .done(0) { try patience.wait() }
    }

    deinit { close(descriptor) }

    func send(_ frame: NodeFrame) throws {
        var writer = WireWriter()
        frame.encode(into: &writer)
        try send(writer.bytes)
    }

    func send(_ bytes: [UInt8]) throws {
        let patience = Patience("the node takes no frame")
        while true {
            if case .done = bytes.withUnsafeBytes({ link.write($0) }) { return }
            try patience.wait()
        }
    }

    /// The next frame; nil: the node has closed the link.
    func next() throws -> NodeFrame? {
        let patience = Patience("the node says nothing")
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 16, alignment: 16)
        defer { buffer.deallocate() }
        while frames.isEmpty {
            switch link.read(into: buffer) {
            case .done(let count):
                var chunk = UnsafeRawBufferPointer(rebasing: buffer[..<count])
                while let frame = try splitter.next(from: &chunk) {
                    frames.append(try NodeFrame.decode(type: frame.type, body: frame.body))
                }
            case .ended: return nil
            case .wantsToRead, .wantsToWrite: try patience.wait()
            }
        }
        return frames.removeFirst()
    }
}
