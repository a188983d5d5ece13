// SPDX-License-Identifier: Apache-2.0
//
// The bytes of commands and outcomes, written down by hand from the comments of MartletCluster/Forwarding. A change of a vector
// is a change of the format: nodes of two versions would no longer understand each other.

import MartletBase
import MartletCluster
import MartletEngine
import MartletRows
import Testing

@Suite("Forwarding: vectors")
struct ForwardingVectorTests {
    /// Bytes from text: hexadecimal pairs, `'text'` for ASCII, `AA*32` for a repeated byte.
    private static func bytes(_ text: String) -> [UInt8] {
        text.split(separator: " ").flatMap { word -> [UInt8] in
            if word.hasPrefix("'") { return Array(word.dropFirst().dropLast().utf8) }
            let parts = word.split(separator: "*")
            let count = parts.count == 2 ? Int(parts[1])! : 1
            return [UInt8](repeating: UInt8(parts[0], radix: 16)!, count: count)
        }
    }

    private static let digest = SecretDigest(bytes: [UInt8](repeating: 0xDD, count: 32))
    private static let token = Token(bytes: [UInt8](repeating: 0x77, count: 24))
    private static let holder = Holder(digestStart: 0x0807_0605_0403_0201)
    private static let key = NewKey(id: "k1", name: "", digest: digest)

