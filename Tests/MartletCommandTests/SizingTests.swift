// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of `martlet size` (OPS-10): sums, and what each input of the load changes.

import MartletCommand
import Testing

@Suite("Sizing")
struct SizingTests {
    private static func sizing(_ change: (inout ExpectedLoad) -> Void = { _ in }) -> Sizing {
        var load = ExpectedLoad(
            instances: 1_000_000, connections: 300_000, messagesPerDay: 2_000_000)
        change(&load)
        return Sizing(load)
    }

    @Test("A total is the sum of its parts")
    func sums() {
        let sizing = Self.sizing()
        let (memory, disk) = (sizing.memory, sizing.disk)
        #expect(
            memory.total
                == memory.broker + memory.connections + memory.kernel + memory.pageCache)
        #expect(memory.pageCache == disk.content)
        let files = disk.content + disk.fixed
        #expect(disk.total == files + disk.migration)
        #expect(disk.migration - files - (64 << 20) - files / 16 < 2)
    }

    @Test("The bytes of a load are its numbers times the measured bytes")
    func bytes() {
        // An instance has 249 bytes, its list 28, and each of 5 topics 13.
        #expect(Self.sizing().disk.instances == 342_000_000)
        #expect(Self.sizing { $0.topicsPerInstance = 0 }.disk.instances == 249_000_000)
        #expect(Self.sizing().memory.connections == 273_000_000)
        #expect(Self.sizing { $0.isSecure = false }.memory.connections == 99_300_000)
        // Reports of 28 days, and of 1,000,000 messages at most.
        #expect(Self.sizing().disk.reports == 103_000_000)
        #expect(Self.sizing { $0.messagesPerDay = 1000 }.disk.reports == 2_884_000)
        #expect(Self.sizing { $0.storedShare = 0 }.disk.reports == 0)
        #expect(Self.sizing { $0.storedShare = 0 }.disk.messages == 0)
    }

    @Test("A message waits for all days for those who stay away, and a day for the others")
    func waiting() {
        func messages(away: Double, connections: Int, days: Int) -> UInt64 {
            Self.sizing {
                $0.messagesPerDay = 100_000
                $0.awayShare = away
                $0.connections = connections
                $0.daysKept = days
            }.disk.messages
        }
        // 54 for the message, 512 with a quarter for the page, 57 for the recipient's row.
        let each = 54.0 + 640 + 57
        #expect(messages(away: 0, connections: 1_000_000, days: 28) == 0)
        #expect(messages(away: 0, connections: 0, days: 28) == UInt64(100_000 * each))
        #expect(messages(away: 0, connections: 0, days: 0) == 0)
        #expect(
            messages(away: 0.1, connections: 300_000, days: 28)
                == UInt64((100_000 * (0.1 * 28 + 0.6) * each).rounded()))
        #expect(messages(away: 1, connections: 0, days: 28) == UInt64(2_800_000 * each))
    }

    @Test("STO-1 at most 100 messages wait for an instance")
    func bounded() {
        func messages(_ perDay: Int) -> UInt64 {
            Self.sizing {
                $0.instances = 1000
                $0.connections = 0
                $0.awayShare = 1
                $0.messagesPerDay = perDay
            }.disk.messages
        }
        #expect(messages(100_000) == messages(1_000_000))
        #expect(messages(100_000) == 100_000 * 751)
    }

    @Test("A message to many has a set of recipients: none of all, a list of few, bitmaps of more")
    func sets() {
        func bytes(_ recipients: Int) -> UInt64 {
            Self.sizing {
                $0.messagesPerDay = 0
                $0.fanoutsPerDay = 1
                $0.fanoutRecipients = recipients
                $0.awayShare = 1
                $0.connections = 0
                $0.daysKept = 1
            }.disk.messages
        }
        // 31 blocks; the set counts for a second day.
        #expect(bytes(1_000_000) == 694 + 2 * 660)
        #expect(bytes(2_000_000) == bytes(1_000_000))
        #expect(bytes(310) == 694 + 2 * 1435)
        // A bitmap for each block, with the headers, in whole pages.
        #expect(bytes(500_000) == 694 + 2 * 32 * 4096)
    }

    @Test("Commits stop at the rate of fsyncs; further messages share them")
    func acceptance() {
        func cores(perSecond: Int) -> Double {
            Self.sizing {
                $0.peakFactor = 1
                $0.messagesPerDay = perSecond * 86_400
            }.cores.acceptance
        }
        // The published cells: 276.7 µs at 1,926 a second, 11.4 at 62,346, 7.5 at 109,269.
        for (rate, microseconds) in [(1926, 276.7), (62_346, 11.4), (109_269, 7.5)] {
            let published = Double(rate) * microseconds / 1e6
            let modelled = cores(perSecond: rate)
            #expect(abs(modelled - published) < published / 10, "\(rate): \(modelled)")
        }
    }

    @Test("A load beyond one broker is said")
    func remarks() {
        #expect(Self.sizing().remarks.isEmpty)
        #expect(Self.sizing { $0.messagesPerDay = 10_000_000_000 }.remarks.count == 1)
        #expect(Self.sizing { $0.instances = 20_000_000 }.remarks.count == 1)
        // A loop has 65,536 connections.
        #expect(Self.sizing().loops == 5)
        #expect(Self.sizing { $0.connections = 1000 }.loops == Self.sizing().cores.total)
    }

    @Test(
        "HTTP and TLS cost processor time, and messages that are not stored cost no fsync of their own"
    )
    func ways() {
        let plain = Self.sizing { $0.isSecure = false }
        #expect(Self.sizing { $0.isOverHTTP = true }.cores.acceptance > plain.cores.acceptance)
        #expect(Self.sizing().cores.deliveries > plain.cores.deliveries)
        #expect(Self.sizing().secondsToComeBack > plain.secondsToComeBack)
        let passed = Self.sizing { $0.storedShare = 0 }
        #expect(passed.peak.syncedWrites == 20)
        #expect(passed.cores.acceptance < Self.sizing().cores.acceptance)
    }

    @Test("The largest and the smallest load have a size")
    func bounds() {
        let most = Self.sizing {
            $0.instances = 1_000_000_000
            $0.connections = 1_000_000_000
            $0.messagesPerDay = 1_000_000_000
            $0.fanoutsPerDay = 1_000_000_000
            $0.peakFactor = 1000
        }
        #expect(most.memory.total > 1 << 40 && most.cores.total > 1000)
        let least = Self.sizing {
            $0.instances = 0
            $0.connections = 0
            $0.messagesPerDay = 0
        }
        #expect(least.disk.content == 0 && least.cores.total == 2)
    }
}
