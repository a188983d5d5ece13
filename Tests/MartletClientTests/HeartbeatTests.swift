// SPDX-License-Identifier: Apache-2.0
//
// The heartbeat event by event, on a clock that the test moves (DEV-5, NET-2).

import MartletClient
import Testing

/// One connection: the test lets seconds pass and says what is sent and what comes.
private struct Dialogue {
    var heartbeat: Heartbeat
    var now = Duration.zero
    var isReading = true

    init(_ pace: HeartbeatPace = HeartbeatPace(HeartbeatOptions()), idleSeconds: UInt32 = 1800) {
        heartbeat = Heartbeat(
            pace: pace, answerTimeout: .seconds(30), idleSeconds: idleSeconds, at: .zero)
    }

    mutating func pass(_ seconds: Int) { now += .seconds(seconds) }
    mutating func send() { heartbeat.sent(at: now, isRequest: false) }
    mutating func ask() { heartbeat.sent(at: now, isRequest: true) }
    mutating func receive() { heartbeat.received(at: now) }

    /// Goes to when it is due, and does what it says.
    mutating func tick() -> Heartbeat.Decision {
        now = heartbeat.due
        let decision = heartbeat.tick(at: now, isReading: isReading)
        if decision == .ping { send() }
        return decision
    }

    /// As `tick`, with when it was.
    mutating func step() -> String {
        let decision = tick()
        return "\(decision) at \(now.components.seconds)"
    }

    /// Silence until the next ping, which is answered a second later.
    /// - Returns: how long it was silent.
    mutating func survive() -> Duration {
        let start = now
        let decision = tick()
        #expect(decision == .ping)
        let silence = now - start
        pass(1)
        receive()
        return silence
    }

    /// Silence until the next ping, which nothing answers.
    mutating func die() {
        let first = tick()
        let second = tick()
        #expect(first == .ping && second == .giveUp)
    }
}

@Suite struct HeartbeatTests {
    @Test("DEV-5 while nothing is due nothing is done, and frames that come put it off")
    func quiet() {
        var dialogue = Dialogue()
        #expect(dialogue.heartbeat.due == .seconds(240))
        dialogue.pass(239)
        let early = dialogue.heartbeat.tick(at: dialogue.now, isReading: true)
        #expect(early == .nothing)
        for _ in 0..<100 {
            dialogue.receive()
            dialogue.send()
            #expect(dialogue.heartbeat.due == dialogue.now + .seconds(240))
            dialogue.pass(200)
            let decision = dialogue.heartbeat.tick(at: dialogue.now, isReading: true)
            #expect(decision == .nothing)
        }
        #expect(dialogue.heartbeat.pace.interval == .seconds(240), "nothing was learned")
    }

    @Test("DEV-5 any frame answers a ping; without one the connection is given up 30 s after it")
    func answers() {
        var dialogue = Dialogue()
        #expect(dialogue.step() == "ping at 240")
        #expect(dialogue.heartbeat.due == .seconds(270))
        dialogue.pass(29)
        dialogue.receive()
        dialogue.pass(1)
        let alive = dialogue.heartbeat.tick(at: dialogue.now, isReading: true)
        #expect(alive == .nothing)
        let again = dialogue.tick()
        dialogue.pass(29)
        let patient = dialogue.heartbeat.tick(at: dialogue.now, isReading: true)
        dialogue.pass(1)
        let dead = dialogue.heartbeat.tick(at: dialogue.now, isReading: true)
        #expect(again == .ping && patient == .nothing && dead == .giveUp)
    }

    @Test("DEV-5 silences that a connection survives take the interval from 4 to 28 minutes")
    func grows() {
        var dialogue = Dialogue()
        var silences: [Int64] = []
        for _ in 0..<8 { silences.append(dialogue.survive().components.seconds) }
        // The last ping left a second before its answer came, and the broker counts from it.
        #expect(silences == [240, 360, 540, 810, 1215, 1679, 1679, 1679])
        #expect(dialogue.heartbeat.pace.interval == .seconds(28 * 60))
    }

    @Test("DEV-5 a connection that is found dead halves the interval, never below 30 s")
    func shrinks() {
        var pace = HeartbeatPace(HeartbeatOptions())
        var intervals: [Int64] = []
        for _ in 0..<5 {
            var dialogue = Dialogue(pace)
            dialogue.die()
            pace = dialogue.heartbeat.pace
            intervals.append(pace.interval.components.seconds)
        }
        #expect(intervals == [120, 60, 30, 30, 30])
    }

