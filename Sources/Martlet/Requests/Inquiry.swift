// SPDX-License-Identifier: Apache-2.0
//
// The thread that answers questions. Explaining a long condition over millions of instances takes longer than a
// loop may be away from its devices. So loops hand questions to the inquiry, which pushes the answers to the
// loops' inboxes. Rests on Answerer.

import Glibc
import Logging
import MartletBase
import MartletCommitter
import MartletEngine
import MartletThreads
import MartletTransport
import MartletWire
import Synchronization

/// Answers the questions of all loops, one after another.
final class Inquiry: RequestHandler, @unchecked Sendable {
    /// Waiting questions past which a question is refused with a retry delay.
    static let waitingQuestionsMax = 4096

    private let inbox = Inbox<Question>(capacity: Inquiry.waitingQuestionsMax)
    let answerer: Answerer
    private let peers: Peers
    private let logger: Logger
    /// OPS-7: nil: the broker is alone, and its store has everything.
    private let committer: Committer?
    private let waiting = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    private let isStopping = Atomic(false)
    private let thread = Mutex<SystemThread?>(nil)

    init(_ answerer: Answerer, peers: Peers, logger: Logger, committer: Committer? = nil) {
        self.committer = committer?.node == nil ? nil : committer
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

    /// Ends the thread. Called after the end of all loops, so no question comes any more.
    func stop() {
        isStopping.store(true, ordering: .releasing)
        sem_post(waiting)
        thread.withLock { $0.take() }?.join()
    }

    func plan(
        for request: RequestFrame, of principal: Principal
    ) throws(MartletError) -> ConnectionPlan {
        try plan(try request.served, principal)
    }

    private func plan<Served: ServedRequest>(
        _ request: Served, _ principal: Principal
    ) throws(MartletError) -> ConnectionPlan {
        ConnectionPlan(
            correlation: request.correlation,
            plan: try request.plan(for: principal, answerer).framed(request.correlation),
            comesAfterAcknowledgements: Served.comesAfterAcknowledgements,
            isAboutProcess: Served.isAboutProcess)
    }

    /// - Parameter mustFit: take the question although the inbox is full, because its command has been applied
    ///   already. The bound on a connection's outstanding requests bounds the number of such questions.
    func ask(_ question: Question, mustFit: Bool) throws(MartletError) {
        switch inbox.push([question], mustFit: mustFit) {
        case .taken(let mustWake): if mustWake { sem_post(waiting) }
        case .full, .closed:
            throw MartletError(
                .unavailable, "The broker is asked more than it can answer; try again.",
                retryDelayMilliseconds: 500)
        }
    }

    /// Whether questions wait.
    var hasQuestions: Bool { inbox.count > 0 }

    private func run() {
        while true {
            while sem_wait(waiting) != 0 {}
            _ = answerWaiting()
            if isStopping.load(ordering: .acquiring) { return }
        }
    }

    /// Answers the waiting questions.
    /// - Returns: the number of questions.
    func answerWaiting() -> Int {
        let questions = inbox.drain()
        // An operator looks at a node above all when the log is away.
        answer(questions.filter(\.isAboutProcess), nil)
        let others = questions.filter { !$0.isAboutProcess }
        answer(others, others.isEmpty ? nil : committer?.waitForNewer())
        return questions.count
    }

    /// - Parameter refusal: the answer to all questions; nil: each has its own.
    private func answer(_ questions: [Question], _ refusal: MartletError?) {
        for question in questions {
            let answer = LoopMessage.answer(
                question.connection, question.charge,
                refusal.map { .error(ErrorFrame(correlation: question.correlation, error: $0)) }
                    ?? answer(question))
            invariant(question.loop < peers.all.count, "A question comes from a loop.")
            let loop = peers.all[question.loop]
            if case .taken(mustWake: true) = loop.inbox.push([answer]) { loop.waker.wake() }
        }
    }

    private func answer(_ question: Question) -> BrokerFrame {
        let correlation = question.correlation
        do {
            return try question.answer()
        } catch let error as MartletError {
            return .error(ErrorFrame(correlation: correlation, error: error))
        } catch {
            logger.error("a question failed", metadata: ["error": "\(error)"])
            return .error(ErrorFrame(correlation: correlation, error: .unreadable(error)))
        }
    }
}
