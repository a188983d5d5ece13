// SPDX-License-Identifier: Apache-2.0
//
// Measures how fairly a loop divides its deliveries among groups: projects (FAN-2), or fanouts of one project
// (FAN-3). The meter counts deliveries as the loop hands them over for sending, turn by turn. The meter also counts
// the turns that messages to single instances wait behind fanouts (FAN-5). Rests on the frames' lengths, types and
// targets.

import MartletBase
import MartletWire

/// Counts deliveries by group.
final class ShareMeter {
    /// A send: deliveries to one session of a group.
    private struct Send {
        var group: Int
        var count: Int
    }

    /// The sends of a turn, and for each group whether it had more to do at the turn's end.
    private struct Turn {
        var sends: [Send]
        var isBusy: [Bool]
    }

    private let groupCount: Int
    private var turns: [Turn] = []
    private var sends: [Send] = []
    /// Turns since the commit of each direct message in progress, oldest first.
    private var directs: [Int] = []
    /// Longest wait of a direct message, in turns.
    private(set) var directTurnsMax = 0
    /// Offset of the target's kind in DELIVER, behind length, type, stream ID and two instants.
    private static let kindOffset = 4 + 1 + 8 + 8 + 8

    init(groupCount: Int) { self.groupCount = groupCount }

    /// Counts the deliveries in whole frames that are handed over for one connection.
    func count(_ pieces: [UnsafeRawBufferPointer], of group: Int) {
        var bytes: [UInt8] = []
        for piece in pieces { bytes += piece }
        var count = 0
        bytes.withUnsafeBytes { bytes in
            var at = 0
            while at + 5 <= bytes.count {
                let length = Int(bytes.loadUnaligned(fromByteOffset: at, as: UInt32.self))
                if bytes[at + 4] == FrameType.deliver.rawValue {
                    if bytes[at + Self.kindOffset] == TargetKind.token.rawValue {
                        if !directs.isEmpty { directs.removeFirst() }
                    } else {
                        count += 1
                    }
                }
                at += 4 + length
            }
        }
        if count > 0 { sends.append(Send(group: group, count: count)) }
    }

    func directIsDue() { directs.append(0) }

    func endTurn(isBusy: [Bool]) {
        directs = directs.map { $0 + 1 }
        directTurnsMax = max(directTurnsMax, directs.max() ?? 0)
        turns.append(Turn(sends: sends, isBusy: isBusy))
        sends = []
    }

    /// Jain's index of the least fair window. A window is a run of sends during which all groups had work. A window
    /// has at least `size` deliveries, and without its first send would have fewer.
    /// - Returns: the index, and the number of windows.
    func leastFair(windowOf size: Int) -> (index: Double, windows: Int) {
        var least = 1.0
        var windows = 0
        for run in busyRuns {
            var sums = Array(repeating: 0, count: groupCount)
            var all = 0
            var first = 0
            for send in run {
                sums[send.group] += send.count
                all += send.count
                while all - run[first].count >= size {
                    sums[run[first].group] -= run[first].count
                    all -= run[first].count
                    first += 1
                }
                guard all >= size else { continue }
                windows += 1
                least = min(least, Self.jain(sums))
            }
        }
        return (least, windows)
    }

    /// Sends in runs of consecutive turns in which all groups had work throughout. New work begins before a turn's
    /// first delivery, so a group with work at the turn's end had work during the whole turn.
    private var busyRuns: [[Send]] {
        var runs: [[Send]] = []
        var run: [Send] = []
        for turn in turns {
            if turn.isBusy.contains(false) {
                runs.append(run)
                run = []
            } else {
                run += turn.sends
            }
        }
        return runs + [run]
    }

    /// Deliveries of each group while all groups had work.
    var shares: [Int] {
        var sums = Array(repeating: 0, count: groupCount)
        for send in busyRuns.joined() { sums[send.group] += send.count }
        return sums
    }

    /// Jain's index (Σx)² / (n · Σx²): 1 for equal shares (Source: Jain, Chiu, Hawe, "A quantitative measure of
    /// fairness", 1984).
    static func jain(_ shares: [Int]) -> Double {
        let sum = shares.reduce(0, +)
        let squares = shares.reduce(0) { $0 + $1 * $1 }
        return squares == 0 ? 1 : Double(sum * sum) / Double(shares.count * squares)
    }
}
