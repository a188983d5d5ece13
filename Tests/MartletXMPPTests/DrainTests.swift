// SPDX-License-Identifier: Apache-2.0
//
// CONNECTION_DRAINING (GW-10): at the end of the broker and at a change of the certificate, an app server turns to
// another connection, and finishes on the old one. Rests on XMPPWorld.

import Foundation
import Martlet
import MartletXMPP
import ServiceLifecycle
import Synchronization
import Testing

/// Whether a node is drained, as the test decides.
private final class DrainSign: Sendable {
    let isSet = Atomic(false)
}

extension OverXMPP {
    @Suite("XMPP: draining", .serialized, .timeLimit(.minutes(3)))
    struct DrainTests {
        private static let draining = JSONValue.object([
            "message_type": .string("control"), "control_type": .string("CONNECTION_DRAINING"),
        ])

        @Test(
            "GW-10 NET-5 at the broker's end app servers are told, finish what is unacknowledged, and lose nothing"
        )
        func shutdown() async throws {
            let folder = try XMPPFolder()
            try await XMPPWorld.run(in: folder) { world in
                let token = try await world.newToken()
                let peer = try await world.newAppServer()
                let other = try await world.newAppServer()
                let stranger = try await world.newPeer()
                try await stranger.open()
                for id in ["a", "b"] { try await world.sendUpstream(id, from: token) }
                let (first, second) = try await (peer.hear(), other.hear())
                #expect(first.text("message_id") == "a" && second.text("message_id") == "b")
                let ending = Task { await world.services.triggerGracefulShutdown() }
                #expect(try await peer.hear() == Self.draining)
                let refused = try await peer.ask(#"{"to": "\#(token)", "message_id": "1"}"#)
                #expect(refused.text("error") == "CONNECTION_DRAINING")
                try await peer.acknowledge(first)
                // The acknowledged connection ends by itself, and the stranger at once.
                #expect(await peer.readToEnd().contains("<system-shutdown "))
                #expect(await stranger.readToEnd().contains("<system-shutdown "))
                #expect(try await other.hear() == Self.draining)
                await other.drop()
                await ending.value
            }
            try await XMPPWorld.run(in: folder) { world in
                let peer = try await world.newAppServer()
                #expect(try await peer.hear().text("message_id") == "b")
                #expect(try await peer.ping() == "")
            }
        }

        @Test(
            "GW-10 OPS-11 a changed certificate drains open connections, and an unchanged one does not"
        )
        func certificate() async throws {
            try await XMPPWorld.run({ $0.drainSecondsMin = 1 }) { world in
                let token = try await world.newToken()
                let old = try await world.newAppServer()
                for id in ["a", "b"] { try await world.sendUpstream(id, from: token) }
                let held = try await [old.hear(), old.hear()]
                try world.server.reloadCertificate()
                #expect(try await old.ping() == "")
                try world.folder.renewCertificate()
                try world.server.reloadCertificate()
                #expect(try await old.hear() == Self.draining)
                // The new certificate is trusted here, and the old one is not.
                let new = try await world.newAppServer()
                try await world.sendUpstream("c", from: token)
                let next = try await new.hear()
                #expect(next.text("message_id") == "c")
                #expect(try await old.ping() == "")
                for message in held { try await old.acknowledge(message) }
                #expect(await old.readToEnd().contains("<reset "))
                try await new.acknowledge(next)
                #expect(try await new.ping() == "")
            }
        }

        @Test("OPS-7 GW-10 a drained node sends app servers away, and takes them again later")
        func drainedNode() async throws {
            let sign = DrainSign()
            try await XMPPWorld.run(isDrained: { sign.isSet.load(ordering: .acquiring) }) {
                world in
                let token = try await world.newToken()
                let peer = try await world.newAppServer()
                let stranger = try await world.newPeer()
                try await stranger.open()
                try await world.sendUpstream("a", from: token)
                let message = try await peer.hear()
                sign.isSet.store(true, ordering: .releasing)
                #expect(try await peer.hear() == Self.draining)
                let refused = try await peer.ask(#"{"to": "\#(token)", "message_id": "1"}"#)
                #expect(refused.text("error") == "CONNECTION_DRAINING")
                // What is unacknowledged is finished on the connection, which then ends by itself.
                try await peer.acknowledge(message)
                #expect(await peer.readToEnd().contains("<system-shutdown "))
                #expect(await stranger.readToEnd().contains("<system-shutdown "))
                let late = try await world.newPeer()
                try await late.write(StanzaPeer.header)
                #expect(await late.readToEnd().contains("<system-shutdown "))
                sign.isSet.store(false, ordering: .releasing)
                #expect(try await world.newAppServer().ping() == "")
            }
        }

        @Test("GW-10 what a draining connection never acknowledges goes to the next one")
        func unacknowledged() async throws {
            let short = { (configuration: inout XMPPConfiguration) in
                configuration.drainSecondsMin = 0
                configuration.drainSecondsMax = 1
            }
            try await XMPPWorld.run(short) { world in
                let token = try await world.newToken()
                let old = try await world.newAppServer()
                try await world.sendUpstream("a", from: token)
                let message = try await old.hear()
                try world.folder.renewCertificate()
                try world.server.reloadCertificate()
                let new = try await world.newAppServer()
                #expect(await old.readToEnd().contains("<reset "))
                #expect(try await new.hear() == message)
            }
        }

        @Test("GW-10 an app server that ends its stream gets the answers to its sends first")
        func orderlyEnd() async throws {
            try await XMPPWorld.run { world in
                let token = try await world.newToken()
                let peer = try await world.newAppServer()
                for number in 0..<50 {
                    try await peer.say(#"{"to": "\#(token)", "message_id": "\#(number)"}"#)
                }
                try await peer.write("</stream:stream>")
                for number in 0..<50 {
                    #expect(try await peer.hear().text("message_id") == "\(number)")
                }
                #expect(await peer.readToEnd() == "</stream:stream>")
            }
        }

        @Test("OPS-11 a certificate that cannot be used is refused, at the start and later")
        func badCertificate() async throws {
            try await XMPPWorld.run { world in
                let peer = try await world.newAppServer()
                try Data("nonsense".utf8).write(to: URL(filePath: world.folder.certificate.chain))
                #expect { try world.server.reloadCertificate() } throws: {
                    ($0 as? MartletError)?.field == "xmpp-certificate"
                }
                let configuration = XMPPConfiguration(certificate: world.folder.certificate)
                #expect(throws: MartletError.self) {
                    try XMPPServer(world.broker, configuration)
                }
                #expect(try await peer.ping() == "")
            }
        }

        @Test("GW-10 a port in use is named")
        func portInUse() async throws {
            try await XMPPWorld.run { world in
                var configuration = XMPPConfiguration(certificate: world.folder.certificate)
                configuration.addresses = [.init(port: 0), .init(port: world.port)]
                let second = try XMPPServer(world.broker, configuration)
                await #expect {
                    try await second.run()
                } throws: { error in
                    "\(error)".contains("\(world.port) is in use")
                }
                await #expect(throws: MartletError.self) { _ = try await second.ports() }
            }
        }
    }
}