    private static let commands: [(CommandKind, Command, String)] = [
        (
            .createProject,
            .createProject(
                id: "pier", senderID: 300, conditionTopicsMax: 5, registration: .open, key: key),
            "01 01 04 'pier' AC 02 0A 03 01 02 'k1' 00 DD*32"
        ),
        (
            .changeProject,
            .changeProject(id: "pier", weight: 3, overload: nil, conditionTopicsMax: -1),
            "01 02 04 'pier' 01 06 00 01 01"
        ),
        (.createKey, .createKey(project: "pier", key: key), "01 03 04 'pier' 02 'k1' 00 DD*32"),
        (.revokeKey, .revokeKey(project: "pier", keyID: "k1"), "01 04 04 'pier' 02 'k1'"),
        (
            .createServiceAccount,
            .createServiceAccount(
                project: "p",
                key: NewServiceAccountKey(
                    id: "i", name: "n", clientEmail: "a@b", publicKey: [9, 8])),
            "01 05 01 'p' 01 'i' 01 'n' 03 'a@b' 02 09 08"
        ),
        (
            .revokeServiceAccount, .revokeServiceAccount(project: "p", keyID: "i"),
            "01 06 01 'p' 01 'i'"
        ),
        (
            .changeRegistry,
            .changeRegistry(
                project: "p",
                .policies(registration: .ticket, topics: .prefixes(["a", "b"]))),
            "01 07 01 'p' 01 01 02 01 03 02 01 'a' 01 'b'"
        ),
        (
            .changeRegistry,
            .changeRegistry(
                project: "p",
                .limits([
                    ProjectLimitChange(.groupMembers, to: 64),
                    ProjectLimitChange(.payloadBytes, to: nil),
                ])),
            "01 07 01 'p' 02 02 03 01 80 01 04 00"
        ),
        (
            .register,
            .register(
                NewInstance(
                    project: "p", app: "a", platform: .web, token: token, keyDigest: digest,
                    proof: .key(id: "k", digest: digest),
                    channel: AgentChannel(
                        agent: digest, channel: [UInt8](repeating: 0xCC, count: 16)))),
            "01 08 01 'p' 01 'a' 03 77*24 DD*32 03 01 'k' DD*32 01 DD*32 CC*16 00"
        ),
        (
            .unregister,
            .unregister(project: ProjectNumber(1), ordinal: Ordinal(128), holder: holder),
            "01 09 01 80 01 01 01 02 03 04 05 06 07 08"
        ),
        (
            .unregisterToken, .unregisterToken(project: ProjectNumber(1), token: "abc"),
            "01 0A 01 03 'abc'"
        ),
        (
            .changeTopics,
            .changeTopics(
                project: ProjectNumber(1), ordinal: Ordinal(2), change: .unsubscribe,
                topics: ["x"], holder: nil),
            "01 0B 01 02 02 01 01 'x' 00"
        ),
        (
            .changeTopic,
            .changeTopic(
                project: ProjectNumber(1), topic: "x", change: .subscribe, tokens: ["t"]),
            // The largest number of tokens in a step: 2^63 - 1, zigzag.
            "01 0C 01 01 'x' 01 01 01 't' 00 00 00 00 FE FF*8 01"
        ),
        (
            .createGroup,
            .createGroup(
                project: ProjectNumber(1), name: "g",
                key: GroupKey(bytes: [UInt8](repeating: 0x66, count: 24)), tokens: []),
            "01 0D 01 01 'g' 66*24 00"
        ),
        (
            .changeGroup,
            .changeGroup(
                project: ProjectNumber(1), name: "g", key: "k", change: .remove, tokens: ["t"]),
            "01 0E 01 01 'g' 01 'k' 02 01 01 't'"
        ),
        (
            .send,
            .send(
                project: ProjectNumber(1),
                message: SendCommand(
                    target: .several([.topic("x"), .token("t")]),
                    variants: [
                        OutgoingVariant(
                            platforms: .all, lifespan: .seconds(60), priority: .high,
                            collapse: .named("c"), restrictedPackageName: "r", body: [1, 2, 3],
                            size: MessageSize(payloadBytes: 3, blockBytes: 0))
                    ], options: MessageOptions(wantsReceipts: true), idempotencyKey: "i",
                    sendAt: Instant(millisecondsSince1970: 64), notReceived: 7)),
            """
            01 0F 01 04 05 02 02 01 'x' 01 01 't' 01 07 01 3C 02 03 01 'c' 01 01 'r' 03 01 02 03 \
            06 00 01 01 'i' 01 80 01 01 07 00
            """
        ),
        (
            .acknowledge,
            .acknowledge(
                [
                    Acknowledgement(
                        project: ProjectNumber(1), ordinal: Ordinal(2), holder: holder,
                        through: LaneMarks(MessageSequence(5)), single: [9],
                        departure: Acknowledgement.Departure(
                            connectionNumber: 1, position: MessageSequence(2),
                            throttleFull: Instant(millisecondsSince1970: -1),
                            seen: Instant(millisecondsSince1970: 1)),
                        skipped: Acknowledgement.Skipped(
                            through: MessageSequence(4), at: Instant(millisecondsSince1970: 0)),
                        arrival: MessageSequence(6))
                ],
                sent: [
                    SentCount(
                        project: ProjectNumber(1), sequence: nil, app: AppNumber(3), count: 8)
                ]),
            """
            01 10 01 0F 01 02 01 05 01 09 01 02 03 04 05 06 07 08 01 02 01 02 04 00 06 \
            01 01 00 03 08
            """
        ),
        (
            .connected,
            .connected(
                project: ProjectNumber(1), ordinal: Ordinal(2), holder: holder,
                connection: ConnectionStart(
                    number: 4, position: MessageSequence(5),
                    held: .dozing(
                        from: MessageSequence(1), through: MessageSequence(2),
                        heldFrom: MessageSequence(3)))),
            "01 11 01 02 01 02 03 04 05 06 07 08 04 05 01 01 02 01 03"
        ),
        (
            .rotate,
            .rotate(
                project: ProjectNumber(1), ordinal: Ordinal(2), holder: holder, token: token),
            "01 12 01 02 01 02 03 04 05 06 07 08 77*24"
        ),
        (.cancel, .cancel(project: ProjectNumber(5), number: 300), "01 13 05 AC 02"),
        (
            .receipt,
            .receipt(
                project: ProjectNumber(1), ordinal: Ordinal(2), holder: holder, kind: .opened,
                streamID: 1 << 63),
            "01 14 01 02 01 02 03 04 05 06 07 08 03 80*9 01"
        ),
        (
            .takeReceipts, .takeReceipts(project: ProjectNumber(1), through: 127), "01 15 01 7F"
        ),
        (
            .upstream,
            .upstream(
                UpstreamCommand(
                    project: ProjectNumber(1), ordinal: Ordinal(2), holder: holder,
                    target: .group("g"), messageID: "m", timeToLiveSeconds: 0, body: [7],
                    size: MessageSize(payloadBytes: 1, blockBytes: 0))),
            "01 16 01 02 01 02 03 04 05 06 07 08 02 01 'g' 01 'm' 01 00 01 07 02 00"
        ),
        (
            .takeUpstream, .takeUpstream(project: ProjectNumber(1), numbers: [1, 128]),
            "01 17 01 02 01 80 01"
        ),
        (.touch, .touch, "01 18"),
        (
            .count,
            .count([
                DayCount(
                    project: ProjectNumber(1), day: 20_000, app: AppNumber(2),
                    counts: {
                        var counts = ReportCounts()
                        counts[.targeted] = 3
                        counts[.nowOrNever] = 2
                        return counts
                    }())
            ]),
            "01 19 01 01 A0 9C 01 02 03 00*11 02 00 00"
        ),
        (
            .changeBridge,
            .changeBridge(
                .setAddress(
                    project: ProjectNumber(1), ordinal: Ordinal(2), holder: nil,
                    .apns(APNsAddress(token: [0xAB, 0xCD], isSandbox: true, bundle: "a.b")))),
            "01 1A 01 01 02 00 01 02 AB CD 01 03 'a.b'"
        ),
        (
            .changeBridge,
            .changeBridge(
                .putKey(
                    project: "p",
                    BridgeKey(
                        kind: .webPush, id: "i", owner: "o", sealed: [7],
                        created: Instant(millisecondsSince1970: 1)))),
            "01 1A 05 01 'p' 02 01 'i' 01 'o' 01 07 02"
        ),
    ]

    @Test("OPS-7 every command has the bytes that were written down")
    func commandVectors() throws {
        for (kind, command, text) in Self.commands {
            let bytes = Self.bytes(text)
            #expect(try command.forwarded() == bytes, "\(kind)")
            #expect(everything(in: try Command(forwarded: bytes)) == everything(in: command))
        }
        #expect(Set(Self.commands.map(\.0)) == Set(CommandKind.allCases))
    }

