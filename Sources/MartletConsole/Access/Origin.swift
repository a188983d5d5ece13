// SPDX-License-Identifier: Apache-2.0
//
// Where a change comes from: a page of this console, or a tool that is no browser. Browsers say so in headers that pages
// cannot set. Source: Fetch Metadata Request Headers, W3C; RFC 6454. Pure.

import Martlet
import MartletGateway

/// Checks the origin of changes.
enum Origin {
    /// - Throws: `PERMISSION_DENIED` for a change from a page of another origin.
    static func require(_ call: GatewayCall) throws(MartletError) {
        if let site = call.header("sec-fetch-site"), site != "same-origin" { throw foreign }
        guard let origin = call.header("origin") else { return }
        guard let host = call.header("host"),
            origin == "https://" + host || origin == "http://" + host
        else { throw foreign }
    }

    private static let foreign = MartletError(
        .permissionDenied, "The change comes from a page that is not the console's.")
}
