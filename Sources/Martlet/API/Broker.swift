// SPDX-License-Identifier: Apache-2.0
//
// The embedding API (EMB-1): a broker on a data folder. A process may run several brokers, because the broker
// has no global state. A change goes through the committer, and the call returns when the change is on disk. A
// question reads a snapshot on the caller's thread. Rests on all other parts of the module.

package import CoreMetrics
import Dispatch
import Logging
package import MartletBase
import MartletCommitter
import MartletCrypto
import MartletEngine
import MartletNode
import MartletRing
package import MartletStore
import MartletTransport
public import MartletThreads
import Synchronization

/// A running broker on a data folder.
///
/// ```swift
/// let broker = try await Broker.open(BrokerConfiguration(folder: "data"))
/// _ = try await broker.createProject("tides")
/// let device = try await broker.register(app: "com.example.tides", platform: .android, in: "tides")
/// _ = try await broker.subscribe([device.token], to: "weather", in: "tides")
/// let message = Message(notification: .init(title: "Storm"))
/// let receipt = try await broker.send(OutgoingMessage(to: .topic("weather"), message), in: "tides")
/// try await broker.close()
/// ```
public final class Broker: Sendable {
    /// The store, for tests that compare the stores of a cluster.
    package let store: Store
    let committer: Committer
    let gauges: Gauges
    private let inquiry: Inquiry
    var answerer: Answerer { inquiry.answerer }
    let clock: @Sendable () -> Instant
    let quotas: ProjectQuotas
    let senderCredentials: SenderCredentials
    let configuration: BrokerConfiguration
    private let loops: RunningLoops
    private let surveys = LoopSurveys()
    private let backups: BackupRunner
    /// OPS-7: nil: the broker is alone.
    private let node: NodePlace?
    /// nil: the port speaks plain text.
    private let tls: TLSServer?
    /// nil without an address, and before the broker serves.
    private let address = Mutex<Announcement<AddressFile>?>(nil)
    private let hasServed = Atomic<Bool>(false)
    /// nil without a gateway.
    private let gatewayAddress = Mutex<Announcement<Void>?>(nil)
    /// NET-6, REG-10: the bounds on peers without a credential.
    package let strangers: StrangerBook
    private let isClosed = Atomic(false)
    private let writeCheck: WriteCheck

    /// NET-7: TCP ports of the listening sockets, in the order of `BrokerConfiguration.listeners`.
    public let ports: [UInt16]
    /// TCP port of the first listener; nil if the configuration has none.
    public var port: UInt16? { ports.first }
    /// OPS-8: the interface of the kernel in use.
    public let transport: BrokerConfiguration.TransportKind
    /// Whether the data folder had no data before this broker.
    package let isFolderNew: Bool
    /// The data folder, for files beside the store.
    package var folder: String { configuration.folder }
    /// REG-5: writes the gateway's token URL into the data folder. Commands on this machine read there where
    /// the gateway exchanges assertions for access tokens. nil removes the URL.
    package func tellGateway(_ tokenURL: String?) {
        gatewayAddress.withLock { address in
            _ = address?.end()
            address = nil
            DataFolder.removeTokenURL(in: folder)
            guard let tokenURL else { return }
            address = Announcement(of: "the gateway", configuration.logger) { [folder] in
                try DataFolder.writeTokenURL(tokenURL, in: folder)
            }
        }
    }
    /// The administrator key, which administrators present in HELLO. The file `admin.key` in the data folder
    /// has a copy.
    public let administratorKey: String
    /// GW-11: stands for the device key of every instance with an address at a push service, for this process alone.
    package let bridgeCredential = Credentials.deviceKey()

    /// Opens the data folder and, if the configuration has an address, listens on the address.
    ///
    /// - Throws: `MartletError` INVALID_ARGUMENT for a listener that the broker must not serve (OPS-6);
    ///   `TLSSetupError` for a certificate or key that cannot be used; `StoreOpenError` for a folder that
    ///   is in use, has an unknown format, is damaged, or has keys and no data; `TransportError` if the address is
    ///   not available, or if the configuration asks for io_uring and the kernel refuses; `StorageError` for a
    ///   damaged store; `MartletError` UNAVAILABLE if the system has no thread left, or if its clock is before 1970. Each
    ///   error says what to change.
    public static func open(_ configuration: BrokerConfiguration) async throws -> Broker {
        try Broker(configuration)
    }

