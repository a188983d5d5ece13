// SPDX-License-Identifier: Apache-2.0
//
// The actions of commands in the log of administrators' actions (GW-9). A command that works as administrator of a folder is
// in the folder's log. A command with a server key is a sender, and senders' requests are in no log. Rests on AuditLog.

import FoundationEssentials
import Martlet
import MartletAnswers

extension DataFolderAccess {
    /// Writes an action to the folder's log. The action is done, so a failure is told only.
    /// - Parameters:
    ///   - action: such as `key.create`.
    ///   - what: the object of the action, never a secret.
    func note(_ action: String, _ what: String, in project: String?) {
        do throws(MartletError) {
            try AuditLog(in: folder).append(
                .ofCommand(action, what, in: project, at: .ofCommand))
        } catch {
            Terminal.printError("The action is done, and is not in the log: \(error.message)")
        }
    }
}

extension SenderOptions {
    /// Writes an action to the folder's log, if the command works as administrator of the folder.
    func note(_ action: String, _ what: String, folder: String?) {
        guard connection.isAdministrator(folder: folder),
            let access = try? DataFolderAccess(option: folder)
        else { return }
        access.note(action, what, in: project)
    }
}

extension SenderScope {
    func note(_ action: String, _ what: String) {
        options.note(action, what, folder: folder.folder)
    }
}

extension AuditEntry {
    /// An action by a command on this machine.
    static func ofCommand(
        _ action: String, _ what: String, in project: String?, at now: Martlet.Instant
    ) -> AuditEntry {
        AuditEntry(
            at: now, who: "command", from: "this machine", project: project, action: action,
            what: what)
    }
}

extension Martlet.Instant {
    static var ofCommand: Martlet.Instant {
        Martlet.Instant(millisecondsSince1970: Int64(Date.now.timeIntervalSince1970 * 1000))
    }
}
