// SPDX-License-Identifier: Apache-2.0
//
// A busy loop waits for some microseconds before a turn. The peers of the last sends are about to answer, and senders
// whose messages have just arrived are about to send the next. Without the wait, messages sent together split: a part
// leaves in this turn, the answers to the sends before come during the turn, and both parts take turns from then on.
// Each part costs as many sends as the whole. With 100 devices and 16 messages in flight, the wait saves four tenths
// of the CPU and half of the latency. Rests on ArrivalWaits.

import MartletThreads
import MartletTransport

extension Loop where Kernel: ~Copyable {
    /// Gathers arrivals for a short time, if the last turn had many sends and the next one has arrivals already. A loop
    /// without work sleeps instead.
    mutating func awaitArrivals() {
        guard transport.hasArrivals else { return }
        let wait = pace.arrivalWaits.next(afterSends: pace.turnSends)
        guard wait > 0 else { return }
        let count = transport.arrivalCount
        let end = SystemClock.monotonicNanoseconds() + UInt64(wait)
        repeat { submitAndWait(0) } while SystemClock.monotonicNanoseconds() < end
        pace.arrivalWaits.ended(hasBrought: transport.arrivalCount != count)
    }
}
