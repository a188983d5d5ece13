// SPDX-License-Identifier: Apache-2.0
//
// What an operator reads when the kernel says no: the number decides, the sentence helps.

import Glibc
import MartletRing
import MartletTransport
import Testing

@Suite("Errors of the ring")
struct RingErrorTests {
    @Test(
        "each refusal of setup says what to change",
        arguments: [
            (EPERM, "kernel.io_uring_disabled"), (EPERM, "--security-opt seccomp=unconfined"),
            (EACCES, "io_uring_setup"), (ENOSYS, "Linux 6.1"), (EINVAL, "Linux 6.1"),
            (ENOMEM, "RLIMIT_MEMLOCK"), (EMFILE, "RLIMIT_NOFILE"), (ENFILE, "fs.file-max"),
            (EIO, "Input/output error"),
        ])
    func setup(errno: Int32, words: String) {
        #expect(TransportError.setup("io_uring_setup", errno: errno).description.contains(words))
    }

    @Test(
        "each refusal of listening says what to change",
        arguments: [
            (EADDRINUSE, "choose another port"), (EACCES, "CAP_NET_BIND_SERVICE"),
            (EADDRNOTAVAIL, "0.0.0.0"), (EMFILE, "RLIMIT_NOFILE"), (ENOBUFS, "memory"),
            (ENOTSOCK, "bind failed"),
        ])
    func listening(errno: Int32, words: String) {
        let error = TransportError.listening("bind", errno: errno, address: "10.0.0.1", port: 80)
        #expect(error.description.contains(words))
    }

    @Test("entering a ring of another thread, or one that lost completions, is told")
    func entering() {
        #expect(TransportError.entering(errno: EEXIST) == .wrongThread)
        #expect(TransportError.entering(errno: EBADR) == .completionsLost)
        #expect(
            TransportError.entering(errno: EIO) == .system(operation: "io_uring_enter", errno: EIO))
    }

    @Test("no sentence is empty or ends without a full stop")
    func sentences() {
        let errors: [TransportError] = [
            .kernelTooOld(missing: "x"), .denied(errno: EPERM), .outOfMemory(operation: "x"),
            .descriptorsExhausted(operation: "x"), .addressInUse(address: "::", port: 1),
            .addressUnavailable(address: "::", port: 1), .portDenied(address: "::", port: 1),
            .badAddress("x"), .wrongThread, .completionsLost, .system(operation: "x", errno: EIO),
        ]
        for error in errors { #expect(error.description.hasSuffix(".")) }
    }

    @Test("a configuration past the kernel's bounds is refused with the bound")
    func configuration() throws {
        var configuration = UringConfiguration()
        #expect(configuration.fault == nil)
        configuration.receiveBufferCount = 1000
        let fault = try #require(configuration.fault)
        #expect(fault.contains("32768"))
        #expect(throws: TransportError.badConfiguration(fault)) {
            _ = try UringTransport(configuration: configuration)
        }
    }

    @Test("more connections than the limit of descriptors are clamped and told")
    func clamped() async throws {
        try await together {
            let transport = try makeTransport(.ioUring) { $0.connectionsMax = 1 << 21 }
            var limit = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            #expect(transport.connectionsMax == min(Int(clamping: limit.rlim_cur), 1 << 20))
        }
    }
}