    /// A clock that is set back further stands still here until it is right again. What was accepted meanwhile lives longer.
    private static let firstInstant = Instant(millisecondsSince1970: 0)

    private init(_ configuration: BrokerConfiguration) throws {
        try configuration.check()
        self.configuration = configuration
        tls = try configuration.tls.map { (credentials) throws in try TLSServer(credentials) }
        let given: @Sendable () -> Instant = configuration.clock ?? { SystemClock.now() }
        guard given() >= Self.firstInstant else {
            throw MartletError(
                .unavailable,
                "The system's clock is before 1970. Set it (timedatectl), or wait for NTP, and start again."
            )
        }
        // Rows have their times without a sign.
        let own: @Sendable () -> Instant = { max(given(), Self.firstInstant) }
        transport = try configuration.chosenTransport()
        let metrics = BrokerMetrics(other: configuration.metrics, folder: configuration.folder)
        var storing = StoreConfiguration(
            folder: configuration.folder, mapBytes: configuration.mapBytes)
        storing.journalWritten = { metrics.journalWritten(after: $0) }
        let (logger, migrating) = (configuration.logger, configuration.migrating)
        storing.migrationSteps = configuration.migrationSteps
        storing.migrating = { event in
            MigrationLog.log(event, to: logger)
            if let progress = MigrationProgress(event) { migrating?(progress) }
        }
        storing.recovered = { transactions, isComplete in
            logger.notice(
                isComplete
                    ? "the folder was not closed and is recovered; nothing that was accepted is lost"
                    : "the folder was not closed and is recovered up to the end of its journal",
                metadata: ["transactions": "\(transactions)"])
        }
        let checkingCopy = configuration.checkingCopy
        storing.checkingCopy = { byteCount in
            logger.notice(
                "the folder is a copy of one that was in use: everything in it is read and compared before it is served",
                metadata: ["bytes": "\(byteCount)"])
            checkingCopy?(byteCount)
        }
        storing.reopened = {
            logger.notice("the store was opened again after a failure of the disk; nothing is lost")
        }
        try DataFolder.requireData(in: configuration.folder)
        isFolderNew = !DataFolder.hasData(in: configuration.folder)
        if isFolderNew, configuration.cluster != nil { throw Self.noClusterFolder }
        if isFolderNew || configuration.cluster != nil {
            // A start that fails must leave no new folder and no node behind.
            for listener in configuration.listeners {
                try ListeningSocket.requireFree(
                    address: listener.address.host, port: listener.address.port)
            }
        }
        let store = try Store(storing)
        self.store = store
        // A killed broker may have left its address and the URL of its gateway. This broker and its gateway write
        // both anew.
        AddressFile.removeLeft(in: configuration.folder)
        DataFolder.removeTokenURL(in: configuration.folder)
        administratorKey = try DataFolder.administratorKey(in: configuration.folder)
        senderCredentials = SenderCredentials(
            store: store, secret: try DataFolder.tokenSecret(in: configuration.folder))
        if DataFolder.isOpenToAll(configuration.folder) {
            configuration.logger.warning(
                "every user of the system can replace files of the data folder; chmod 700 keeps it to its owner",
                metadata: ["folder": "\(configuration.folder)"])
        }
        let exposed = DataFolder.exposedFiles(in: configuration.folder)
        if !exposed.isEmpty {
            configuration.logger.warning(
                "other users of the system can read keys or messages; chmod 600 keeps the files to their owner",
                metadata: [
                    "folder": "\(configuration.folder)",
                    "files": "\(exposed.joined(separator: ", "))",
                ])
        }
        node = try Self.node(of: configuration, store)
        let clock: @Sendable () -> Instant =
            if let time = node?.time { { time.now(own) } } else { own }
        self.clock = clock
        quotas = ProjectQuotas(configuration.limits, nodes: node?.nodes)
        committer = Committer(
            store: store, limits: configuration.limits, quotas: quotas, clock: clock,
            logger: configuration.logger, metrics: metrics, node: node)
        strangers = StrangerBook(
            configuration.limits,
            monotonic: { SystemClock.monotonicMilliseconds() })
        writeCheck = WriteCheck(committer.pulse)
        gauges = Gauges(
            store: store, committer: committer, limits: configuration.limits,
            strangers: strangers, clock: clock)
        node?.report({ [weak gauges] in gauges?.figures(of: $0) }, quotas, clock: clock)
        let peers = Peers()
        backups = BackupRunner(configuration.backupCommand, configuration.logger)
        inquiry = Inquiry(
            Answerer(
                store: store, programs: committer.programs, gauges: gauges,
                quotas: quotas, folder: configuration.folder, backups: backups), peers: peers,
            logger: configuration.logger, committer: committer)
        var started = RunningLoops(
            LoopParts(
                configuration: configuration, gauges: gauges, inquiry: inquiry, peers: peers,
                quotas: quotas, senderCredentials: senderCredentials,
                administratorKey: administratorKey, bridgeCredential: bridgeCredential, tls: tls))
        do {
            try committer.pulse.start()
            try gauges.disk.start()
            switch transport {
            case .ioUring: try committer.startOnRing()
            case .epoll: try committer.startOnEpoll()
            }
            try node?.start(committer)
            try inquiry.start()
            ports =
                switch transport {
                case .ioUring: try started.start(on: UringTransport.self)
                case .epoll: try started.start(on: EpollTransport.self)
                }
            if !configuration.servesLater { try started.serve() }
        } catch {
            started.stop()
            inquiry.stop()
            committer.stop()
            node?.stop()
            gauges.disk.stop()
            committer.pulse.stop()
            // A thread may still hold the store for a moment, and the folder is free for the next broker at once.
            store.close()
            throw error
        }
        loops = started
        if !configuration.servesLater { tellServing() }
    }

