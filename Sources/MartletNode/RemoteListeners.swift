// SPDX-License-Identifier: Apache-2.0
//
// Stands in, at the active node, for a follower's listeners for devices' messages (UPS-1). The active node's book has them
// beside its own, and their messages go out over the link. When the link ends they leave, and what they haven't acknowledged
// goes to others. Lives on a link's thread. Rests on UpstreamBook and NodeListen.

import MartletBase
import MartletCluster
import MartletCommitter
import MartletEngine
import MartletRows
import MartletThreads
import MartletWire

/// The listeners that a follower has announced over a link.
final class RemoteListeners {
    private let outbox: LinkOutbox
    /// The follower's number ↦ the number in our book.
    private var numbers: [UInt64: UInt64] = [:]

    init(_ outbox: LinkOutbox) { self.outbox = outbox }

    func take(_ frame: NodeListen, _ committer: Committer) {
        let book = committer.upstream
        switch frame.operation {
        case .listen:
            guard numbers[frame.listener] == nil else { return }
            let (outbox, listener) = (outbox, frame.listener)
            numbers[listener] = book.listen(
                to: frame.project,
                .node { messages in
                    for message in messages {
                        let handing = NodeUpstream(
                            listener: listener, delivery: UpstreamDelivery(message))
                        outbox.push(NodeFrame.upstream(handing).bytes)
                    }
                })
        case .retire:
            guard let number = numbers[frame.listener] else { return }
            book.retire(number, keeping: Set(frame.kept))
        case .leave:
            guard let number = numbers.removeValue(forKey: frame.listener) else { return }
            book.leave(number)
        case .taken: book.taken(frame.kept, in: frame.project)
        }
        committer.wake()
    }

    /// All listeners leave.
    func leave(_ committer: Committer) {
        guard !numbers.isEmpty else { return }
        for number in numbers.values { committer.upstream.leave(number) }
        numbers = [:]
        committer.wake()
    }
}

extension NodeListen {
    init(_ change: UpstreamBook.Change) {
        switch change {
        case .listen(let listener, let project):
            self.init(operation: .listen, project: project, listener: listener)
        case .retire(let listener, let project, let kept):
            self.init(operation: .retire, project: project, listener: listener, kept: kept)
        case .leave(let listener, let project):
            self.init(operation: .leave, project: project, listener: listener)
        case .taken(let numbers, let project):
            self.init(operation: .taken, project: project, listener: 0, kept: numbers)
        }
    }
}

extension UpstreamMessage {
    /// nil if the text isn't a token.
    init?(_ delivery: UpstreamDelivery) {
        guard let token = try? Token(validating: delivery.token) else { return nil }
        self.init(
            number: delivery.number, token: token, appName: delivery.appName,
            messageID: delivery.messageID, accepted: delivery.accepted,
            expires: delivery.expires, body: delivery.message)
    }
}
