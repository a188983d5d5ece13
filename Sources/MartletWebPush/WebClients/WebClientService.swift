// SPDX-License-Identifier: Apache-2.0
//
// Sends web pages their messages through their browsers' push services (GW-11). A message becomes the object that the web
// SDK reads, encrypted for the page (RFC 8291), and goes out with a token signed by the project's key (RFC 8292). If the
// endpoint is of this broker's own Web Push door, we skip HTTP. Rests on MartletBridge.

package import Martlet
package import MartletBridge
import MartletCrypto
import MartletRows
import MartletWire
import Synchronization

/// Hands messages to browsers' push services.
package final class WebClientService: PushService {
    private let broker: Broker
    private let client: PushClient
    /// The broker's own Web Push door, if it has one.
    private let own: WebPushDoor?
    private let signers = Mutex<[ProjectNumber: [PushSigner]]>([:])

    /// - Throws: `INVALID_ARGUMENT` if the file of authorities can't be used.
    package init(
        _ broker: Broker, _ configuration: BridgeConfiguration, own: WebPushDoor?
    ) throws(MartletError) {
        self.broker = broker
        self.own = own
        let allowsPrivate = configuration.allowsPrivateAddresses
        var settings = PushClient.Configuration { _ in allowsPrivate }
        if let file = configuration.authorities { try settings.trust(authoritiesIn: file) }
        client = PushClient(settings)
    }

    package var kind: BridgeKind { .webPush }

    package func keysChanged(of project: ProjectNumber) async {
        signers.withLock { $0[project] = nil }
    }

    package func close() async { await client.close() }

    package func handOver(
        _ message: HandOver, with keys: [OpenBridgeKey]
    ) async -> HandOverAnswer {
        let own = own
        guard case .webPush(let address) = message.instance.bridging.address,
            let endpoint = try? PushEndpoint(address.endpoint, isPlainAllowed: own != nil),
            let recipient = PushRecipient(
                publicKey: address.publicKey, authentication: address.authentication)
        else { return .refused(reason: "BadSubscription") }
        guard
            let content = try? Message(
                decoding: message.message.message, unknownTags: .skip)
        else { return .refused(reason: "BadMessage") }
        let collapseKey = Message.deliveredCollapseKey(in: message.message.message)
        let text = WebClientContent.text(
            of: content, from: message.message.from,
            messageID: MessageID.text(
                message.message.messageNumber, projectID: message.projectID),
            collapseKey: collapseKey)
        guard text.count <= PushEncryption.textBytesMax else {
            return .refused(reason: "PayloadTooLarge")
        }
        let body: [UInt8]
        // Nobody can encrypt for these keys, now or later.
        do { body = try PushEncryption.encrypt(text, to: recipient) } catch {
            return .refused(reason: "BadSubscription")
        }
        var request = PushRequest(
            to: endpoint, body: body, authorization: "",
            timeToLiveSeconds: timeToLive(of: message.message))
        request.topic = collapseKey.flatMap { PushTopic.text(for: $0) }
        request.urgency = message.message.priority == .high ? .high : .normal
        if let own, own.isOwn(endpoint) {
            return await own.handOver(request, from: keys.map(\.key.publicPoint))
        }
        return await send(request, with: keys, of: message.instance.project)
    }

    /// What is left of the message's time to live; 0 if it is now or never.
    private func timeToLive(of message: Deliver) -> UInt32 {
        guard message.isStored else { return 0 }
        let milliseconds =
            message.expires.millisecondsSince1970 - broker.now.millisecondsSince1970
        return UInt32(
            clamping: max(1, min(milliseconds / 1000, Int64(Limits.timeToLiveSecondsMax))))
    }

    // MARK: Push services of others

    /// Tries the newest key first, then the older ones: a subscription only takes messages of the key that the page subscribed
    /// with.
    private func send(
        _ request: PushRequest, with keys: [OpenBridgeKey], of project: ProjectNumber
    ) async -> HandOverAnswer {
        var answer = HandOverAnswer.refused(reason: "Unauthorized")
        for signer in signers(keys, of: project) {
            var signed = request
            signed.authorization = signer.authorization(
                for: request.endpoint.origin, at: broker.now)
            let told = await client.send(signed)
            answer = HandOverAnswer(told)
            guard case .refused(401 | 403, _) = told else { return answer }
        }
        return answer
    }

    private func signers(
        _ keys: [OpenBridgeKey], of project: ProjectNumber
    ) -> [PushSigner] {
        signers.withLock { signers in
            if let known = signers[project], known.map(\.id) == keys.map(\.id) { return known }
            let new = keys.map {
                PushSigner($0.key, contact: $0.owner.isEmpty ? nil : $0.owner)
            }
            signers[project] = new
            return new
        }
    }
}

extension HandOverAnswer {
    /// What a push service's answer means. An endpoint is one of many at the service, so a quota concerns this instance alone,
    /// while a fault of the service concerns them all.
    init(_ answer: PushAnswer) {
        switch answer {
        case .taken: self = .taken
        case .gone(let status): self = .gone(reason: status == 404 ? "NotFound" : "Gone")
        case .tooLong: self = .refused(reason: "PayloadTooLarge")
        case .refused(let status, _):
            self = .refused(reason: status.map { "HTTP \($0)" } ?? "AddressNotAllowed")
        case .later(_, let reason, let seconds):
            self = .laterForInstance(reason: reason, afterSeconds: seconds.map { Int64($0) })
        }
    }
}
