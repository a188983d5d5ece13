// SPDX-License-Identifier: Apache-2.0
//
// Lets a device say where Apple's push service reaches its app, so that messages arrive while it has no connection (GW-11).

import MartletBase
import MartletWire

extension MartletDevice {
    /// Tells the broker the token that Apple's push service gave the app. Messages go to Apple while the device has no
    /// connection. An application calls this at each start and for each new token, because Apple changes tokens. If the
    /// connection is lost, the device tells the token on the next connection, up to `attemptsMax` times.
    /// - Parameters:
    ///   - token: the bytes of the token; empty takes the token back.
    ///   - isSandbox: whether the app is a development build.
    ///   - bundle: the bundle ID; nil: the name of the instance's app.
    /// - Throws: `INVALID_ARGUMENT` for an instance of another platform, and for a token of more than 128 bytes.
    public func setAPNsToken(
        _ token: [UInt8], isSandbox: Bool = false, bundle: String? = nil
    ) async throws {
        var backoff = options.backoff
        while true {
            do {
                let answer = try await request { correlation in
                    .apnsToken(
                        APNsTokenRequest(
                            correlation: correlation, token: token, isSandbox: isSandbox,
                            bundle: bundle ?? ""))
                }
                guard case .done = answer else { throw unexpected(answer) }
                return
            } catch let error as MartletError {
                try await wait(after: error, &backoff)
            }
        }
    }
}
