// SPDX-License-Identifier: Apache-2.0
//
// Tells the log when threads of the broker or its disk do not answer, and gives the service manager its signs of life
// (OPS-12) while all do. A store that refuses changes answers: a restart would not make room on a disk. The watch has a
// thread of its own, since tasks may wait for threads that hang. Rests on ServiceManager.

import Glibc
import Logging
import Martlet
import MartletThreads
import Synchronization

/// Watches a broker until its end.
final class SilenceWatch: Sendable {
    private static let pauseMilliseconds = 1000

    private let isOver = Atomic<Bool>(false)

    /// - Throws: `UNAVAILABLE` if the system has no thread left.
    init(_ broker: Broker, _ manager: ServiceManager?, _ logger: Logger) throws(MartletError) {
        let pause = manager?.signMilliseconds ?? Self.pauseMilliseconds
        let thread = try SystemThread(name: "martlet-watch") { [self] in
            var told: String?
            while !isOver.load(ordering: .acquiring) {
                let silence = broker.silence
                if silence == nil, manager?.signMilliseconds != nil { manager?.live() }
                if (silence == nil) != (told == nil) {
                    if let silence {
                        logger.error(
                            "the broker does not answer", metadata: ["reason": "\(silence)"])
                    } else {
                        logger.notice("all threads answer again")
                    }
                }
                told = silence
                usleep(UInt32(pause) * 1000)
            }
        }
        thread.detach()
    }

    func end() { isOver.store(true, ordering: .releasing) }
}
