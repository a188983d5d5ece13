// SPDX-License-Identifier: Apache-2.0
//
// The channels of Web Push user agents (GW-13). A channel is an instance. The store has a digest in place of the user agent's
// secret ID, so a copy of the store lets no one in. Rests on the rows.

package import MartletBase
package import MartletRows

/// The channels of user agents, and the way back from their instances.
package struct AgentLedger: Ledger {
    package let context: LedgerContext

    package init(_ context: LedgerContext) { self.context = context }

    /// A user agent's instances, in the order of their channels.
    /// - Parameter limit: most channels to read.
    package func channels(
        of agent: SecretDigest, in project: ProjectNumber, limit: Int = .max
    ) throws(StorageError) -> [(channel: AgentChannel, ordinal: Ordinal)] {
        let prefix = Self.key(agent.bytes, in: project)
        let cursor = try Cursor(raw, .agents)
        var found = try cursor.seek(prefix)
        var all: [(channel: AgentChannel, ordinal: Ordinal)] = []
        while all.count < limit, let entry = found, prefix.isPrefix(of: entry.key) {
            let channel = Array(entry.key.dropFirst(prefix.count))
            guard channel.count == AgentChannel.channelBytes, entry.value.count == 4 else {
                throw RecordReader(entry.value, of: .agents).damaged()
            }
            all.append(
                (
                    AgentChannel(agent: agent, channel: channel),
                    Ordinal(entry.value.loadLittleEndian(UInt32.self, at: 0))
                ))
            found = try cursor.next()
        }
        return all
    }

    /// A channel's instance; nil if the user agent has no such channel.
    package func ordinal(
        of channel: AgentChannel, in project: ProjectNumber
    ) throws(StorageError) -> Ordinal? {
        guard let found = try raw.get(.agents, Self.key(channel.bytes, in: project)) else {
            return nil
        }
        var reader = RecordReader(found, of: .agents)
        return Ordinal(try reader.read(UInt32.self))
    }

    func insert(
        _ channel: AgentChannel, of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) {
        var writer = RecordWriter()
        writer.append(ordinal.rawValue)
        try raw.put(.agents, Self.key(channel.bytes, in: project), writer.bytes)
        try raw.put(.agentChannels, .ordinal(ordinal, in: project), channel.bytes)
    }

    /// Removes an instance's channel, if it has one.
    func remove(of ordinal: Ordinal, in project: ProjectNumber) throws(StorageError) {
        let place = Key.ordinal(ordinal, in: project)
        guard let found = try raw.get(.agentChannels, place) else { return }
        let key = Self.key(Array(found), in: project)
        try raw.delete(.agents, key)
        try raw.deleteFound(.agentChannels, place)
    }

    private static func key(_ bytes: [UInt8], in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(name: bytes)
        return key
    }
}
