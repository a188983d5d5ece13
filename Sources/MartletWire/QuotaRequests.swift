// SPDX-License-Identifier: Apache-2.0
//
// The question for the remaining amounts of a project's quotas (QUO-3, QUO-4). Entries carry the quota's name, so a client can
// also show the quotas of a later broker. Rests on `SenderInterface`.

public import MartletBase

extension SenderInterface {
    /// The remaining part of each quota of the project (QUO-3, QUO-4, QUO-5). Quotas without a limit are left out.
    public func quotas() async throws(Failure) -> [QuotaSummary] {
        try await requests.ask(QuotasRequest()).quotas
    }
}
