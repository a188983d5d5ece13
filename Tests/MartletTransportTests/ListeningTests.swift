// SPDX-License-Identifier: Apache-2.0
//
// What accepted sockets get from the listening socket. Rests on BlockingClient.

import Glibc
import MartletTransport
import Testing

@Suite("Listening sockets")
struct ListeningTests {
    @Test("NET-11 an accepted socket is dead when its peer has not answered for 50 seconds")
    func unanswered() throws {
        let listening = try ListeningSocket(address: "127.0.0.1", port: 0, sendBytes: nil)
        let client = try BlockingClient(port: listening.port)
        let accepted = accept(listening.descriptor, nil, nil)
        #expect(accepted >= 0)
        defer { close(accepted) }
        for (option, expected) in [(TCP_USER_TIMEOUT, 50_000), (TCP_NODELAY, 1)] {
            var value: Int32 = 0
            var byteCount = socklen_t(MemoryLayout<Int32>.size)
            let code = getsockopt(accepted, Int32(IPPROTO_TCP), option, &value, &byteCount)
            #expect(code == 0 && value == expected)
        }
        client.endSending()
    }
}