    /// Listens, for a broker that was opened with `servesLater`. Called once.
    /// - Throws: the reason why a loop cannot listen. The broker is then still to be closed.
    package func serve() throws {
        try loops.serve()
        tellServing()
    }

    /// Whether the loops have begun to accept connections.
    package var isServing: Bool { hasServed.load(ordering: .relaxed) }

    private func tellServing() {
        hasServed.store(true, ordering: .relaxed)
        guard !ports.isEmpty else { return }
        address.withLock { $0 = Self.announce(ports, configuration, tls) }
        logStart()
    }

    /// OPS-11: a line of the log that says where the broker serves, and with which certificate.
    private func logStart() {
        let places = zip(configuration.listeners, ports).map { "\($0.address.host) \($1)" }
        var metadata: Logger.Metadata = [
            "folder": "\(folder)", "listening": "\(places.joined(separator: ", "))",
            "transport": "\(transport.rawValue)", "loops": "\(loops.count)",
        ]
        if isFolderNew { metadata["new"] = "yes" }
        if let tls { metadata.merge(tls.current.description) { $1 } }
        configuration.logger.notice("the broker serves", metadata: metadata)
    }

    /// Writes the address file, by which commands on this machine find the broker. Meanwhile a command can be given the
    /// address.
    private static func announce(
        _ ports: [UInt16], _ configuration: BrokerConfiguration, _ tls: TLSServer?
    ) -> Announcement<AddressFile>? {
        // Commands on this machine send no header of a proxy. Plain text costs them less.
        let listening = zip(configuration.listeners, ports).filter { !$0.0.isProxied }
        let plain = listening.first { configuration.security(of: $0.0) == .plain }
        guard let (listener, port) = plain ?? listening.first else { return nil }
        let (host, folder, isPlain) = (listener.address.host, configuration.folder, plain != nil)
        return Announcement(of: "the broker", configuration.logger) {
            try AddressFile(
                host: host, port: port, fingerprint: isPlain ? nil : tls?.current.fingerprint,
                in: folder)
        }
    }

