// SPDX-License-Identifier: Apache-2.0
//
// Lines of the log about a migration of the data folder (OPS-3). Rests on Logging.

import Logging
import MartletStore

/// Says what a migration does.
enum MigrationLog {
    static func log(_ event: MigrationEvent, to logger: Logger) {
        switch event {
        case .began(let from, let to, let byteCount):
            logger.notice(
                "the data folder is of an older Martlet and is migrated",
                metadata: ["from": "\(from)", "to": "\(to)", "bytes": "\(byteCount)"])
        case .copied(let byteCount, let all):
            logger.info(
                "the data folder is being copied",
                metadata: ["bytes": "\(byteCount)", "of": "\(all)"])
        case .advanced: break
        case .changing(let from, let to):
            logger.info(
                "the copy is being changed", metadata: ["from": "\(from)", "to": "\(to)"])
        case .ended(let to, let folder):
            logger.notice(
                """
                the data folder is migrated; the old files are kept and may be deleted when this \
                version is to stay
                """,
                metadata: ["to": "\(to)", "old": "\(folder)"])
        }
    }
}
