// SPDX-License-Identifier: Apache-2.0
//
// The processors of a process: its affinity, and the quotas of control groups in a folder that stands for the kernel's.

import CAffinity
import Foundation
import MartletTransport
import Testing

@Suite("Processors")
struct ProcessorsTests {
    struct Case: Sendable, CustomTestStringConvertible {
        /// The lines of /proc/self/cgroup.
        let groups: String
        /// Files of the kernel's folder.
        let files: [String: String]
        let quota: Int?
        let testDescription: String
    }

    @Test(
        "OPS-2 the quota is that of the process's control groups, rounded up",
        arguments: [
            Case(
                groups: "0::/\n", files: ["cpu.max": "200000 100000\n"], quota: 2,
                testDescription: "a container with a namespace of its own"),
            Case(
                groups: "0::/\n", files: ["cpu.max": "max 100000\n"], quota: nil,
                testDescription: "no quota"),
            Case(
                groups: "0::/\n", files: ["cpu.max": "150000 100000\n"], quota: 2,
                testDescription: "one and a half"),
            Case(
                groups: "0::/\n", files: ["cpu.max": "1000 100000\n"], quota: 1,
                testDescription: "a hundredth"),
            Case(
                groups: "0::/system.slice/martlet.service\n",
                files: [
                    "system.slice/martlet.service/cpu.max": "max 100000\n",
                    "system.slice/cpu.max": "300000 100000\n",
                ], quota: 3, testDescription: "the slice above the service"),
            Case(
                groups: "0::/a/b\n",
                files: ["a/b/cpu.max": "400000 50000\n", "a/cpu.max": "300000 50000\n"], quota: 6,
                testDescription: "the least of a group and those above it"),
            Case(
                groups: "0::/../host/part\n", files: ["cpu.max": "100000 100000\n"], quota: 1,
                testDescription: "a path of the host"),
            Case(
                groups: "5:memory:/box\n4:cpu,cpuacct:/box\n0::/\n",
                files: [
                    "cpu/box/cpu.cfs_quota_us": "250000\n",
                    "cpu/box/cpu.cfs_period_us": "100000\n",
                ], quota: 3, testDescription: "version 1"),
            Case(
                groups: "4:cpu,cpuacct:/docker/0123\n",
                files: ["cpu/cpu.cfs_quota_us": "100000\n", "cpu/cpu.cfs_period_us": "100000\n"],
                quota: 1, testDescription: "version 1 with a path of the host"),
            Case(
                groups: "4:cpu:/\n",
                files: ["cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"],
                quota: nil, testDescription: "version 1 without a quota"),
            Case(
                groups: "0::/\n4:cpu\n", files: ["cpu.max": "0 0\n"], quota: nil,
                testDescription: "files that say nothing"),
            Case(groups: "", files: [:], quota: nil, testDescription: "no control groups"),
        ])
    func quotas(_ one: Case) throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(
            "martlet-groups-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        for (name, text) in one.files.merging(["groups": one.groups], uniquingKeysWith: { $1 }) {
            let file = folder.appendingPathComponent(name)
            try FileManager.default.createDirectory(
                at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data(text.utf8).write(to: file)
        }
        let groups = folder.appendingPathComponent("groups").path
        #expect(Processors.quota(groups: groups, folder: folder.path) == one.quota)
        #expect(Processors.quota(groups: "\(groups)-none", folder: folder.path) == nil)
    }

    @Test("OPS-2 a thread that is kept on one processor has one")
    func affinity() async throws {
        let all = Processors.available
        #expect(all >= 1)
        let counts = Handoff<[Int]>()
        try await together({
            var cores = [UInt8](repeating: 0, count: 1024)
            let count = martlet_get_cores(&cores, UInt(cores.count))
            guard count > 0, let byte = cores.firstIndex(where: { $0 != 0 }) else {
                throw Failure("no processors")
            }
            let first = UInt8(1) << UInt8(cores[byte].trailingZeroBitCount)
            var one = [UInt8](repeating: 0, count: count)
            one[byte] = first
            guard martlet_set_cores(one, UInt(count)) == 0 else { throw Failure("not kept") }
            counts.give([Processors.available, Processors.count()])
        })
        #expect(try counts.take() == [1, 1])
        #expect(Processors.available == all)
    }
}
