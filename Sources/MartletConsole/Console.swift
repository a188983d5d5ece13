// SPDX-License-Identifier: Apache-2.0
//
// The console (GW-9): people see and steer a broker in a browser. The console is a door of the gateway's server: pages
// from files inside the program, and an API of its own below `/console/api/v1`. Rests on MartletGateway and MartletAnswers.

public import Logging
public import Martlet
import MartletAnswers
package import MartletGateway

/// The settings of a console.
public struct ConsoleConfiguration: Sendable {
    /// Whether browsers reach the console over TLS, at the gateway itself or at a proxy. Cookies then go over TLS alone.
    public var isSecure: Bool
    /// Logger of the console.
    public var logger: Logger

    /// Makes the settings of a console.
    public init(isSecure: Bool, logger: Logger = Logger(label: "martlet.console")) {
        self.isSecure = isSecure
        self.logger = logger
    }
}

/// The console of one broker.
public final class Console: Sendable {
    let broker: Broker
    package let configuration: ConsoleConfiguration
    package let people: People
    let sampler: Sampler
    package let viewers = Viewers()
    let logins = LoginTurns()
    /// The OpenAPI document.
    let openAPI: String
    private let log: AuditLog
    private let queue: AuditQueue

    /// Makes the console of an open broker, which reads users and sessions in the broker's data folder.
    public init(_ broker: Broker, _ configuration: ConsoleConfiguration) {
        self.broker = broker
        self.configuration = configuration
        log = AuditLog(in: broker.folder)
        queue = AuditQueue(log)
        people = People(folder: broker.folder, isSecure: configuration.isSecure) { broker.now }
        openAPI = OpenAPI.document(cookie: people.cookies.session).text
        sampler = Sampler(broker)
    }

    /// Whether browsers on this machine alone reach the console, and no proxy stands between.
    var isForThisMachine: Bool { !configuration.isSecure && !broker.hasLocalProxy }

    /// The console as a door of a gateway.
    package var door: any GatewayDoor { ConsoleDoor(console: self) }

    /// Takes the broker's figures once a second, for the plots. Returns when the task is cancelled.
    public func run() async { await sampler.run() }

    // MARK: The log of actions

    /// Writes an action to the log, and returns when the action is on disk, or after a bounded wait. The action is done, so a
    /// failure is logged only, with everything that the entry has.
    func note(_ action: String, _ what: String, in project: String?, by person: Person) async {
        do {
            try await queue.append(
                AuditEntry(
                    at: broker.now, who: person.name, from: person.address, project: project,
                    action: action, what: what))
        } catch {
            configuration.logger.error(
                "an action of the console is not in the log of actions",
                metadata: [
                    "who": "\(person.name)", "from": "\(person.address)",
                    "project": "\(project ?? "")", "action": "\(action)", "what": "\(what)",
                    "error": "\(error)",
                ])
        }
    }

    /// - Parameter action: nil: all actions.
    func actions(
        _ action: String? = nil, in project: String?, before: UInt64?, limit: Int
    ) -> AuditPage {
        log.page(project: project, action: action, before: before, limit: limit)
    }
}
