// SPDX-License-Identifier: Apache-2.0
//
// Starts that must fail with a sentence, and starts from a poor environment: taken ports, closed standard descriptors, no
// threads, limited files. Rests on Desk, with real processes.

import Foundation
import Synchronization
import Testing

@Suite("Starts", .timeLimit(.minutes(2)))
struct StartTests {
    /// Connects to a port of this machine again and again.
    private final class Fleet: Sendable {
        let welcomes = Atomic(0)
        private let isOver = Atomic(false)

        init(port: UInt16) {
            Thread.detachNewThread { [self] in
                while !isOver.load(ordering: .acquiring) {
                    let peer = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
                    var address = sockaddr_in()
                    address.sin_family = sa_family_t(AF_INET)
                    address.sin_port = port.bigEndian
                    address.sin_addr.s_addr = inet_addr("127.0.0.1")
                    let result = withUnsafePointer(to: &address) {
                        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                            connect(peer, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                        }
                    }
                    if result == 0 { welcomes.add(1, ordering: .relaxed) }
                    close(peer)
                    usleep(1000)
                }
            }
        }

        func end() { isOver.store(true, ordering: .releasing) }
    }

    /// A listening socket of this process, on a port that the system chooses.
    private static func listener() -> (descriptor: Int32, port: UInt16) {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                _ = bind(descriptor, $0, size)
                _ = listen(descriptor, 1)
                _ = getsockname(descriptor, $0, &size)
            }
        }
        return (descriptor, UInt16(bigEndian: address.sin_port))
    }

    @Test(
        "OPS-5 a start that fails for a taken port has welcomed no device",
        arguments: ["http", "metrics"])
    func taken(setting: String) throws {
        let desk = try Desk()
        defer { desk.remove() }
        let (holder, taken) = Self.listener()
        defer { close(holder) }
        let (free, port) = Self.listener()
        close(free)
        // The port is closed while nobody listens, so every connection is one to the broker.
        let fleet = Fleet(port: port)
        let end = try desk.run(
            "serve", "--port", "\(port)", "--\(setting)", "127.0.0.1:\(taken)")
        fleet.end()
        #expect(end.status == 1 && end.out.isEmpty, "\(end)")
        #expect(end.err.contains("\(taken)") && end.err.contains("in use"), "\(end)")
        #expect(fleet.welcomes.load(ordering: .relaxed) == 0)
    }

    @Test("OPS-5 a closed standard descriptor is not the number of a socket or a file")
    func closed() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let process = try desk.shell("exec \"$0\" serve --port 0 0<&- 1>&- 2>&-")
        let address = desk.folder.appending(path: "martlet-data/serve.address").path
        while !FileManager.default.fileExists(atPath: address), process.isRunning { usleep(10_000) }
        for descriptor in 0...2 {
            #expect(
                try FileManager.default.destinationOfSymbolicLink(
                    atPath: "/proc/\(process.processIdentifier)/fd/\(descriptor)") == "/dev/null")
        }
        process.terminate()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
    }

    @Test("OPS-5 too few threads end a start with the reason", arguments: [1, 8])
    func threads(count: Int) throws {
        let desk = try Desk()
        defer { desk.remove() }
        // Root has no limit of processes, and no other user may have the number.
        let user = geteuid() == 0 ? "setpriv --reuid 64123 --clear-groups" : ""
        let process = try desk.shell(
            "chmod 777 .; ulimit -u \(count); exec \(user) \"$0\" serve --port 0 --data /tmp/martlet-none/d"
        )
        let end = desk.finish(process)
        #expect(end.status == 1 && end.err.contains("TasksMax"), "\(end)")
    }

    @Test("OPS-5 a limit of the size of files is named")
    func size() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let end = desk.finish(try desk.shell("ulimit -f 100; exec \"$0\" serve --port 0"))
        #expect(end.status == 1 && end.err.contains("LimitFSIZE"), "\(end)")
    }
}
