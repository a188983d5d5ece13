// SPDX-License-Identifier: Apache-2.0
//
// Ports for servers that are told their port before they start, or keep it over restarts, and ports on which nobody may
// listen. A port of the system's choice does for none of them: once it is free, another test may be given it. Rests on POSIX
// sockets.

import Glibc

public enum FreePort {
    public struct NotFound: Error {}

    /// Linux gives the ports behind these to connections. Such a port could be taken whenever the server is down, and who
    /// calls it meanwhile may reach themselves.
    private static let claimable: Range<UInt16> = 10_000..<32_768
    private static let triesMax = 1_000

    /// A port on which nothing listens, and which no other caller gets while this process runs. The claim on the port
    /// is a UDP socket with the same number, so callers in other processes see it too (Tests/Python/ports.py).
    public static func claim() throws(NotFound) -> UInt16 {
        for _ in 0..<triesMax {
            let port = claimable.randomElement()!
            guard let claim = bound(port, SOCK_DGRAM) else { continue }
            if let probe = bound(port, SOCK_STREAM) {
                close(probe)
                return port
            }
            close(claim)
        }
        throw NotFound()
    }

    /// - Returns: a socket with a port of 127.0.0.1; nil if another socket has the port.
    private static func bound(_ port: UInt16, _ kind: __socket_type) -> Int32? {
        let descriptor = socket(AF_INET, Int32(kind.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let isBound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(descriptor, pointer, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        if isBound { return descriptor }
        close(descriptor)
        return nil
    }
}
