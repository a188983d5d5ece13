// SPDX-License-Identifier: Apache-2.0
//
// What the Web Push door asks of its broker: the channels of user agents (GW-13), which are instances, and the files
// and ports that the door shares with the broker. The door's devices have no key of their own to keep: the door makes
// the device key of an instance from its token and a secret. Rests on Broker.

package import MartletBase
import MartletCommitter
import MartletEngine
package import MartletRows

/// A channel of a user agent, and the token of its instance.
package struct AgentInstance: Sendable {
    /// The bytes of the channel's UUID.
    package var channel: [UInt8]
    package var token: Token
}

extension Broker {
    /// GW-12: reads the secret of the door's endpoints from the data folder, or makes a secret. Without the secret all
    /// endpoints are lost.
    /// - Throws: `StoreOpenError`.
    package func webPushSecret() throws -> [UInt8] {
        try DataFolder.webPushSecret(in: folder, isShared: committer.node != nil)
    }

    /// The port of a listener that this process reaches on the loopback address, in plain text and without a proxy's
    /// header; nil without such a listener.
    package var plainPort: UInt16? {
        zip(configuration.listeners, ports).first { configuration.isLocal($0.0) }?.1
    }

    /// The instances of a user agent.
    /// - Throws: `NOT_FOUND` for the project.
    package func instances(
        of agent: SecretDigest, in project: String
    ) throws(MartletError) -> [AgentInstance] {
        let number = try number(of: project)
        return try ask { (transaction) throws in
            var found: [AgentInstance] = []
            for (channel, ordinal) in try transaction.agents.channels(of: agent, in: number) {
                guard let instance = try transaction.instances.instance(ordinal, in: number) else {
                    continue
                }
                found.append(AgentInstance(channel: channel.channel, token: instance.token))
            }
            return found
        }
    }

    /// Registers a channel of a user agent (REG-7, REG-8). A channel that is registered keeps its instance.
    /// - Parameters:
    ///   - credential: what the user agent presents.
    ///   - address: of the user agent; its registrations are bounded.
    ///   - deviceKey: makes the device key of a token.
    /// - Throws: `PERMISSION_DENIED` without what the project's policy wants; `RESOURCE_EXHAUSTED` for too many
    ///   channels, instances or registrations; `NOT_FOUND` for the project.
    package func register(
        _ channel: AgentChannel, app: String, in project: String,
        presenting credential: RegistrationCredential, from address: PeerAddress,
        deviceKey: @Sendable (Token) -> String
    ) async throws(MartletError) -> Token {
        if let known = try await token(of: channel, in: project) { return known }
        let token = Credentials.token()
        let new = try admitted {
            try NewInstance(
                admitting: credential, to: project, app: app, platform: .web, token: token,
                deviceKey: deviceKey(token), now: clock(), store: store, channel: channel)
        }
        try strangers.register(from: address)
        do throws(MartletError) {
            _ = try await perform(.register(new))
            return token
        } catch {
            // Another connection of the user agent may have registered the channel meanwhile.
            guard error.word == .alreadyExists,
                let known = try await self.token(of: channel, in: project)
            else { throw error }
            return known
        }
    }

    /// OPS-10: makes a new instance of a door's device. A refusal is counted for no project, because anybody may name one
    /// with a wrong credential.
    func admitted(_ make: () throws -> NewInstance) throws(MartletError) -> NewInstance {
        try counting(in: nil) { () throws(MartletError) in
            do { return try make() } catch let error as MartletError {
                throw error
            } catch {
                throw .unreadable(error)
            }
        }
    }

    private func token(
        of channel: AgentChannel, in project: String
    ) async throws(MartletError) -> Token? {
        let number = try await number(of: project)
        return try await ask { (transaction) throws in
            guard let ordinal = try transaction.agents.ordinal(of: channel, in: number) else {
                return nil
            }
            return try transaction.instances.instance(ordinal, in: number)?.token
        }
    }
}
