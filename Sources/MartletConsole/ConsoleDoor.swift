// SPDX-License-Identifier: Apache-2.0
//
// The console as a door of the gateway's server: its routes, and the cookie of a session as a credential. Rests on Console
// and MartletGateway.

import MartletGateway

struct ConsoleDoor: GatewayDoor {
    let console: Console

    var routes: [Route] { console.pageRoutes + ConsoleRoute.all.map { $0.route(of: console) } }

    func recognises(_ header: (_ name: String) -> String?) -> Bool {
        guard let cookie = header("cookie") else { return false }
        return (try? console.people.session(in: cookie, isUse: false)) != nil
    }
}
