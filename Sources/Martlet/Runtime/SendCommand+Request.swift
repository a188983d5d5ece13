// SPDX-License-Identifier: Apache-2.0
//
// What a sender asks for becomes what the engine does: the message's blocks are checked and merged here,
// for the wire and for embedders alike. Rests on MartletWire and the engine's commands.

import MartletBase
import MartletEngine
import MartletWire

extension SendCommand {
    /// - Throws: INVALID_ARGUMENT naming the field.
    init(_ request: SendRequest) throws(MartletError) {
        self.init(
            target: Target(request.target),
            variants: try Message.variants(
                of: request.message, target: request.target.kind,
                lifespan: request.timeToLiveSeconds.map { .seconds($0) } ?? .longest,
                priority: request.priority ?? .normal, collapseKey: request.collapseKey,
                restrictedPackageName: request.restrictedPackageName),
            validateOnly: request.validateOnly, wantsReceipts: request.wantsReceipts,
            idempotencyKey: request.idempotencyKey.isEmpty ? nil : request.idempotencyKey,
            sendAt: request.sendAt)
    }
}

extension SendCommand.Target {
    init(_ target: MessageTarget) {
        switch target {
        case .token(let text): self = .token(text)
        case .topic(let text): self = .topic(text)
        case .condition(let text): self = .condition(text)
        }
    }
}
