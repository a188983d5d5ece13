// SPDX-License-Identifier: Apache-2.0
//
// Apps that administrators make and delete (REG-8). Rests on Bench.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import Testing

@Suite("Apps")
struct AppTests {
    private let bench = Bench()
    private let project: ProjectNumber

    init() throws { project = try bench.project("tides") }

    private func apps() throws -> [String] {
        let project = project
        return try bench.store.read { (transaction) throws in
            guard let project = try transaction.projects.project(project) else { return [] }
            return try transaction.apps.apps(of: project).map { $0.app.name }
        }
    }

    private func count() throws -> UInt32 {
        let project = project
        return try bench.store.read { (transaction) throws in
            try transaction.projects.project(project)?.appCount ?? 0
        }
    }

    @Test("REG-8: an administrator makes an app once for each platform")
    func create() throws {
        #expect(refusal(try bench.change(.createApp(name: "a", platform: .android))) == nil)
        #expect(refusal(try bench.change(.createApp(name: "a", platform: .apple))) == nil)
        #expect(
            refusal(try bench.change(.createApp(name: "a", platform: .apple))) == .alreadyExists)
        #expect(
            refusal(try bench.change(.createApp(name: "a b", platform: .web))) == .invalidArgument)
        #expect(
            refusal(try bench.change(.deleteApp(name: "b", platform: .apple))) == .notFound)
        #expect(try apps() == ["a", "a"])
        try bench.expectClean()
    }

    @Test("REG-8: deleting an app unregisters its instances step by step, and no other's")
    func delete() throws {
        var gone: [Token] = []
        for index in 0..<300 {
            let new = bench.newInstance(in: "tides", app: index % 3 == 0 ? "stays" : "goes")
            _ = try bench.apply(.register(new))
            if index % 3 > 0 { gone.append(new.token) }
        }
        #expect(refusal(try bench.change(.deleteApp(name: "goes", platform: .android))) == nil)
        // The app keeps its place and its name until the last instance has left.
        #expect(try count() == 2)
        #expect(
            refusal(try bench.register(.trusted, app: "goes")) == .unavailable)
        #expect(
            refusal(try bench.change(.deleteApp(name: "goes", platform: .android))) == .notFound)
        try bench.expectClean()
        let outcomes = try bench.advance()
        #expect(outcomes.count == 200)
        for outcome in outcomes {
            guard case .unregistered = outcome else { throw Unexpected(outcome) }
        }
        for token in gone {
            #expect(refusal(try bench.send(.token(token.text), in: project)) == .unregistered)
        }
        #expect(try apps() == ["stays"])
        #expect(try count() == 1)
        #expect(try bench.rowCounts([.instances]) == [100])
        try bench.expectClean()
    }

    @Test("REG-8: a deletion goes on after a crash")
    func crash() throws {
        for _ in 0..<50 { _ = try bench.register(.trusted, app: "goes") }
        try bench.change(.deleteApp(name: "goes", platform: .android))
        try bench.reopen()
        #expect(try bench.advance().count == 50)
        #expect(try bench.rowCounts([.instances]) == [0])
        try bench.expectClean()
    }

    @Test("REG-8: a deleted app's place is free for another, and the same name keeps its number")
    func places() throws {
        for index in 0..<Limits.appsPerProjectMax {
            try bench.change(.createApp(name: "a\(index)", platform: .web))
        }
        #expect(
            refusal(try bench.change(.createApp(name: "late", platform: .web)))
                == .resourceExhausted)
        #expect(refusal(try bench.register(.trusted, app: "late")) == .resourceExhausted)
        try bench.change(.deleteApp(name: "a7", platform: .web))
        _ = try bench.advance()
        #expect(refusal(try bench.change(.createApp(name: "a7", platform: .web))) == nil)
        try bench.change(.deleteApp(name: "a8", platform: .web))
        _ = try bench.advance()
        #expect(refusal(try bench.change(.createApp(name: "late", platform: .web))) == nil)
        #expect(try count() == UInt32(Limits.appsPerProjectMax))
        try bench.expectClean()
    }

    @Test("REG-8: an app's number goes to another when no daily count can name the app any more")
    func numbers() throws {
        try bench.change(.createApp(name: "old", platform: .web))
        try bench.change(.deleteApp(name: "old", platform: .web))
        _ = try bench.advance()
        #expect(try bench.rowCounts([.apps, .deletedApps]) == [1, 1])
        bench.now = bench.now.advanced(bySeconds: Int64(bench.limits.reportDaysMax + 2) * 86_400)
        try bench.sweep()
        #expect(try bench.rowCounts([.apps, .appNames, .deletedApps]) == [0, 0, 0])
        try bench.expectClean()
        try bench.change(.createApp(name: "new", platform: .web))
        let project = project
        let next = try bench.store.read { (transaction) throws in
            try transaction.projects.project(project)?.nextApp
        }
        #expect(next == AppNumber(1))
        try bench.expectClean()
    }

    @Test("REG-3: the daily counts of a deleted app stay")
    func counts() throws {
        let new = bench.newInstance(in: "tides", app: "goes")
        _ = try bench.apply(.register(new))
        _ = try bench.accepted(.token(new.token.text), in: project)
        try bench.change(.deleteApp(name: "goes", platform: .android))
        _ = try bench.advance()
        try bench.expectClean()
        #expect(try apps() == [])
    }

    @Test("REG-8: a million strangers cannot have the store, the instances or the places for apps")
    func flood() throws {
        var limits = BrokerLimits.none
        limits.instancesPerProjectMax = 100
        limits.registrationsPerSecond = 20
        let bench = Bench(limits: limits)
        try bench.project("tides")
        try bench.setPolicy(.open)
        try bench.change(.createApp(name: "com.example.tides", platform: .android))
        var registeredCount = 0
        for round in 0..<2000 {
            let app = round % 2 == 0 ? "com.example.tides" : "hostile\(round)"
            if case .registered = try bench.register(.none, app: app) { registeredCount += 1 }
            if round % 100 == 0 { bench.now = bench.now.advanced(bySeconds: 1) }
        }
        #expect(registeredCount == 100)
        #expect(try bench.rowCounts([.instances, .apps, .appNames]) == [100, 1, 1])
        // The administrator deletes the app with all its instances, and the project is as new.
        try bench.change(.deleteApp(name: "com.example.tides", platform: .android))
        _ = try bench.advance()
        try bench.setPolicy(.key)
        try bench.addKey(1)
        bench.now = bench.now.advanced(bySeconds: 1)
        let outcome = try bench.register(.key(id: "key1", digest: Bench.digest(1)))
        #expect(refusal(outcome) == nil)
        #expect(try bench.rowCounts([.instances, .apps]) == [1, 1])
        try bench.expectClean()
    }
}
