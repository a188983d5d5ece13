// SPDX-License-Identifier: Apache-2.0
//
// The address of a log: a connection URI of libpq, or keywords and values. libpq reads the text, so TLS,
// password files and service files are as in any program of libpq. The hosts are tried one by one, because a host that
// can be reached but does not commit is passed over too. Rests on CPostgres.

internal import CPostgres
package import MartletCluster

/// The servers of a log, in the order of attempts.
package struct PostgresAddress: Sendable {
    /// Keywords and values for each server.
    private let servers: [[(name: String, value: String)]]

    /// - Throws: `setting` for a text that libpq does not understand, and for a password in the text: other users of
    ///   the machine see the words of a command.
    package init(_ text: String) throws(LogError) {
        var problem: UnsafeMutablePointer<CChar>?
        guard let options = PQconninfoParse(text, &problem) else {
            // libpq's message repeats the text, and the text may have a password.
            PQfreemem(problem)
            throw .setting(
                """
                the address of the log is no connection URI of PostgreSQL, such as \
                postgresql://martlet@db1,db2/martlet?passfile=/etc/martlet/pgpass
                """)
        }
        defer { PQconninfoFree(options) }
        var given: [String: String] = [:]
        var option = options
        while let name = option.pointee.keyword {
            if let value = option.pointee.val {
                given[String(cString: name)] = String(cString: value)
            }
            option += 1
        }
        guard given["password"] == nil else {
            throw .setting(
                """
                the address of the log has a password in it; write the password to a file that \
                others cannot read, and name the file with passfile=
                """)
        }
        try self.init(given)
    }

    private init(_ given: [String: String]) throws(LogError) {
        func list(_ name: String) -> [String] {
            given[name].map { $0.split(separator: ",", omittingEmptySubsequences: false) }?
                .map(String.init) ?? []
        }
        let (hosts, addresses, ports) = (list("host"), list("hostaddr"), list("port"))
        let count = max(1, hosts.count, addresses.count)
        guard [0, count].contains(hosts.count), [0, count].contains(addresses.count),
            [0, 1, count].contains(ports.count)
        else {
            throw .setting("the address of the log has lists of hosts and ports of unequal length")
        }
        var shared = given
        for name in ["host", "hostaddr", "port"] { shared[name] = nil }
        // A standby takes no rows. `any` is the default of libpq.
        if ["any", nil].contains(shared["target_session_attrs"]) {
            shared["target_session_attrs"] = "read-write"
        }
        servers = (0..<count).map { index in
            var server = shared
            if !hosts.isEmpty { server["host"] = hosts[index] }
            if !addresses.isEmpty { server["hostaddr"] = addresses[index] }
            if let port = ports.count == count ? ports[index] : ports.first {
                server["port"] = port
            }
            return server.map { (name: $0.key, value: $0.value) }.sorted { $0.name < $1.name }
        }
    }

    package var serverCount: Int { servers.count }

    /// Keywords and values for a connection to a server.
    package func parameters(
        ofServer index: Int, applicationName: String
    ) -> [(name: String, value: String)] {
        servers[index].filter { $0.name != "application_name" }
            + [("application_name", applicationName)]
    }

    /// The host and port of a server, for messages.
    package func name(ofServer index: Int) -> String {
        let server = servers[index]
        func value(_ name: String) -> String? { server.first { $0.name == name }?.value }
        let host = value("host") ?? value("hostaddr") ?? "the local server"
        return value("port").map { "\(host):\($0)" } ?? host
    }
}