    private static let project: Project = {
        var limits = ProjectLimits()
        limits[.groupMembers] = 20
        return Project(
            number: ProjectNumber(1), id: "p", senderID: 2, limits: limits, weight: 1,
            overload: .refuse, lastSequence: MessageSequence(3), instanceCount: 4, topicCount: 5,
            reportCount: 6, reportsFrom: MessageSequence(7), nextOrdinal: Ordinal(8),
            nextTopic: TopicNumber(9), nextApp: AppNumber(10), appCount: 11)
    }()
    private static let projectText =
        "01 01 'p' 02 00 00 01 28 00*6 02 02 03 04 05 06 07 08 09 0A 0B"

    private static func outcomes() throws -> [(OutcomeKind, Outcome, String)] {
        let left = MessagesLeft(minute: 9, hour: nil)
        var tokens = Acceptance(
            messageNumber: 1, recipientCount: 2, rateLimitedCount: 3, inactiveCount: 4,
            deferredPlace: 5,
            named: .tokens(
                successCount: 1, failures: [.init(index: 1, word: .unregistered)]))
        tokens.allowance = DeviceAllowance(messages: left, upstream: MessagesLeft())
        let group = Acceptance(
            messageNumber: 1, recipientCount: 2,
            named: .group(
                successCount: 1, failures: [.init(token: token, word: .quotaExceeded)]))
        return [
            (.project, .project(project), "01 01 " + projectText),
            (
                .key,
                .key(
                    ServerKey(
                        id: "k", project: ProjectNumber(1), name: "n", digest: digest,
                        created: Instant(millisecondsSince1970: 1), isRevoked: true)),
                "01 02 01 'k' 01 01 'n' DD*32 02 01"
            ),
            (.done, .done, "01 03"),
            (
                .registered,
                .registered(
                    Instance(
                        project: ProjectNumber(1), ordinal: Ordinal(2), token: token,
                        formerTokens: [token], keyDigest: digest, app: AppNumber(3),
                        platform: .apple, registered: Instant(millisecondsSince1970: 2),
                        registeredBehind: MessageSequence(5)), project),
                "01 04 01 02 77*24 01 77*24 DD*32 03 02 04 05 " + projectText
            ),
            (
                .unregistered,
                .unregistered(project: ProjectNumber(1), ordinal: Ordinal(2), holder: holder),
                "01 05 01 02 01 02 03 04 05 06 07 08"
            ),
            (
                .topicsChanged,
                .topicsChanged(
                    TopicChangeResult(
                        successCount: 2, failures: [.init(index: 64, word: .notFound)])),
                "01 06 04 01 80 01 04"
            ),
            (
                .group,
                .group(
                    GroupMembers(
                        key: GroupKey(bytes: [UInt8](repeating: 0x66, count: 24)),
                        name: try GroupName(validating: "crew"), tokens: [token])),
                "01 07 66*24 04 'crew' 01 77*24"
            ),
            (
                .accepted, .accepted(tokens, fanouts: []),
                "01 08 01 02 03 04 05 03 02 01 02 06 01 01 09 00 00 00"
            ),
            (
                .accepted, .accepted(group, fanouts: []),
                "01 08 01 02 00 00 00 02 02 01 77*24 08 00"
            ),
            (.rotated, .rotated(token), "01 09 77*24"),
            (
                .cancelled,
                .cancelled(project: ProjectNumber(1), number: 2, sequence: MessageSequence(3)),
                "01 0A 01 02 01 03"
            ),
            (.receiptKept, .receiptKept(ProjectNumber(4)), "01 0B 01 04"),
            (.receiptKept, .receiptKept(nil), "01 0B 00"),
            (
                .upstreamAccepted,
                .upstreamAccepted(
                    UpstreamAcceptance(
                        project: ProjectNumber(1), number: 2, isForSenders: true, passing: nil),
                    fanouts: []),
                "01 0C 01 02 01"
            ),
            (
                .upstreamTaken, .upstreamTaken(ProjectNumber(1), numbers: [5]), "01 0D 01 01 05"
            ),
            (
                .refused,
                .refused(
                    MartletError(
                        .unavailable, "m", field: "f", byteOffset: 3,
                        retryDelayMilliseconds: nil)),
                "01 0E 0B 01 'm' 01 'f' 01 03 00"
            ),
            (
                .bridgeChanged,
                .bridgeChanged(
                    .instances(ProjectNumber(1), Ordinal(2), former: Ordinal(3))),
                "01 0F 02 01 02 03"
            ),
        ]
    }

    @Test("OPS-7 every outcome has the bytes that were written down")
    func outcomeVectors() throws {
        let outcomes = try Self.outcomes()
        for (kind, outcome, text) in outcomes {
            let bytes = Self.bytes(text)
            #expect(try outcome.forwarded() == bytes, "\(kind)")
            #expect(everything(in: try Outcome(forwarded: bytes)) == everything(in: outcome))
        }
        #expect(Set(outcomes.map(\.0)) == Set(OutcomeKind.allCases))
    }
}