    @Test("DEV-5 a silence that was deadly is tried again after 32 shorter ones that were not")
    func remembers() {
        var first = Dialogue()
        for _ in 0..<3 { _ = first.survive() }
        #expect(first.heartbeat.interval == .seconds(810))
        first.die()
        var second = Dialogue(first.heartbeat.pace)
        #expect(second.survive() == .seconds(405))
        // 607.5 s, and 911 would be more than what was deadly.
        for _ in 0..<HeartbeatPace.trialAfter { #expect(second.survive() == .seconds(607.5)) }
        #expect(second.heartbeat.interval == .seconds(911.25))
    }

    @Test(
        "DEV-5 a network that forgets after T is found: most silences are less than T and more than T/3",
        arguments: [45, 100, 299, 301, 600, 1000, 1700, 7200])
    func networks(timeout: Int64) {
        var pace = HeartbeatPace(HeartbeatOptions())
        var dialogue = Dialogue(pace)
        var deaths = 0
        var intervals: [Duration] = []
        for _ in 0..<1000 {
            if dialogue.heartbeat.interval < .seconds(timeout) {
                intervals.append(dialogue.survive())
            } else {
                dialogue.die()
                deaths += 1
                pace = dialogue.heartbeat.pace
                dialogue = Dialogue(pace)
            }
        }
        let goal = min(.seconds(timeout), Duration.seconds(28 * 60))
        let long = intervals.filter { $0 > goal / 3 }
        #expect(long.count > 900 && deaths <= 60, "\(long.count) \(deaths)")
        #expect(timeout < 1680 || deaths == 0)
    }

    @Test(
        "NET-2 something is sent two minutes before the broker would close, or at half of a short time"
    )
    func idle() {
        var dialogue = Dialogue()
        for _ in 0..<8 { _ = dialogue.survive() }
        let pace = dialogue.heartbeat.pace
        #expect(Dialogue(pace).heartbeat.interval == .seconds(1680))
        #expect(Dialogue(pace, idleSeconds: 600).heartbeat.interval == .seconds(480))
        #expect(Dialogue(pace, idleSeconds: 60).heartbeat.interval == .seconds(30))
        #expect(Dialogue(pace, idleSeconds: 2).heartbeat.interval == .seconds(1))
        // Messages come all the time, and the device has nothing to say.
        var busy = Dialogue(pace, idleSeconds: 600)
        for _ in 0..<47 {
            busy.pass(10)
            busy.receive()
            let decision = busy.heartbeat.tick(at: busy.now, isReading: true)
            #expect(decision == .nothing)
        }
        #expect(busy.step() == "ping at 480")
    }

    @Test("NET-2 a device that says much and hears nothing pings all the same")
    func deaf() {
        var dialogue = Dialogue()
        for _ in 0..<23 {
            dialogue.pass(10)
            dialogue.send()
        }
        #expect(dialogue.step() == "ping at 240")
        #expect(dialogue.step() == "giveUp at 270")
    }

    @Test("NET-2 whoever waits for an answer for 30 s has the connection looked at")
    func requests() {
        var dialogue = Dialogue()
        dialogue.pass(5)
        dialogue.ask()
        dialogue.pass(5)
        dialogue.ask()
        #expect(dialogue.heartbeat.due == .seconds(35))
        dialogue.receive()
        #expect(dialogue.heartbeat.due == .seconds(250))
        dialogue.ask()
        #expect(dialogue.step() == "ping at 40")
        // The broker is there, and takes its time.
        dialogue.receive()
        #expect(dialogue.heartbeat.due == .seconds(280))
        dialogue.ask()
        #expect(dialogue.step() == "ping at 70")
        #expect(dialogue.step() == "giveUp at 100")
    }

    @Test(
        "NET-2 while the application holds back reading, silence is no death, and the broker hears of it"
    )
    func paused() {
        var dialogue = Dialogue()
        #expect(dialogue.tick() == .ping)
        dialogue.isReading = false
        var pings = 0
        for _ in 0..<20 {
            let decision = dialogue.tick()
            #expect(decision != .giveUp)
            if decision == .ping { pings += 1 }
        }
        #expect(pings >= 10)
        dialogue.heartbeat.resumed(at: dialogue.now)
        dialogue.isReading = true
        #expect(dialogue.tick() == .ping)
        #expect(dialogue.tick() == .giveUp)
        #expect(dialogue.heartbeat.pace.interval == .seconds(120))
    }

    @Test("NET-2 the heartbeat of senders is what was asked for, whatever happens")
    func fixed() {
        var dialogue = Dialogue(HeartbeatPace(always: .seconds(20)))
        #expect(dialogue.survive() == .seconds(20))
        #expect(dialogue.survive() == .seconds(20))
        dialogue.die()
        #expect(dialogue.heartbeat.pace.interval == .seconds(20))
    }
}
