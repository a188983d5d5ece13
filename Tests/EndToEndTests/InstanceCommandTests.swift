// SPDX-License-Identifier: Apache-2.0
//
// What administrators change about instances as users of the `martlet` executable meet it: `martlet
// subscribe`, `martlet unsubscribe`, `martlet unregister`. Rests on Desk.

import Foundation
import Testing

private struct Changed: Decodable, Equatable {
    struct Failure: Decodable, Equatable {
        var token: String
        var error: String
    }

    var successes: Int
    var failures: [Failure]
}

@Suite("martlet subscribe, unsubscribe and unregister", .timeLimit(.minutes(3)))
struct InstanceCommandTests {
    private func device(_ desk: Desk, _ name: String, _ port: String) throws -> (Process, String) {
        struct Ready: Decodable { var token: String }
        let device = try desk.start([
            "listen", "--project", "tides", "--app", "com.example.tides", "--port", port,
            "--state", name + ".json", "--json", "--timeout", "60",
        ])
        let line = desk.firstLine(device)
        return (device, try JSONDecoder().decode(Ready.self, from: Data(line.utf8)).token)
    }

    private func changed(_ output: Desk.Output) throws -> Changed {
        try JSONDecoder().decode(Changed.self, from: Data(output.out.utf8))
    }

    /// The same steps through a running broker, and on the folder when none serves it.
    private func steps(_ desk: Desk, _ a: String, _ b: String) throws {
        let project = ["--project", "tides"]
        let both = desk.finish(
            try desk.start(["subscribe", "storm", "--token", a, "--token", b] + project))
        #expect(both.status == 0 && both.out == "2 instances subscribed to storm\n", "\(both)")
        let again = desk.finish(
            try desk.start(["subscribe", "storm", "--token", a, "--json"] + project))
        #expect(try changed(again) == Changed(successes: 1, failures: []))
        let subscribers = desk.finish(try desk.start(["subscribers", "storm"] + project))
        #expect(Set(subscribers.out.split(separator: "\n").map(String.init)) == [a, b])

        let partly = desk.finish(
            try desk.start(
                ["unsubscribe", "storm", "--token", "nobody", "--token", b, "--json"] + project))
        #expect(partly.status == 1, "A script must see that a token was refused.")
        #expect(
            try changed(partly)
                == Changed(
                    successes: 1, failures: [.init(token: "nobody", error: "INVALID_ARGUMENT")]))
        let text = desk.finish(
            try desk.start(["unsubscribe", "storm", "--token", "nobody"] + project))
        #expect(text.status == 1 && text.out == "0 instances unsubscribed from storm\n")
        #expect(text.err == "nobody  INVALID_ARGUMENT\n")
        let left = desk.finish(try desk.start(["subscribers", "storm"] + project))
        #expect(left.out == a + "\n")
        let refused = desk.finish(
            try desk.start(["subscribe", "no topic", "--token", a] + project))
        #expect(refused.status == 1 && refused.err.contains("INVALID_ARGUMENT"))
        let none = desk.finish(try desk.start(["subscribe", "storm"] + project))
        #expect(none.status == 64, "A change for nobody is a wrong command line.")

        let gone = desk.finish(try desk.start(["unregister", "--token", b] + project))
        #expect(gone.status == 0 && gone.out == "1 instance unregistered\n", "\(gone)")
        let twice = desk.finish(
            try desk.start(["unregister", "--token", b, "--json"] + project))
        #expect(twice.status == 1)
        #expect(
            try changed(twice)
                == Changed(successes: 0, failures: [.init(token: b, error: "NOT_FOUND")]))
        let sent = desk.finish(
            try desk.start(["send", "--token", b, "--data", "n=1"] + project))
        #expect(sent.status == 1 && sent.err.contains("UNREGISTERED"))
        let nowhere = desk.finish(
            try desk.start(["unregister", "--token", a, "--project", "nowhere"]))
        #expect(nowhere.status == 1 && nowhere.err.contains("NOT_FOUND"))
    }

    @Test(
        "OPS-1 TOP-4 REG-3: subscriptions are changed and devices unregistered through the broker")
    func served() throws {
        let desk = try Desk()
        defer { desk.remove() }
        _ = try desk.run("project", "create", "tides")
        let (broker, port) = try desk.serve()
        defer {
            kill(broker.processIdentifier, SIGKILL)
            broker.waitUntilExit()
        }
        let (one, a) = try device(desk, "a", port)
        let (other, b) = try device(desk, "b", port)
        try steps(desk, a, b)
        // The one that was unregistered while it was connected ends by itself, and says why.
        let ended = desk.finish(other)
        #expect(ended.status == 1 && (ended.out + ended.err).contains("UNREGISTERED"), "\(ended)")
        // A server key may do the same.
        struct Key: Decodable { var key: String }
        let made = try desk.run("key", "create", "--project", "tides", "--name", "k", "--json")
        let key = try JSONDecoder().decode(Key.self, from: Data(made.out.utf8)).key
        let keyed = try desk.run(
            "unregister", "--project", "tides", "--key", key, "--port", port, "--token", a)
        #expect(keyed.status == 0 && keyed.out == "1 instance unregistered\n", "\(keyed)")
        _ = desk.finish(one)
        let audience = try desk.run(
            "audience", "--project", "tides", "!('storm' in topics)", "--json")
        struct Audience: Decodable { var total: Int }
        #expect(
            try JSONDecoder().decode(Audience.self, from: Data(audience.out.utf8)).total == 0)
    }

    @Test("OPS-1 TOP-4 REG-3: subscriptions are changed and devices unregistered on a folder")
    func embedded() throws {
        let desk = try Desk()
        defer { desk.remove() }
        _ = try desk.run("project", "create", "tides")
        let (broker, port) = try desk.serve()
        let (one, a) = try device(desk, "a", port)
        let (other, b) = try device(desk, "b", port)
        for device in [one, other] {
            device.terminate()
            _ = desk.finish(device)
        }
        broker.terminate()
        _ = desk.finish(broker)
        try steps(desk, a, b)
        #expect(try desk.run("check").status == 0)
    }
}
