// SPDX-License-Identifier: Apache-2.0
//
// The thread that answers questions. Explaining a long condition over millions of instances takes
// longer than a loop may be away from its devices, so loops hand questions over and are handed
// answers. Rests on Answerer.

import Glibc
import Logging
import MartletBase
import MartletEngine
import MartletRing
import MartletWire
import Synchronization

/// What somebody asked on a loop's connection.
struct Question: Sendable {
    let loop: Int
    let connection: ConnectionID
    let frame: ClientFrame
    let principal: Principal
    /// Given back with the answer.
    let charge: RequestCharge
}

/// The questions of all loops, answered one after another.
final class Inquiry: @unchecked Sendable {
    /// Questions waiting past which askers are told to come back later.
    static let waitingQuestionsMax = 4096

    private let inbox = Inbox<Question>(capacity: Inquiry.waitingQuestionsMax)
    private let answerer: Answerer
    private let peers: Peers
    private let logger: Logger
    private let waiting = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    private let isStopping = Atomic(false)
    private let thread = Mutex<SystemThread?>(nil)

    init(_ answerer: Answerer, peers: Peers, logger: Logger) {
        self.answerer = answerer
        self.peers = peers
        self.logger = logger
        sem_init(waiting, 0, 0)
    }

    deinit {
        sem_destroy(waiting)
        waiting.deallocate()
    }

    func start() throws {
        let running = try SystemThread(name: "martlet-inquiry") { [self] in run() }
        thread.withLock { $0 = running }
    }

    /// Called when no loop asks any more.
    func stop() {
        isStopping.store(true, ordering: .releasing)
        sem_post(waiting)
        thread.withLock { $0.take() }?.join()
    }

    /// - Parameter mustFit: the question is part of something that has been done already. What a
    ///   connection may have outstanding bounds how many there are.
    func ask(_ question: Question, mustFit: Bool = false) throws(MartletError) {
        switch inbox.push([question], mustFit: mustFit) {
        case .taken(let mustWake): if mustWake { sem_post(waiting) }
        case .full, .closed:
            throw MartletError(
                .unavailable, "The broker is asked more than it can answer; try again.",
                retryDelayMilliseconds: 500)
        }
    }

    private func run() {
        while true {
            while sem_wait(waiting) != 0 {}
            _ = answerWaiting()
            if isStopping.load(ordering: .acquiring) { return }
        }
    }

    /// - Returns: how many questions there were.
    func answerWaiting() -> Int {
        let questions = inbox.drain()
        for question in questions {
            let answer = LoopMessage.answer(
                question.connection, question.charge, answer(question))
            let loop = peers.all[question.loop]
            if case .taken(mustWake: true) = loop.inbox.push([answer]) { loop.waker.wake() }
        }
        return questions.count
    }

    private func answer(_ question: Question) -> BrokerFrame {
        let correlation = question.frame.correlation ?? 0
        do {
            return try answerer.answer(question.frame, question.principal)
        } catch let error as MartletError {
            return .error(ErrorFrame(correlation: correlation, error: error))
        } catch {
            logger.error("a question failed", metadata: ["error": "\(error)"])
            return .error(ErrorFrame(correlation: correlation, error: .unreadable(error)))
        }
    }
}
