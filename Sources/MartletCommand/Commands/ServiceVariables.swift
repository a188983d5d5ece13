// SPDX-License-Identifier: Apache-2.0
//
// Variables of the environment that are no settings, although their names begin as settings do: Kubernetes sets them in
// every container of a namespace that has a service called `martlet` or `martlet-…`. Rests on HostPort and AddressPrefix.
// Source: kubernetes.io/docs/concepts/services-networking/service, "Environment variables".

import Martlet

/// The variables that Kubernetes sets for a service.
package enum ServiceVariables {
    /// Whether a variable has a name and a value as Kubernetes writes them for a service whose name begins with `martlet`.
    /// `MARTLET_PORT` is a setting too, so the value decides.
    package static func contain(_ name: String, _ value: String) -> Bool {
        let form =
            #/
            MARTLET (?: _[A-Z0-9]+ )*? _
            ( SERVICE_HOST | SERVICE_PORT (?: _[A-Z0-9_]+ )?
            | PORT (?: _\d+_ (?: TCP | UDP | SCTP ) (?: _PROTO | _PORT | _ADDR )? )? )
            /#
        guard let end = name.wholeMatch(of: form)?.1 else { return false }
        return switch end {
        case _ where end.hasPrefix("SERVICE_PORT") || end.hasSuffix("_PORT"): isPort(value)
        case _ where end == "SERVICE_HOST" || end.hasSuffix("_ADDR"): isAddress(value)
        case _ where end.hasSuffix("_PROTO"): protocols.contains(value)
        default:
            protocols.contains {
                value.hasPrefix($0 + "://") && HostPort(value.dropFirst($0.count + 3)) != nil
            }
        }
    }

    private static let protocols = ["tcp", "udp", "sctp"]

    private static func isPort(_ text: String) -> Bool { UInt16(text) != nil }

    private static func isAddress(_ text: String) -> Bool {
        !text.contains("/") && AddressPrefix(text) != nil
    }
}
