// SPDX-License-Identifier: Apache-2.0
//
// Random histories of app servers that come, acknowledge, and break off without a word, beside a naive model of what
// each message of a device may do (UPS-1, GW-10):
//
//   - a message comes to one connection at a time: to the next one when its connection has ended, and not before;
//   - an acknowledged message comes no more, once the server has served the acknowledgement;
//   - an acknowledgement that was written and not served may be lost with its connection: the message may come again;
//   - at the end every message has come, and been acknowledged.
//
// Rests on XMPPWorld.

import Foundation
import Martlet
import MartletXMPP
import Testing

extension OverXMPP {
    @Suite("XMPP: a model of acknowledgements", .serialized, .timeLimit(.minutes(5)))
    struct AcknowledgementModelTests {
        /// An app server of the model.
        private final class AppServer {
            let peer: StanzaPeer
            /// ID of the server key with which the app server has signed in.
            let keyID: String
            /// Messages that came and were not acknowledged.
            var held: [String: JSONValue] = [:]
            /// Messages whose acknowledgement was written and perhaps not served.
            var written: Set<String> = []

            init(_ world: XMPPWorld) async throws {
                let key = try await world.broker.createServerKey(
                    named: "model", in: XMPPWorld.project)
                keyID = key.id
                peer = try await world.newPeer()
                try await peer.signIn(world.plain(key: key.text))
            }
        }

        /// Ways in which a connection ends.
        private enum Loss: CaseIterable {
            /// The app server breaks off without a word.
            case drop
            /// The app server ends its stream.
            case orderly
            /// The server ends the connection, because the key was revoked.
            case revocation
        }

        private struct Model {
            /// Messages of devices that were not acknowledged: each comes, again if its connection ends.
            var open: Set<String> = []
            /// Messages whose acknowledgement may be lost with its connection: each may come again.
            var uncertain: Set<String> = []
            var came: Set<String> = []
        }

        @Test(
            "GW-10 UPS-1 no message of a device is lost, and none comes again but as the rules say",
            arguments: 1...10)
        func histories(seed: UInt64) async throws {
            var random = SeededNumbers(seed: seed)
            var model = Model()
            var sentCount = 0
            try await XMPPWorld.run { world in
                let tokens = try await [world.newToken(), world.newToken()]
                var servers: [AppServer] = []
                for _ in 0..<250 {
                    switch random.next(below: 10) {
                    case 0 where servers.count < 4:
                        servers.append(try await AppServer(world))
                    case 1 where !servers.isEmpty:
                        let server = servers.remove(at: random.next(below: servers.count))
                        let loss = Loss.allCases[random.next(below: Loss.allCases.count)]
                        try await lose(server, &model, world, by: loss)
                    case 2...5:
                        let id = "m\(sentCount)"
                        sentCount += 1
                        model.open.insert(id)
                        try await world.sendUpstream(id, from: tokens[random.next(below: 2)])
                    case 6...8 where !servers.isEmpty:
                        let server = servers[random.next(below: servers.count)]
                        try await settle(server, servers, &model)
                        for _ in 0..<random.next(below: 6) {
                            let ids = server.held.keys.sorted()
                            guard !ids.isEmpty else { break }
                            let id = ids[random.next(below: ids.count)]
                            try await server.peer.acknowledge(server.held.removeValue(forKey: id)!)
                            server.written.insert(id)
                        }
                    case 9 where servers.count > 1:
                        // An acknowledgement on a connection of others has no effect but its refusal.
                        try await settle(servers[0], servers, &model)
                        try await settle(servers[1], servers, &model)
                        if let message = servers[0].held.values.first {
                            try await servers[1].peer.acknowledge(message)
                            #expect(try await nack(servers[1], servers, &model) == "BAD_ACK")
                        }
                    default: break
                    }
                }
                for server in servers { try await lose(server, &model, world, by: .drop) }
                // One last app server takes whatever is left.
                let last = try await AppServer(world)
                while !model.open.isEmpty {
                    try await settle(last, [last], &model)
                    for (id, message) in last.held {
                        try await last.peer.acknowledge(message)
                        last.written.insert(id)
                    }
                    last.held = [:]
                }
            }
            #expect(model.came.count == sentCount)
        }

        /// Waits until the server has served all that was written, and takes what has come.
        private func settle(
            _ server: AppServer, _ servers: [AppServer], _ model: inout Model
        ) async throws {
            let text = try await server.peer.ping()
            model.open.subtract(server.written)
            server.written = []
            try take(text, server, servers, &model)
        }

        private func take(
            _ text: String, _ server: AppServer, _ servers: [AppServer], _ model: inout Model
        ) throws {
            for match in text.matches(of: /<gcm xmlns="google:mobile:data">(.*?)<\/gcm>/) {
                try take(
                    try JSONValue(parsing: StanzaPeer.unescaped(String(match.1))), server, servers,
                    &model)
            }
        }

        private func take(
            _ message: JSONValue, _ server: AppServer, _ servers: [AppServer],
            _ model: inout Model
        ) throws {
            let id = try #require(message.text("message_id"))
            if model.uncertain.remove(id) != nil { model.open.insert(id) }
            #expect(model.open.contains(id), "\(id) came though it was acknowledged")
            for other in servers {
                #expect(other.held[id] == nil, "\(id) is with a connection that is open")
            }
            model.came.insert(id)
            server.held[id] = message
        }

        /// The word of the refusal that comes next; messages before it are taken.
        private func nack(
            _ server: AppServer, _ servers: [AppServer], _ model: inout Model
        ) async throws -> String {
            while true {
                let message = try await server.peer.hear()
                if message.text("message_type") == "nack" { return message.text("error") ?? "" }
                try take(message, server, servers, &model)
            }
        }

        /// The connection ends.
        private func lose(
            _ server: AppServer, _ model: inout Model, _ world: XMPPWorld, by loss: Loss
        ) async throws {
            model.open.subtract(server.written)
            switch loss {
            case .drop:
                model.uncertain.formUnion(server.written)
                await server.peer.drop()
            case .orderly:
                // Whatever was written before the end of the stream is served.
                try await server.peer.write("</stream:stream>")
                _ = await server.peer.readToEnd()
            case .revocation:
                model.uncertain.formUnion(server.written)
                try await world.broker.revokeServerKey(server.keyID, in: XMPPWorld.project)
                _ = await server.peer.readToEnd()
            }
        }
    }
}
