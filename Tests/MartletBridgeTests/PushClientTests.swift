// SPDX-License-Identifier: Apache-2.0
//
// The client of push services, against a service of its own that speaks HTTPS with and without HTTP/2.

import Foundation
import Martlet
import MartletBridge
import NIOSSL
import Testing

@Suite(
    "GW-11 The client of push services", .timeLimit(.minutes(2)),
    .enabled(if: PythonPrograms.areInstalled, "make python-sdks installs h2"))
struct PushClientTests {
    private func client(
        of service: PushService, isAllowed: Bool = true, isTrusted: Bool = true,
        requestSeconds: Int64 = 30
    ) -> PushClient {
        var configuration = PushClient.Configuration(
            isAllowed: { isAllowed && $0.isLoopback },
            trustRoots: isTrusted ? .file(service.start.authority) : .default)
        configuration.requestSeconds = requestSeconds
        return PushClient(configuration)
    }

    private func request(_ url: String, body: [UInt8] = [1, 2, 3]) throws -> PushRequest {
        PushRequest(
            to: try PushEndpoint(url), body: body, authorization: "vapid t=a.b.c,k=d",
            timeToLiveSeconds: 60)
    }

    @Test("GW-11 a message has the headers of RFC 8030, with HTTP/2 where it is offered")
    func headers() async throws {
        let service = try PushService()
        let client = client(of: service)
        let services = [(service.start.port, "h2"), (service.start.plain, "http/1.1")]
        for (count, (port, name)) in zip(1..., services) {
            let base = "https://localhost:\(port)/push/201/"
            var message = try request(base + "whole?token=%2Fx")
            message.urgency = .high
            message.topic = "tides"
            #expect(await client.send(message) == .taken)
            #expect(await client.send(try request(base + "bare", body: [])) == .taken)
            let whole = try #require(
                try await service.requests("whole", count: count).last { $0.protocol == name })
            #expect(whole.method == "POST")
            #expect(whole.path == "/push/201/whole?token=%2Fx")
            #expect(whole.body == Data([1, 2, 3]))
            let told = whole.headers
            #expect(told["ttl"] == "60" && told["urgency"] == "high" && told["topic"] == "tides")
            #expect(told["authorization"] == "vapid t=a.b.c,k=d")
            #expect(told["content-encoding"] == "aes128gcm" && told["content-length"] == "3")
            #expect(told[":authority"] ?? told["host"] == "localhost:\(port)")
            let bare = try #require(
                try await service.requests("bare", count: count).last { $0.protocol == name })
            #expect(bare.headers["content-encoding"] == nil && bare.headers["topic"] == nil)
            #expect(bare.headers["urgency"] == "normal" && bare.body.isEmpty)
        }
        await client.close()
        #expect(
            await client.send(try request("https://localhost:\(service.start.port)/push/201/x"))
                == .later(status: nil, reason: "the broker stops", seconds: nil))
    }

    @Test("GW-11 each answer has its meaning, and a redirect is not followed")
    func answers() async throws {
        let service = try PushService()
        let client = client(of: service)
        for port in [service.start.port, service.start.plain] {
            let base = "https://localhost:\(port)/push/"
            for (path, answer) in [
                ("202/a", PushAnswer.taken), ("404/a", .gone(status: 404)),
                ("410/a", .gone(status: 410)), ("413/a", .tooLong),
                ("400/a", .refused(status: 400, reason: "HTTP 400 told ")),
                ("429/a?retry-after=7", .later(status: 429, reason: "HTTP 429 told ", seconds: 7)),
                ("503/a", .later(status: 503, reason: "HTTP 503 told ", seconds: nil)),
                (
                    "307/a?location=%2Fpush%2F201%2Fled",
                    .refused(status: 307, reason: "HTTP 307 told ")
                ),
                ("201/end", .taken),
            ] {
                #expect(await client.send(try request(base + path)) == answer, "\(path)")
            }
            // What the peer has read before the end shows that nothing was led elsewhere.
            #expect(try await service.requests("end").count > 0)
            guard case .later(nil, _, nil) = await client.send(try request(base + "end/b")) else {
                Issue.record("The connection ended without an answer.")
                return
            }
        }
        #expect(try await service.requests("led", count: 0).isEmpty)
        await client.close()
    }

    @Test("GW-11 a service that does not answer is given up, and others go on meanwhile")
    func silence() async throws {
        let service = try PushService()
        let client = client(of: service, requestSeconds: 2)
        let slow = "https://localhost:\(service.start.port)/push/silence/"
        let quick = "https://127.0.0.1:\(service.start.port)/push/201/quick"
        await withTaskGroup(of: PushAnswer?.self) { group in
            for number in 0..<PushClient.requestsPerOriginMax + 20 {
                group.addTask { await client.send(try! request(slow + "\(number)")) }
            }
            group.addTask {
                #expect(await client.send(try! request(quick)) == .taken)
                return nil
            }
            var reasons: [String: Int] = [:]
            for await answer in group {
                guard case .later(nil, let reason, nil)? = answer else { continue }
                reasons[String(reason.prefix(10)), default: 0] += 1
            }
            #expect(reasons["too many r"] == 20)
            #expect(reasons.values.reduce(0, +) == PushClient.requestsPerOriginMax + 20)
        }
        #expect(await client.send(try request(quick)) == .taken)
        await client.close()
    }

    @Test(
        "GW-11 an address that is not public gets nothing, in whatever form it is written",
        arguments: [
            "https://localhost:PORT/push/201/a", "https://127.0.0.1:PORT/push/201/a",
            "https://127.1:PORT/push/201/a", "https://2130706433:PORT/push/201/a",
            "https://0x7f000001:PORT/push/201/a", "https://0177.0.0.1:PORT/push/201/a",
            "https://[::1]:PORT/push/201/a", "https://[::ffff:7f00:1]:PORT/push/201/a",
            "https://169.254.169.254/latest", "https://10.0.0.1/a",
        ])
    func privateAddresses(form: String) async throws {
        let service = try PushService()
        let client = client(of: service, isAllowed: false)
        let url = form.replacingOccurrences(of: "PORT", with: String(service.start.port))
        guard case .refused(nil, let reason) = await client.send(try request(url)) else {
            Issue.record("\(url) was asked.")
            return
        }
        #expect(reason.hasPrefix("the host's address is not public"))
        #expect(try await service.requests("a", count: 0).isEmpty)
        await client.close()
    }

    @Test("GW-11 a service without a certificate of a known authority gets nothing")
    func authority() async throws {
        let service = try PushService()
        let stranger = client(of: service, isTrusted: false)
        let url = "https://localhost:\(service.start.port)/push/201/a"
        guard case .later(nil, _, nil) = await stranger.send(try request(url)) else {
            Issue.record("A service without a known certificate was asked.")
            return
        }
        #expect(try await service.requests("a", count: 0).isEmpty)
        let friend = client(of: service)
        #expect(await friend.send(try request(url)) == .taken)
        // The certificate is for another name of the host.
        guard
            case .later(nil, _, nil) = await friend.send(
                try request("https://127.1:\(service.start.plain)/push/201/a"))
        else {
            Issue.record("A certificate for another name was taken.")
            return
        }
        await stranger.close()
        await friend.close()
    }

    @Test("GW-11 a name without an address, and a host without a listener, are for later")
    func absent() async throws {
        let service = try PushService()
        let client = client(of: service, requestSeconds: 5)
        for url in ["https://nobody.invalid/a", "https://127.0.0.1:1/a"] {
            guard case .later(nil, _, nil) = await client.send(try request(url)) else {
                Issue.record("\(url) answered.")
                return
            }
        }
        await client.close()
    }

    @Test("GW-11 many messages share few connections")
    func sharing() async throws {
        let service = try PushService()
        let client = client(of: service)
        for (port, most) in [(service.start.port, 1), (service.start.plain, 8)] {
            let url = "https://localhost:\(port)/push/201/many"
            #expect(await client.send(try request(url)) == .taken)
            await withTaskGroup(of: PushAnswer.self) { group in
                for _ in 0..<60 { group.addTask { await client.send(try! request(url)) } }
                for await answer in group { #expect(answer == .taken) }
            }
            let kind = port == service.start.port ? "h2" : "http/1.1"
            let told = try await service.requests("many", count: most == 1 ? 61 : 122)
                .filter { $0.protocol == kind }
            #expect(told.count == 61)
            #expect(Set(told.map(\.connection)).count <= most)
        }
        await client.close()
    }
}
