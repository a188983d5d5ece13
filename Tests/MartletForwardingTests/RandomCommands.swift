// SPDX-License-Identifier: Apache-2.0
//
// Commands and outcomes with random values. The switches are over all numbers of the format, and the format has a
// number for each case of the engine's enums, so a new case does not compile without a sample here.

import EngineBench
import MartletBase
import MartletCluster
import MartletEngine
import MartletRows

struct RandomCommands {
    var random: SeededGenerator

    init(seed: UInt64) { random = SeededGenerator(seed: seed) }

    // MARK: Fields

    mutating func flag() -> Bool { .random(using: &random) }
    mutating func u8() -> UInt8 { .random(in: 0...255, using: &random) }

    /// A number of any length in bits.
    mutating func u64() -> UInt64 {
        let bits = Int.random(in: 0...64, using: &random)
        return bits == 0 ? 0 : UInt64.random(in: 0 ... .max, using: &random) >> (64 - bits)
    }
    mutating func u32() -> UInt32 { UInt32(truncatingIfNeeded: u64()) }
    mutating func u16() -> UInt16 { UInt16(truncatingIfNeeded: u64()) }
    mutating func int() -> Int { Int(bitPattern: UInt(u64())) }
    mutating func count() -> Int { Int(u32()) }
    mutating func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in u8() } }
    mutating func bytes() -> [UInt8] { bytes(Int.random(in: 0...40, using: &random)) }

    mutating func text() -> String {
        let alphabet = ["a", "Z", "0", "/", " ", "ä", "⚓", "👩‍🚀", "\0", "\n", "e\u{301}"]
        let count = Int.random(in: 0...(u8() < 4 ? 300 : 9), using: &random)
        return (0..<count).map { _ in alphabet.randomElement(using: &random)! }.joined()
    }

    mutating func one<Choice: CaseIterable>(_ type: Choice.Type = Choice.self) -> Choice {
        Choice.allCases.randomElement(using: &random)!
    }
    mutating func list<Element>(_ make: (inout Self) -> Element) -> [Element] {
        (0..<Int.random(in: 0...4, using: &random)).map { _ in make(&self) }
    }
    mutating func optional<Value>(_ make: (inout Self) -> Value) -> Value? {
        flag() ? make(&self) : nil
    }

    mutating func project() -> ProjectNumber { ProjectNumber(u32()) }
    mutating func ordinal() -> Ordinal { Ordinal(u32()) }
    mutating func app() -> AppNumber { AppNumber(u32()) }
    mutating func sequence() -> MessageSequence { MessageSequence(u64()) }
    mutating func instant() -> Instant {
        Instant(millisecondsSince1970: Int64(bitPattern: u64()))
    }
    mutating func token() -> Token { Token(bytes: bytes(Limits.tokenRandomBytes)) }
    mutating func groupKey() -> GroupKey { GroupKey(bytes: bytes(Limits.tokenRandomBytes)) }
    mutating func digest() -> SecretDigest { SecretDigest(bytes: bytes(32)) }
    mutating func holder() -> Holder { Holder(digestStart: random.next()) }
    mutating func platforms() -> PlatformSet { PlatformSet(rawValue: u8()) }

    mutating func marks() -> LaneMarks {
        var marks = LaneMarks(sequence())
        if flag() { for lane in Lane.all { marks[lane] = sequence() } }
        return marks
    }

    mutating func absence() -> Absence {
        flag()
            ? .away(from: sequence(), through: sequence())
            : .dozing(from: sequence(), through: sequence(), heldFrom: sequence())
    }

    mutating func counts() -> ReportCounts {
        var counts = ReportCounts()
        for event in ReportEvent.allCases where flag() { counts[event] = u64() }
        return counts
    }

    mutating func size() -> MessageSize { MessageSize(payloadBytes: count(), blockBytes: count()) }

    mutating func lifespan() -> Lifespan {
        switch u8() % 3 {
        case 0: .seconds(u32())
        case 1: .until(instant())
        default: .longest
        }
    }

    mutating func collapse() -> CollapseKey {
        switch u8() % 5 {
        case 0: .none
        case 1: .app
        case 2: .named(text())
        case 3: .opaque(topic: nil)
        default: .opaque(topic: text())
        }
    }

    mutating func variant() -> OutgoingVariant {
        OutgoingVariant(
            platforms: platforms(), lifespan: lifespan(), priority: one(), collapse: collapse(),
            restrictedPackageName: optional { $0.text() }, body: bytes(), size: size())
    }

    mutating func target(single: Bool = false) -> SendCommand.Target {
        switch u8() % (single ? 4 : 5) {
        case 0: .token(text())
        case 1: .topic(text())
        case 2: .condition(text())
        case 3: .group(text())
        default: .several(list { $0.target(single: true) })
        }
    }

    mutating func message() -> SendCommand {
        var message = SendCommand(
            target: target(), variants: list { $0.variant() }, validateOnly: flag(),
            options: MessageOptions(wantsReceipts: flag()), idempotencyKey: optional { $0.text() },
            sendAt: optional { $0.instant() }, notReceived: optional { $0.u64() })
        message.asksAllowance = flag()
        message.attempt = optional { SendAttempt(place: $0.u32(), number: $0.u64()) }
        return message
    }

    mutating func newKey() -> NewKey { NewKey(id: text(), name: text(), digest: digest()) }

    mutating func topicPolicy() -> TopicPolicy {
        switch u8() % 3 {
        case 0: .all
        case 1: .noTopics
        default: .prefixes(list { $0.text() })
        }
    }

    mutating func registryChange() -> RegistryChange {
        switch u8() % 8 {
        case 0:
            .policies(registration: optional { $0.one() }, topics: optional { $0.topicPolicy() })
        case 1: .limits(list { ProjectLimitChange($0.one(), to: $0.optional { $0.int() }) })
        case 2: .createRegistrationKey(newKey())
        case 3: .revokeRegistrationKey(id: text())
        case 4:
            .createTicketKey(
                NewTicketKey(id: text(), name: text(), algorithm: one(), material: bytes()))
        case 5: .revokeTicketKey(id: text())
        case 6: .createApp(name: text(), platform: one())
        default: .deleteApp(name: text(), platform: one())
        }
    }

    mutating func proof() -> RegistrationProof {
        switch u8() % 4 {
        case 0: .none
        case 1: .trusted
        case 2: .key(id: text(), digest: digest())
        default:
            .ticket(
                VerifiedTicket(
                    keyID: text(), digest: digest(), expires: instant(),
                    topics: list { $0.text() }))
        }
    }

    mutating func newInstance() -> NewInstance {
        NewInstance(
            project: text(), app: text(), platform: one(), token: token(), keyDigest: digest(),
            proof: proof(),
            channel: optional { AgentChannel(agent: $0.digest(), channel: $0.bytes(16)) },
            bridging: optional { Bridging($0.bridgeAddress(), isOnlyWay: $0.flag()) })
    }

    mutating func result() -> TopicChangeResult {
        TopicChangeResult(
            successCount: count(),
            failures: list { TopicChangeResult.Failure(index: $0.count(), word: $0.one()) })
    }

    mutating func progress() -> TopicChangeProgress {
        var progress = TopicChangeProgress()
        guard flag() else { return progress }
        progress.doneCount = count()
        progress.result = result()
        progress.order = list { $0.u16() }
        progress.stepMax = count()
        return progress
    }

    mutating func acknowledgement() -> Acknowledgement {
        var acknowledgement = Acknowledgement(
            project: project(), ordinal: ordinal(), holder: optional { $0.holder() },
            through: marks(), single: list { $0.u64() },
            departure: optional {
                Acknowledgement.Departure(
                    connectionNumber: $0.u64(), position: $0.sequence(),
                    throttleFull: $0.instant(), seen: $0.instant())
            },
            skipped: optional { Acknowledgement.Skipped(through: $0.sequence(), at: $0.instant()) },
            arrival: optional { $0.sequence() })
        acknowledgement.isHandedOver = flag()
        return acknowledgement
    }

    mutating func sentCount() -> SentCount {
        SentCount(
            project: project(), sequence: optional { $0.sequence() }, app: app(), count: u64())
    }

    mutating func upstream() -> UpstreamCommand {
        UpstreamCommand(
            project: project(), ordinal: ordinal(), holder: holder(),
            target: flag() ? .project : .group(text()), messageID: text(),
            timeToLiveSeconds: optional { $0.u32() }, body: bytes(), size: size())
    }

    mutating func projectRecord() -> Project {
        var limits = ProjectLimits()
        for limit in ProjectLimit.allCases where flag() {
            limits[limit] = Int.random(in: limit.bounds, using: &random)
        }
        return Project(
            number: project(), id: text(), senderID: u64(), limits: limits, weight: int(),
            overload: one(), lastSequence: sequence(), instanceCount: u64(), topicCount: u64(),
            reportCount: u64(), reportsFrom: sequence(), nextOrdinal: ordinal(),
            nextTopic: TopicNumber(u32()), nextApp: app(), appCount: u32())
    }

    mutating func instance() -> Instance {
        Instance(
            project: project(), ordinal: ordinal(), token: token(),
            formerTokens: list { $0.token() }, keyDigest: digest(), app: app(), platform: one(),
            registered: instant(), registeredBehind: sequence())
    }

    mutating func left() -> MessagesLeft {
        MessagesLeft(minute: optional { $0.u64() }, hour: optional { $0.u64() })
    }

    mutating func acceptance() -> Acceptance {
        let named: NamedResults =
            switch u8() % 3 {
            case 0: .none
            case 1:
                .group(
                    successCount: count(),
                    failures: list { NamedResults.GroupFailure(token: $0.token(), word: $0.one()) })
            default: .tokens(successCount: count(), failures: result().failures)
            }
        var acceptance = Acceptance(
            messageNumber: u64(), recipientCount: u64(), rateLimitedCount: u64(),
            inactiveCount: u64(), deferredPlace: u64(), named: named)
        acceptance.allowance = optional {
            DeviceAllowance(messages: $0.left(), upstream: $0.left())
        }
        return acceptance
    }

    mutating func bridgeAddress() -> BridgeAddress {
        flag()
            ? .apns(APNsAddress(token: bytes(), isSandbox: flag(), bundle: text()))
            : .webPush(
                WebPushAddress(
                    endpoint: text(), publicKey: bytes(65), authentication: bytes(16)))
    }

    mutating func bridgeChange() -> BridgeChange {
        switch u8() % 6 {
        case 0:
            .setAddress(
                project: project(), ordinal: ordinal(), holder: optional { $0.holder() },
                bridgeAddress())
        case 1:
            .removeAddress(
                project: project(), ordinal: ordinal(), holder: optional { $0.holder() })
        case 2: .end(project: project(), ordinal: ordinal(), holder: holder(), bridgeAddress())
        case 3:
            .refuse(
                BridgeRefusal(
                    project: project(), ordinal: ordinal(), holder: holder(),
                    sequence: sequence(), kind: one(), reason: text()))
        case 4:
            .putKey(
                project: text(),
                BridgeKey(
                    kind: one(), id: text(), owner: text(), sealed: bytes(), created: instant()))
        default: .removeKey(project: text(), kind: one(), id: text())
        }
    }

    mutating func bridgeNews() -> BridgeNews {
        switch u8() % 4 {
        case 0: .instance(project(), ordinal())
        case 1: .instances(project(), ordinal(), former: ordinal())
        case 2: .unregistered(project(), ordinal())
        default: .keys(project())
        }
    }

    // MARK: Wholes

    mutating func command(_ kind: CommandKind) -> Command {
        switch kind {
        case .createProject:
            .createProject(
                id: text(), senderID: u64(), conditionTopicsMax: int(), registration: one(),
                key: optional { $0.newKey() })
        case .changeProject:
            .changeProject(
                id: text(), weight: optional { $0.int() }, overload: optional { $0.one() },
                conditionTopicsMax: optional { $0.int() })
        case .createKey: .createKey(project: text(), key: newKey())
        case .revokeKey: .revokeKey(project: text(), keyID: text())
        case .createServiceAccount:
            .createServiceAccount(
                project: text(),
                key: NewServiceAccountKey(
                    id: text(), name: text(), clientEmail: text(), publicKey: bytes()))
        case .revokeServiceAccount: .revokeServiceAccount(project: text(), keyID: text())
        case .changeRegistry: .changeRegistry(project: text(), registryChange())
        case .register: .register(newInstance())
        case .unregister:
            .unregister(
                project: project(), ordinal: ordinal(), holder: optional { $0.holder() })
        case .unregisterToken: .unregisterToken(project: project(), token: text())
        case .changeTopics:
            .changeTopics(
                project: project(), ordinal: ordinal(), change: one(), topics: list { $0.text() },
                holder: optional { $0.holder() })
        case .changeTopic:
            .changeTopic(
                project: project(), topic: text(), change: one(), tokens: list { $0.text() },
                progress: progress())
        case .createGroup:
            .createGroup(
                project: project(), name: text(), key: groupKey(), tokens: list { $0.text() })
        case .changeGroup:
            .changeGroup(
                project: project(), name: text(), key: text(), change: one(),
                tokens: list { $0.text() })
        case .send: .send(project: project(), message: message())
        case .acknowledge:
            .acknowledge(list { $0.acknowledgement() }, sent: list { $0.sentCount() })
        case .connected:
            .connected(
                project: project(), ordinal: ordinal(), holder: holder(),
                connection: ConnectionStart(
                    number: u64(), position: sequence(), held: optional { $0.absence() }))
        case .rotate:
            .rotate(project: project(), ordinal: ordinal(), holder: holder(), token: token())
        case .cancel: .cancel(project: project(), number: u64())
        case .receipt:
            .receipt(
                project: project(), ordinal: ordinal(), holder: holder(), kind: one(),
                streamID: u64())
        case .takeReceipts: .takeReceipts(project: project(), through: u64())
        case .upstream: .upstream(upstream())
        case .takeUpstream: .takeUpstream(project: project(), numbers: list { $0.u64() })
        case .changeBridge: .changeBridge(bridgeChange())
        case .touch: .touch
        case .count:
            .count(
                list {
                    DayCount(
                        project: $0.project(), day: $0.u32(), app: $0.app(), counts: $0.counts())
                })
        }
    }

    /// An outcome without work for loops: the work does not travel with the answer.
    mutating func outcome(_ kind: OutcomeKind) throws -> Outcome {
        switch kind {
        case .project: .project(projectRecord())
        case .key:
            .key(
                ServerKey(
                    id: text(), project: project(), name: text(), digest: digest(),
                    created: instant(), isRevoked: flag()))
        case .done: .done
        case .registered: .registered(instance(), projectRecord())
        case .unregistered:
            .unregistered(project: project(), ordinal: ordinal(), holder: holder())
        case .topicsChanged: .topicsChanged(result())
        case .group:
            .group(
                GroupMembers(
                    key: groupKey(), name: try GroupName(validating: "crew ⚓ \(u16())"),
                    tokens: list { $0.token() }))
        case .accepted: .accepted(acceptance(), fanouts: [])
        case .rotated: .rotated(token())
        case .cancelled:
            .cancelled(
                project: project(), number: u64(), sequence: optional { $0.sequence() })
        case .receiptKept: .receiptKept(optional { $0.project() })
        case .upstreamAccepted:
            .upstreamAccepted(
                UpstreamAcceptance(
                    project: project(), number: u64(), isForSenders: flag(), passing: nil),
                fanouts: [])
        case .upstreamTaken: .upstreamTaken(project(), numbers: list { $0.u64() })
        case .bridgeChanged: .bridgeChanged(bridgeNews())
        case .refused:
            .refused(
                MartletError(
                    one(), text(), field: text(), byteOffset: optional { $0.u32() },
                    retryDelayMilliseconds: optional { $0.u32() }))
        }
    }
}

/// Every stored property of a value and of its parts, private ones too, as text. Reflection knows nothing of the codec.
func everything(in value: Any) -> String {
    if let vector = value as? any SIMD { return "\(vector)" }
    let mirror = Mirror(reflecting: value)
    let type = "\(mirror.subjectType)"
    guard !mirror.children.isEmpty else { return "\(type) \(String(reflecting: value))" }
    let children = mirror.children.map { "\($0.label ?? "-"): \(everything(in: $0.value))" }
    return "\(type) (\(children.joined(separator: ", ")))"
}
