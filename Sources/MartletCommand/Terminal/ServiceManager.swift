// SPDX-License-Identifier: Apache-2.0
//
// Tells a service manager how the broker is (OPS-11): one datagram for each state, to the socket that the manager names
// in NOTIFY_SOCKET. Source: sd_notify(3) of systemd. Without the variable nothing is told. Rests on POSIX sockets.

import FoundationEssentials
import Glibc
import Logging
package import Martlet

package struct ServiceManager: Sendable {
    private let address: [UInt8]
    /// The manager ends the service after this time without a sign of life; nil: never.
    private let watchdogMicroseconds: UInt64?
    /// Longest time of one percent of a migration: a percent of a terabyte at 40 MB in a second.
    private static let percentSeconds = 300
    /// A disk that reads pages of 4 KiB one by one, each in 0.2 ms.
    private static let checkedBytesPerSecond = 20_000_000

    /// nil: no service manager asks.
    init?(_ environment: [String: String] = ProcessInfo.processInfo.environment) {
        guard let path = environment["NOTIFY_SOCKET"], path.first == "/" || path.first == "@",
            path.utf8.count < MemoryLayout.size(ofValue: sockaddr_un().sun_path)
        else { return nil }
        var bytes = Array(path.utf8)
        // A name in the kernel's own space begins with a zero byte, and its length is that of the address.
        if bytes[0] == UInt8(ascii: "@") { bytes[0] = 0 }
        address = bytes
        let isOurs = environment["WATCHDOG_PID"].map { $0 == "\(getpid())" } ?? true
        watchdogMicroseconds =
            isOurs
            ? environment["WATCHDOG_USEC"].flatMap { UInt64($0) }.flatMap { $0 > 0 ? $0 : nil }
            : nil
    }

    func ready() { tell("READY=1") }
    func stopping() { tell("STOPPING=1") }

    /// OPS-3: a start takes as long as a migration of the data folder. Each percent prolongs the manager's time, because a
    /// migration that does not advance must not keep the manager waiting.
    func migrating(_ progress: MigrationProgress) { tell(Self.state(of: progress)) }

    package static func state(of progress: MigrationProgress) -> String {
        let formats = "the data folder from format \(progress.fromFormat) to \(progress.toFormat)"
        let status =
            progress.percent < 100
            ? "Migrating \(formats): \(progress.percent) %" : "Migrated \(formats)"
        return "EXTEND_TIMEOUT_USEC=\(percentSeconds * 1_000_000)\nSTATUS=\(status)"
    }

    /// OPS-4: a start on a copied folder takes as long as reading all of it, on a slow disk by the page.
    func checkingCopy(byteCount: Int) {
        let seconds = Self.percentSeconds + byteCount / Self.checkedBytesPerSecond
        tell("EXTEND_TIMEOUT_USEC=\(seconds * 1_000_000)\nSTATUS=Checking a copied data folder")
    }

    /// The manager waits until `ready` is told again.
    func reloading() {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        let microseconds = Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000
        tell("RELOADING=1\nMONOTONIC_USEC=\(microseconds)")
    }

    /// Time between two signs of life; nil: the manager awaits none. Asked often: a disk that is slow answers between two
    /// commits.
    var signMilliseconds: Int? {
        watchdogMicroseconds.map { Int(min($0 / 3000, 1000)) }
    }

    func live() { tell("WATCHDOG=1") }

    private func tell(_ state: String) {
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        var name = sockaddr_un()
        name.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: address) }
        let isPath = address[0] != 0
        let pathOffset = MemoryLayout<sockaddr_un>.offset(of: \.sun_path)!
        let length = socklen_t(pathOffset + address.count + (isPath ? 1 : 0))
        let text = Array(state.utf8)
        withUnsafePointer(to: &name) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                _ = sendto(descriptor, text, text.count, Int32(MSG_NOSIGNAL), $0, length)
            }
        }
    }
}
