// SPDX-License-Identifier: Apache-2.0
//
// Finds the recipients of a message that somebody is still writing (GW-9), just as a send would, on a snapshot and without
// sending. Rests on Audiences.

package import MartletBase
package import MartletBits
import MartletRows

/// The recipients of a message that isn't sent.
package enum Reach {
    /// The recipients at this instant, before quotas.
    /// - Parameter limits: the broker's limits.
    /// - Throws: `MartletError` for a fault of the message, `StorageError`.
    package static func recipients(
        of message: SendCommand, in number: ProjectNumber, _ programs: SharedPrograms,
        limits: BrokerLimits, now: Instant, _ storage: borrowing Transaction
    ) throws -> RecipientSet {
        let project = try Audience.project(number, storage)
        var audiences = Audiences(programs: programs, limits: limits)
        let recipients: Recipients?
        do throws(Obstacle) {
            var dispatch = try checked(
                Dispatch(message, from: now, within: MessageBounds(project, limits)))
            let target = try audiences.resolve(dispatch, in: project, storage)
            recipients = try audiences.recipients(
                of: &dispatch, among: target.instances, without: message.notReceived,
                in: number, storage)
        } catch {
            let refusal = try error.refusal()
            throw refusal
        }
        switch recipients {
        case nil: return .none
        case .one(let ordinal): return .of([ordinal])
        case .many(let set): return set
        }
    }
}
