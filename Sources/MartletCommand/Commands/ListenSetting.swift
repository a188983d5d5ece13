// SPDX-License-Identifier: Apache-2.0
//
// Addresses on the command line of `martlet serve`: `address:port`, and for `--listen` the form of the bytes there
// (NET-7). Rests on the broker's configuration.

import Martlet

enum ListenSetting {
    /// Reads `address:port[,tls|plain][,proxy]`; nil for any other text.
    static func listener(_ text: String) -> BrokerConfiguration.Listener? {
        var words = text.split(separator: ",", omittingEmptySubsequences: false)[...]
        guard let address = words.popFirst().flatMap({ address(String($0)) }) else { return nil }
        var listener = BrokerConfiguration.Listener(address)
        if let security = words.first.flatMap({
            BrokerConfiguration.Listener.Security(rawValue: String($0))
        }) {
            listener.security = security
            words.removeFirst()
        }
        if words.first == "proxy" {
            listener.isProxied = true
            words.removeFirst()
        }
        return words.isEmpty ? listener : nil
    }

    /// Reads `address:port`, with an IPv6 address in brackets; nil for any other text.
    static func address(_ text: String) -> BrokerConfiguration.Address? {
        HostPort(text).map { .init(host: $0.host, port: $0.port) }
    }
}
