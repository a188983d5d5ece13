// SPDX-License-Identifier: Apache-2.0
//
// Options of commands that run a gateway. Rests on the embedding API.

package import ArgumentParser
package import Martlet

package struct GatewayOptions: ParsableArguments {
    package init() {}

    @Option(
        help: ArgumentHelp(
            "Serve HTTP for SDKs at this address; port 0 lets the system choose.",
            valueName: "host:port"))
    package var http: String?

    @Option(
        help: ArgumentHelp(
            "A PEM file with the certificate and those that vouch for it: HTTP/2 and HTTP/1.1 over "
                + "TLS. Without one: plain HTTP/1.1.", valueName: "file"))
    package var httpCertificate: String?

    @Option(help: ArgumentHelp("A PEM file with the certificate's key.", valueName: "file"))
    package var httpKey: String?

    @Flag(
        inversion: .prefixedNo,
        help: "Serve plain HTTP to other machines too: behind a proxy that does TLS.")
    package var httpPlainElsewhere = false

    @Option(
        help: ArgumentHelp(
            "Another address of /token, as SDKs behind a proxy know it; may be given again.",
            valueName: "url"))
    package var httpTokenURL: [String] = []

    @Option(help: "The life of an access token, in seconds, 1 to 86400.")
    package var accessTokenSeconds = Limits.accessTokenSecondsDefault

    @Option(help: "The longest body of an HTTP request, in bytes, 1 to 67108864.")
    package var httpBodyBytes = Limits.httpBodyBytesMax

    @Option(help: "HTTP requests that are answered at a time, 1 or more.")
    package var httpRequests = Limits.httpRequestsMax

    @Option(help: "HTTP connections at a time, 1 or more.")
    package var httpConnections = Limits.httpConnectionsMax

    @Option(
        help:
            "HTTP connections of one address at a time, 1 or more; the proxies of --proxy have no bound."
    )
    package var httpConnectionsPerAddress = Limits.httpConnectionsPerAddressMax

    @Option(
        help: ArgumentHelp(
            "The header in which the proxies of --proxy name their clients: the one that they set, such as "
                + "Forwarded or X-Real-IP. Every other header counts nothing, because clients can send it.",
            valueName: "name"))
    package var httpProxyHeader = "X-Forwarded-For"

    @Option(help: "Close an HTTP connection that was silent for so many seconds, 1 or more.")
    package var httpIdleSeconds = Limits.httpIdleSeconds

    @Option(help: "An HTTP request must have come whole after so many seconds, 1 or more.")
    package var httpRequestSeconds = Limits.httpRequestSeconds

    @Option(
        help: ArgumentHelp(
            "A send that is repeated within so many seconds after its connection ended without the "
                + "whole answer is not sent again, 0 or more; 0: every send is.",
            valueName: "seconds"))
    package var httpRetrySeconds = Limits.retryWindowSecondsDefault

    @Option(
        help: ArgumentHelp(
            "Serve Web Push too: the origin under which senders and browsers reach the gateway, such as "
                + "https://push.example.org; may be given again.",
            valueName: "origin"))
    package var webPushOrigin: [String] = []

    @Option(help: ArgumentHelp("The project of Web Push subscriptions.", valueName: "id"))
    package var webPushProject = "web-push"

    @Option(
        help: ArgumentHelp(
            "Serve app servers over XMPP at this address, over TLS; may be given again. The usual "
                + "port is 5235, and 5236 for tests.", valueName: "host:port"))
    package var xmpp: [String] = []

    @Option(
        help: ArgumentHelp(
            "A PEM file with the certificate for XMPP and those that vouch for it (default: that of "
                + "HTTP).", valueName: "file"))
    package var xmppCertificate: String?

    @Option(
        help: ArgumentHelp(
            "A PEM file with the key of the certificate for XMPP.", valueName: "file")
    )
    package var xmppKey: String?

    @Flag(
        inversion: .prefixedNo,
        help: "Hand messages for Apple devices without a connection to Apple's push service.")
    package var apns = false

    @Option(help: ArgumentHelp("The URL of Apple's push service.", valueName: "url"))
    package var apnsURL = "https://api.push.apple.com"

    @Option(
        help: ArgumentHelp(
            "The URL of Apple's push service for development builds.", valueName: "url"))
    package var apnsSandboxURL = "https://api.sandbox.push.apple.com"

    @Flag(
        inversion: .prefixedNo,
        help:
            "Register pages that use the web SDK, and hand their messages to the push services of browsers."
    )
    package var webClients = false

    @Option(
        help: ArgumentHelp(
            "A PEM file with the authorities that certify push services (default: those of the "
                + "system).", valueName: "file"))
    package var bridgeCA: String?

    @Flag(
        inversion: .prefixedNo,
        help: "Reach push services at private addresses too, such as 127.0.0.1: for tests.")
    package var bridgePrivateAddresses = false

    @Flag(
        inversion: .prefixedNo,
        help:
            "Serve the console for browsers at /console (default: where only this machine reaches it)."
    )
    package var console: Bool?

    /// Whether the gateway serves the console. Without a word of the user, only for this machine.
    package var servesConsole: Bool { console ?? (address?.isLoopback ?? false) }

    /// Whether browsers reach the gateway over TLS, at the gateway itself or at a proxy.
    package var isSecure: Bool {
        httpCertificate != nil || (httpPlainElsewhere && !(address?.isLoopback ?? true))
    }

    package mutating func validate() throws {
        if let http, ListenSetting.address(http) == nil {
            throw ValidationError(
                "--http takes an address and a port, such as 127.0.0.1:8080 or [::1]:8080, not "
                    + "'\(http)'.")
        }
        guard (httpCertificate == nil) == (httpKey == nil) else {
            throw ValidationError("--http-certificate and --http-key go together.")
        }
        for text in xmpp where ListenSetting.address(text) == nil {
            throw ValidationError(
                "--xmpp takes an address and a port, such as 0.0.0.0:5235 or [::]:5235, not "
                    + "'\(text)'.")
        }
        guard (xmppCertificate == nil) == (xmppKey == nil) else {
            throw ValidationError("--xmpp-certificate and --xmpp-key go together.")
        }
        guard (1...64).contains(httpProxyHeader.utf8.count),
            httpProxyHeader.utf8.allSatisfy({ TopicName.isAllowed($0) })
        else {
            throw ValidationError(
                "--http-proxy-header takes the name of a header, such as X-Forwarded-For, not "
                    + "'\(httpProxyHeader)'.")
        }
        guard console != true || isSecure || address?.isLoopback ?? true else {
            throw ValidationError(
                "--console on an address that other machines reach needs --http-certificate, or "
                    + "--http-plain-elsewhere behind a proxy that does TLS.")
        }
        guard (1...Limits.accessTokenSecondsMax).contains(accessTokenSeconds) else {
            throw ValidationError(
                "--access-token-seconds takes a number from 1 to \(Limits.accessTokenSecondsMax).")
        }
        guard (1...(64 << 20)).contains(httpBodyBytes) else {
            throw ValidationError("--http-body-bytes takes a number from 1 to 67108864.")
        }
        guard httpConnectionsPerAddress > 0 else {
            throw ValidationError("--http-connections-per-address takes at least 1.")
        }
        guard httpRequests > 0, httpConnections > 0, httpIdleSeconds > 0, httpRequestSeconds > 0
        else {
            throw ValidationError(
                "--http-requests, --http-connections, --http-idle-seconds and "
                    + "--http-request-seconds take at least 1.")
        }
    }

    /// The given address.
    package var address: BrokerConfiguration.Address? { http.flatMap { ListenSetting.address($0) } }

    /// GW-10: the addresses for app servers over XMPP.
    package var xmppAddresses: [BrokerConfiguration.Address] {
        xmpp.compactMap { ListenSetting.address($0) }
    }

    /// Whether the broker serves more than its own protocol.
    var isWanted: Bool { address != nil || !xmpp.isEmpty || apns }

    /// What is wrong with options that have no effect without an address; nil: nothing is. A file gives each setting
    /// singly, so they are judged when all are known.
    var missingAddress: String? {
        // XMPP has the certificate of HTTP unless it has its own.
        let isForXMPP = !xmpp.isEmpty && xmppCertificate == nil
        let overHTTP = [
            ("web-clients", webClients), ("web-push-origin", !webPushOrigin.isEmpty),
            ("http-certificate", httpCertificate != nil && !isForXMPP),
            ("http-plain-elsewhere", httpPlainElsewhere),
            ("http-token-url", !httpTokenURL.isEmpty), ("console", console == true),
        ]
        if http == nil, let (name, _) = overHTTP.first(where: \.1) {
            return "--\(name) needs --http, the address at which HTTP is served."
        }
        guard xmppCertificate != nil, xmpp.isEmpty else { return nil }
        return "--xmpp-certificate needs --xmpp, the address at which XMPP is served."
    }

    /// Whether a part of the gateway comes to the broker over the loopback interface.
    var needsLocalListener: Bool { !webPushOrigin.isEmpty || apns || webClients }

    /// OPS-11: the settings that a gateway keeps until its end, with their values as text.
    var kept: [(setting: String, value: String)] {
        [
            ("http", http ?? ""), ("http-certificate", httpCertificate ?? ""),
            ("http-key", httpKey ?? ""), ("http-plain-elsewhere", "\(httpPlainElsewhere)"),
            ("http-token-url", "\(httpTokenURL)"),
            ("access-token-seconds", "\(accessTokenSeconds)"),
            ("http-proxy-header", httpProxyHeader),
            ("http-body-bytes", "\(httpBodyBytes)"), ("http-requests", "\(httpRequests)"),
            ("http-connections", "\(httpConnections)"),
            ("http-connections-per-address", "\(httpConnectionsPerAddress)"),
            ("http-idle-seconds", "\(httpIdleSeconds)"),
            ("http-request-seconds", "\(httpRequestSeconds)"),
            ("http-retry-seconds", "\(httpRetrySeconds)"),
            ("web-push-origin", "\(webPushOrigin)"), ("web-push-project", webPushProject),
            ("xmpp", "\(xmpp)"), ("xmpp-certificate", xmppCertificate ?? ""),
            ("xmpp-key", xmppKey ?? ""),
            ("apns", "\(apns)"), ("apns-url", apnsURL), ("apns-sandbox-url", apnsSandboxURL),
            ("web-clients", "\(webClients)"), ("bridge-ca", bridgeCA ?? ""),
            ("bridge-private-addresses", "\(bridgePrivateAddresses)"),
            ("console", "\(servesConsole)"),
        ]
    }
}
