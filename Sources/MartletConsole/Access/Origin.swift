// SPDX-License-Identifier: Apache-2.0
//
// Where a call comes from: a page of this console, or a tool that is no browser. Browsers say so in headers that pages
// cannot set. Source: Fetch Metadata Request Headers, W3C; RFC 6454. Rests on GatewayCall.

import Martlet
import MartletGateway

/// Checks the origin of calls.
enum Origin {
    /// A browser that tells the site is believed, because a proxy may write another host into the request. An older
    /// browser tells the origin alone.
    /// - Throws: `PERMISSION_DENIED` for a change from a page of another origin.
    static func require(_ call: GatewayCall) throws(MartletError) {
        if let site = call.header("sec-fetch-site") {
            guard site == "same-origin" else { throw foreign }
            return
        }
        guard let origin = call.header("origin") else { return }
        guard let host = call.header("host"),
            origin == "https://" + host || origin == "http://" + host
        else { throw foreign }
    }

    private static let foreign = MartletError(
        .permissionDenied, "The change comes from a page that is not the console's.")

    /// A console for browsers of the same machine answers under names of the machine alone. Otherwise a page of another
    /// site with a name that leads here would be of the console's origin (DNS rebinding).
    /// - Throws: `PERMISSION_DENIED` for another name.
    static func requireHost(_ call: GatewayCall, of console: Console) throws(MartletError) {
        guard console.isForThisMachine, let host = call.header("host"), !isLoopback(host)
        else { return }
        throw MartletError(
            .permissionDenied,
            "The console answers to names of this machine, such as localhost, and not to this one.")
    }

    private static func isLoopback(_ host: String) -> Bool {
        if host.hasPrefix("[") { return host.hasPrefix("[::1]") }
        let name = host.prefix { $0 != ":" }.lowercased()
        if name == "localhost" || name.hasSuffix(".localhost") { return true }
        let parts = name.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
    }
}
