// SPDX-License-Identifier: Apache-2.0
//
// The program `martlet`: the commands with every part. Rests on MartletCommand.

import CCommit
import Martlet
import MartletClientTLS
import MartletCommand

@main
enum Program {
    static func main() {
        RootCommand.run(
            with: ProgramParts(
                gateway: HTTPGateway(),
                encryption: { (trust, certificate) throws(MartletError) in
                    var settings = ClientTLS(trust: .init(trust))
                    settings.certificate = certificate.map { ($0, $0) }
                    return try settings.encryption()
                }, cluster: PostgresCluster(), commit: String(cString: martlet_commit())))
    }
}

extension ClientTLS.Trust {
    fileprivate init(_ trust: BrokerTrust) {
        self =
            switch trust {
            case .system: .system
            case .authorities(let file): .authorities(file: file)
            case .certificate(let sha256): .certificate(sha256: sha256)
            }
    }
}
