// SPDX-License-Identifier: Apache-2.0
//
// The cluster's time is that of the log's server, whatever a machine's clock shows (OPS-7).

import Glibc
import MartletBase
import MartletCluster
import MartletNode
import Testing

@Suite struct ClusterTimeTests {
    private static let own = Instant(millisecondsSince1970: 1_000_000_000_000)

    private func monotonic() -> Duration {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    @Test("OPS-7: the machine's clock counts until the log has told its time")
    func beginning() {
        let time = ClusterTime()
        #expect(time.now { Self.own } == Self.own)
        #expect(time.lead(of: Self.own) == .zero)
    }

    @Test("OPS-7: afterwards the machine's clock counts no more", arguments: [-3600, 0, 3600])
    func steady(secondsOff: Int) {
        let time = ClusterTime()
        // In the middle of a millisecond, because clocks of whole microseconds round.
        let log = Duration.seconds(1_700_000_000) + .microseconds(500)
        time.note(LogClock(lead: log - monotonic(), error: .milliseconds(1)))
        let own = Instant(
            millisecondsSince1970: (1_700_000_000 + Int64(secondsOff)) * 1000)
        let now = time.now { own }.millisecondsSince1970
        #expect((1_700_000_000_000..<1_700_000_060_000).contains(now))
        let lead = time.lead(of: own)
        #expect(lead <= .seconds(secondsOff) && lead > .seconds(secondsOff - 60))
    }

    @Test("OPS-7: errors of measurement are not followed, and another time of the log is")
    func corrected() {
        let time = ClusterTime()
        let own: () -> Instant = { Self.own }
        let base = Duration.seconds(1_700_000_000) - monotonic()
        func note(_ lead: Duration, error: Duration = .milliseconds(1)) {
            time.note(LogClock(lead: lead, error: error))
        }
        note(base)
        let first = time.now(own)
        note(base - .milliseconds(90))
        #expect(time.now(own) >= first)
        // The server stood still during the look.
        note(base + .milliseconds(2500), error: .milliseconds(2500))
        #expect(
            time.now(own).millisecondsSince1970 < first.millisecondsSince1970 + 2000)
        note(base + .seconds(3600))
        #expect(
            time.now(own).millisecondsSince1970 >= first.millisecondsSince1970 + 3_600_000)
    }
}