    /// NET-5: closes the broker. The loops tell their peers to drain and finish accepted requests; then the
    /// threads end. No accepted message is lost. Later calls are refused with `UNAVAILABLE`.
    public func close() async throws {
        guard !isClosed.exchange(true, ordering: .acquiringAndReleasing) else { return }
        let (loops, inquiry, committer, store, clock) = (loops, inquiry, committer, store, clock)
        let address = address.withLock { $0 }
        let (surveys, node, backups) = (surveys, node, backups)
        let disk = gauges.disk
        let (hasServed, logger) = (isServing && !ports.isEmpty, configuration.logger)
        let finish: @Sendable () -> Void = {
            address?.end()?.remove()
            loops.stop()
            surveys.close()
            inquiry.stop()
            backups.end()
            committer.stop()
            node?.stop()
            committer.upstream.close()
            committer.watches.close(at: clock())
            disk.stop()
            let isClosed = store.close()
            committer.pulse.stop()
            guard hasServed else { return }
            logger.notice(
                isClosed
                    ? "the broker has ended, and the folder is closed"
                    : "the broker has ended; the folder could not be closed, and the next start recovers it"
            )
        }
        await withCheckedContinuation { continuation in
            do {
                // Joining a thread blocks, and a task must not block.
                let closing = try SystemThread(name: "martlet-close") {
                    finish()
                    continuation.resume()
                }
                closing.detach()
            } catch {
                finish()
                continuation.resume()
            }
        }
    }

    /// OPS-6, OPS-11: reads certificate, key and client authorities again. Later handshakes use the new ones; open
    /// connections stay. Without TLS the call has no effect.
    /// - Throws: the reason why a file cannot be used. The certificates then stay as they were.
    public func reloadCertificates() throws(TLSSetupError) {
        guard let tls else { return }
        try tls.reload()
        configuration.logger.notice(
            "handshakes use the certificate from now on", metadata: tls.current.description)
        address.withLock { $0 }?.file?.change(fingerprint: tls.current.fingerprint)
    }

    /// EMB-3: watchers of all projects.
    package var watcherCount: Int { committer.watches.watcherCount }

    /// OPS-11: the limits in force.
    public var limits: BrokerLimits { committer.limits.value }

    /// OPS-11: changes the limits while connections stay open. Requests meet the new limits within a second. The buckets
    /// of a changed rate are full again. The rules of mailboxes (`BrokerLimits.mailboxRules`) keep their values until
    /// the broker is opened again.
    /// - Returns: the limits in force from now on.
    @discardableResult
    public func change(limits: BrokerLimits) -> BrokerLimits {
        let inForce = committer.limits.change(to: limits)
        committer.book.change(limits: inForce)
        gauges.requestMemory.change(inForce)
        strangers.change(inForce)
        committer.wake()
        return inForce
    }

    /// Applies a command, and returns when the command is durable.
    /// - Throws: the refusal of the command; `UNAVAILABLE` if the inbox of the committer is full, or if the
    ///   broker is closed.
    func perform(_ command: Command) async throws(MartletError) -> Outcome {
        let outcome = await outcome(of: command)
        if case .refused(let error) = outcome { throw error }
        return outcome
    }

    /// Applies a command, and returns when the command is durable. A refusal is an outcome.
    func outcome(of command: Command) async -> Outcome {
        await withCheckedContinuation { continuation in
            submit(command) { continuation.resume(returning: $0) }
        }
    }

    /// Hands a command to the committer. Commands of a thread keep their order.
    /// - Parameter tell: called once with the durable outcome, on this thread or on the committer's.
    func submit(_ command: Command, _ tell: @escaping @Sendable (Outcome) -> Void) {
        func refuse(_ error: MartletError) {
            committer.noteRefusal(of: command, error)
            tell(.refused(error))
        }
        switch committer.inbox.push([Request(command: command, reply: .caller(tell))]) {
        case .taken(let mustWake): if mustWake { committer.wake() }
        case .full:
            refuse(
                MartletError(
                    .unavailable, "The broker has more to write than it can; try again.",
                    retryDelayMilliseconds: 200))
        case .closed: refuse(MartletError(.unavailable, "The broker is closed."))
        }
    }

    /// OPS-10: counts what is refused without a command. The committer counts refused commands.
    func counting<Value>(
        in project: ProjectNumber?, _ body: () throws(MartletError) -> Value
    ) throws(MartletError) -> Value {
        do throws(MartletError) { return try body() } catch {
            committer.metrics.refused(error, in: project)
            throw error
        }
    }

    /// OPS-10: counts what a door in front of the broker refuses by itself, because no command was made of it.
    /// - Parameter projectID: nil: no right credential has named a project.
    package func countRefusal(_ cause: ErrorWord, in projectID: String?) {
        committer.metrics.refused(cause, in: projectID.flatMap { committer.number(of: $0) })
    }

    /// GW-9: asks all loops.
    /// - Returns: an answer of each loop, in any order.
    /// - Throws: `UNAVAILABLE` for too many questions at a time, and if the broker closes.
    func survey(_ question: LoopQuestion) async throws(MartletError) -> [LoopAnswer] {
        try await surveys.ask(question, loops.handles)
    }

