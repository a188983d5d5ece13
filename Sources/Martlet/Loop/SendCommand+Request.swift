// SPDX-License-Identifier: Apache-2.0
//
// Converts the requests of senders and devices to commands of the engine. The message's blocks are checked and
// merged here, for the wire and for embedders alike. Rests on MartletWire and the engine's commands.

import MartletBase
import MartletEngine
import MartletRows
import MartletWire

extension SendCommand {
    /// The request is shared with the caller. Without `__shared` the initializer would own the request, and the caller
    /// would pass a copy.
    /// - Throws: INVALID_ARGUMENT naming the field.
    init(_ request: __shared SendRequest) throws(MartletError) {
        self.init(
            target: Target(request.target),
            variants: try Message.variants(
                of: request.message, target: request.target.kind,
                lifespan: request.timeToLiveSeconds.map { .seconds($0) } ?? .longest,
                priority: request.priority ?? .normal, collapseKey: request.collapseKey,
                restrictedPackageName: request.restrictedPackageName),
            validateOnly: request.validateOnly, options: request.options,
            idempotencyKey: request.idempotencyKey.isEmpty ? nil : request.idempotencyKey,
            sendAt: request.sendAt, notReceived: request.notReceived)
    }

    /// The command for a message of an embedder.
    /// - Throws: INVALID_ARGUMENT naming the field.
    init(_ outgoing: OutgoingMessage, projectID: String) throws(MartletError) {
        let notReceived = try outgoing.notReceivedNumber(projectID: projectID)
        self.init(
            target: Target(outgoing.target),
            variants: try Message.variants(
                of: try outgoing.message.encoded(), target: outgoing.target.kind,
                lifespan: outgoing.timeToLiveSeconds.map { .seconds($0) } ?? .longest,
                priority: outgoing.priority ?? .normal, collapseKey: outgoing.collapseKey ?? "",
                restrictedPackageName: outgoing.restrictedPackageName ?? ""),
            validateOnly: outgoing.validateOnly, options: outgoing.options,
            idempotencyKey: outgoing.idempotencyKey.flatMap { $0.isEmpty ? nil : $0 },
            sendAt: outgoing.sendAt, notReceived: notReceived)
    }
}

extension UpstreamCommand {
    /// - Throws: INVALID_ARGUMENT naming the field.
    init(
        _ request: UpstreamRequest, from ordinal: Ordinal, _ holder: Holder,
        in project: ProjectNumber
    ) throws(MartletError) {
        let size = try Message.checkUpstream(request.message)
        self.init(
            project: project, ordinal: ordinal, holder: holder,
            target: request.group.isEmpty ? .project : .group(request.group),
            messageID: request.messageID, timeToLiveSeconds: request.timeToLiveSeconds,
            body: request.message, size: size)
    }
}

extension SendCommand.Target {
    init(_ target: MessageTarget) {
        switch target {
        case .token(let text): self = .token(text)
        case .topic(let text): self = .topic(text)
        case .condition(let text): self = .condition(text)
        case .group(let text): self = .group(text)
        case .several(let targets): self = .several(targets.map { Self($0) })
        }
    }
}
