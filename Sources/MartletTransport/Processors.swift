// SPDX-License-Identifier: Apache-2.0
//
// How many processors this process may keep busy. The machine may have more: a container, or `CPUQuota=` of systemd,
// gives a process a part of them, and `taskset` some. Threads beyond that part only wait for each other.
// Source: https://docs.kernel.org/admin-guide/cgroup-v2.html (cpu.max) and
// https://docs.kernel.org/scheduler/sched-bwc.html (cgroup v1). Rests on CAffinity.

internal import CAffinity
internal import Glibc

package enum Processors {
    /// Processors that the kernel may have, in bits.
    private static let processorsMax = 8192

    /// The processors of the calling thread, at most the quota of its control groups, rounded up.
    package static func count() -> Int {
        min(available, quota() ?? .max)
    }

    /// The processors on which the kernel lets the calling thread run.
    package static var available: Int {
        var bits = [UInt8](repeating: 0, count: processorsMax / 8)
        let byteCount = martlet_get_cores(&bits, UInt(bits.count))
        let count = bits.prefix(max(byteCount, 0)).reduce(0) { $0 + $1.nonzeroBitCount }
        return count > 0 ? count : max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))
    }

    /// The least quota of the process's control groups, of version 1 or 2, in whole processors rounded up; nil: no group
    /// has a quota. In a container without a namespace of its own the path is the host's, and its last part, or none of
    /// it, is in the folder; so files that are missing count as no quota.
    /// - Parameters:
    ///   - groups: the file that lists the groups of the process.
    ///   - folder: where the kernel shows control groups.
    package static func quota(
        groups: String = "/proc/self/cgroup", folder: String = "/sys/fs/cgroup"
    ) -> Int? {
        var least: Int?
        for line in (text(of: groups) ?? "").split(separator: "\n") {
            // Number, controllers, path; version 2 has the number 0 and no controllers.
            let fields = line.split(
                separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard fields.count == 3 else { continue }
            let isUnified = fields[0] == "0" && fields[1].isEmpty
            guard isUnified || fields[1].split(separator: ",").contains("cpu") else { continue }
            var names = fields[2].split(separator: "/")
            while true {
                let group = ([isUnified ? folder : "\(folder)/cpu"] + names.map(String.init))
                    .joined(separator: "/")
                if let found = isUnified ? unifiedQuota(of: group) : formerQuota(of: group) {
                    least = min(found, least ?? found)
                }
                // A group has at most what the groups above it have.
                guard names.popLast() != nil else { break }
            }
        }
        return least
    }

    /// Version 2: `max 100000`, or microseconds of a period and the period.
    private static func unifiedQuota(of group: String) -> Int? {
        let words = text(of: "\(group)/cpu.max")?.split { $0.isWhitespace } ?? []
        guard words.count == 2 else { return nil }
        return processors(Int(words[0]), of: Int(words[1]))
    }

    /// Version 1: the same two numbers in two files; -1 is no quota.
    private static func formerQuota(of group: String) -> Int? {
        func number(_ name: String) -> Int? {
            text(of: "\(group)/\(name)").flatMap { Int($0.filter { !$0.isWhitespace }) }
        }
        return processors(number("cpu.cfs_quota_us"), of: number("cpu.cfs_period_us"))
    }

    private static func processors(_ quota: Int?, of period: Int?) -> Int? {
        guard let quota, let period, quota > 0, period > 0 else { return nil }
        return (quota - 1) / period + 1
    }

    /// The text of a small file of the kernel; nil if the file cannot be read.
    private static func text(of path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 16_384)
        let count = read(descriptor, &bytes, bytes.count)
        return count >= 0 ? String(decoding: bytes.prefix(count), as: UTF8.self) : nil
    }
}