    /// OPS-12: names who does not answer: loops, committer or disk, and for how many seconds; nil: all answer.
    package var silence: String? { committer.pulse.silence }

    /// OPS-12: checks that the broker takes changes: that its threads answer, and that a row is written, after all earlier
    /// commands. The check fails if the store refused a change within the last ten seconds, and if there is no result after
    /// two seconds, as while a disk hangs. A result is valid for one second: a second call within that second writes no
    /// row.
    /// - Throws: `UNAVAILABLE` with the reason.
    public func checkWrites() async throws(MartletError) {
        let refusal = await withCheckedContinuation {
            (continuation: CheckedContinuation<MartletError?, Never>) in
            let first = FirstAnswer(continuation)
            guard let wait = beginCheck({ first.give($0) }) else { return }
            Task { [writeCheck] in
                try? await Task.sleep(for: .milliseconds(wait))
                first.give(writeCheck.late)
            }
        }
        if let refusal { throw refusal }
    }

    /// OPS-12: the result of `checkWrites` for a thread that may block, without a task: tasks wait for threads that may
    /// hang. The reason why the broker takes no changes; nil: the broker takes changes.
    package var writeFault: String? {
        let isKnown = DispatchSemaphore(value: 0)
        let result = Mutex<MartletError?>(nil)
        let wait = beginCheck { error in
            result.withLock { $0 = error }
            isKnown.signal()
        }
        let isLate = isKnown.wait(timeout: .now() + .milliseconds(Int(wait ?? 0))) == .timedOut
        return isLate ? writeCheck.late.message : result.withLock { $0?.message }
    }

    /// Begins a check.
    /// - Parameter tell: called once with the reason why no change is taken, perhaps late or never.
    /// - Returns: milliseconds after which the result is late; nil: the result has been told.
    private func beginCheck(_ tell: @escaping WriteCheck.Tell) -> Int64? {
        guard !isClosed.load(ordering: .acquiring) else {
            tell(MartletError(.unavailable, "The broker is closed."))
            return nil
        }
        switch writeCheck.begin(tell) {
        case .told: return nil
        case .wait(let milliseconds): return milliseconds
        case .write(let milliseconds):
            do throws(MartletError) {
                if let trouble = node?.trouble { throw .noActiveNode(trouble) }
                try node?.requireReadiness()
            } catch {
                writeCheck.finish(error)
                return nil
            }
            submit(.touch) { [writeCheck, committer] outcome in
                if case .refused(let error) = outcome { return writeCheck.finish(error) }
                writeCheck.finish(
                    committer.storeTrouble.map {
                        MartletError(
                            .unavailable, "The store does not take everything (\($0)).",
                            retryDelayMilliseconds: 1000)
                    })
            }
            return milliseconds
        }
    }

    /// Whether an address is one of the proxies whose word counts.
    package func isProxy(_ address: PeerAddress) -> Bool { configuration.isProxy(address) }

    /// The time of the broker's wall clock.
    public var now: Instant { clock() }

    /// Counters since the broker was opened, and gauges of this moment.
    public var statistics: BrokerStatistics { gauges.statistics }

    /// OPS-10: all metrics of the broker in the text format of Prometheus.
    public var metricsText: String { gauges.metricsText() }

    /// Receives metrics of doors that have none of their own.
    package var metricsFactory: any MetricsFactory { committer.metrics.factory }

    /// The metrics without `statistics`, which a gateway has in its own metrics.
    package var measuredText: String { gauges.metricsText(withFigures: false) }

    /// Takes `statistics` and the state of store and disk over into `BrokerConfiguration.metrics`. `metricsText` does so
    /// at each reading; with another metrics backend, call this method from time to time.
    public func recordMetrics() { gauges.recordMetrics() }
}

/// Gives the first of several answers to a waiting task.
private final class FirstAnswer: Sendable {
    private let waiting: Mutex<CheckedContinuation<MartletError?, Never>?>

    init(_ continuation: CheckedContinuation<MartletError?, Never>) {
        waiting = Mutex(continuation)
    }

    func give(_ answer: MartletError?) {
        waiting.withLock { $0.take() }?.resume(returning: answer)
    }
}
