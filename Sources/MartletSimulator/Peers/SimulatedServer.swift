// SPDX-License-Identifier: Apache-2.0
//
// An app server's connection. The server connects with the administrator's key, acts for a project, and connects
// again after a loss. Rests on MartletWire.

import MartletBase
import MartletWire

/// A server of a project.
class SimulatedServer: SimulatedClient {
    let project: ProjectModel
    private let administratorKey: String
    private(set) var isOpen = false
    /// Whether the server wants to be connected.
    private(set) var isWanted = false

    init(
        number: Int, project: ProjectModel, administratorKey: String, network: SimulatedNetwork,
        oracle: Oracle
    ) {
        self.project = project
        self.administratorKey = administratorKey
        super.init(number: number, network: network, oracle: oracle)
    }

    func want(_ wanted: Bool) {
        isWanted = wanted
        if wanted { open() }
    }

    private func open() {
        guard isWanted, link == nil else { return }
        guard connect() else { return retry() }
        send(
            .hello(.administrator(administratorKey: administratorKey, projectID: project.id)))
        network.agenda.after(20_000_000) { [weak self, weak link] in
            guard let self, let link, self.link === link, !isOpen else { return }
            leave(.reset)
        }
    }

    private func retry() { network.agenda.after(30_000) { [weak self] in self?.open() } }

    func leave(_ ending: SimulatedLink.Ending) {
        guard link != nil else { return }
        drop(ending)
        lost()
    }

    override func lost() {
        isOpen = false
        if isWanted { retry() }
    }

    override func handle(_ frame: BrokerFrame) {
        if case .welcome = frame { isOpen = true }
    }
}
