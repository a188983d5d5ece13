// SPDX-License-Identifier: Apache-2.0
//
// The program `martlet-core`: the commands without the gateway and without TLS of the clients. `make run` builds this
// program, because the libraries of the two parts take most of the time of a build. Rests on MartletCommand.

import CCommit
import MartletCommand

@main
enum CoreProgram {
    static func main() {
        RootCommand.run(with: ProgramParts(commit: String(cString: martlet_commit())))
    }
}
