// SPDX-License-Identifier: Apache-2.0
//
// Serves a signed-in app server's stanzas: requests for information, presence, and messages. A message with JSON is a send
// or an acknowledgement. Sends go to the broker in order, and each is answered when the broker answers.
// Source: RFC 6120, section 8. Rests on AppServerHandler and AppServerMessage.

import Martlet
import MartletThreads
import NIOCore

extension AppServerHandler {
    func serveStanza(_ stanza: StanzaElement) {
        guard stanza.namespace == Namespace.client else {
            return fail(StreamError(.invalidNamespace, "Stanzas are in \(Namespace.client)."))
        }
        switch stanza.name {
        case "iq": serveRequest(stanza)
        case "message":
            guard case .bound = phase else {
                return fail(StreamError(.notAuthorized, "Bind a resource first."))
            }
            serveMessage(stanza)
        // Presence means nothing here.
        case "presence": break
        default:
            fail(StreamError(.unsupportedStanzaType, "A stanza is an iq, a message or a presence."))
        }
    }

    // MARK: Requests for information

    private func serveRequest(_ iq: StanzaElement) {
        let type = iq.attributes["type"] ?? ""
        // Answers to our own pings.
        if type == "result" || type == "error" { return }
        guard type == "get" || type == "set", iq.attributes["id"] != nil, iq.children.count == 1
        else {
            return refuse(
                iq,
                StanzaError(.badRequest, "An iq needs an id, the type get or set, and one element.")
            )
        }
        let request = iq.children[0]
        switch (type, request.name, request.namespace) {
        case ("set", "bind", Namespace.bind): bind(iq, request)
        case ("set", "session", Namespace.session): answer(iq, "")
        case ("get", "ping", Namespace.ping): answer(iq, "")
        default:
            refuse(iq, StanzaError(.serviceUnavailable, "There is no such service here."))
        }
    }

    func answer(_ iq: StanzaElement, _ content: String) {
        send("<iq type=\"result\"\(ends(of: iq))>\(content)</iq>")
    }

    func refuse(_ iq: StanzaElement, _ error: StanzaError) {
        send("<iq type=\"error\"\(ends(of: iq))>\(error.xml)</iq>")
    }

    /// The attributes that an answer takes over from its request.
    private func ends(of stanza: StanzaElement) -> String {
        var text = ""
        if let id = stanza.attributes["id"] { text += " id=\"\(XML.escaped(id))\"" }
        if let to = stanza.attributes["to"] { text += " from=\"\(XML.escaped(to))\"" }
        if !jid.isEmpty { text += " to=\"\(XML.escaped(jid))\"" }
        return text
    }

    func sendPing() {
        send(
            """
            <iq type="get" id="martlet-ping" from="\(XML.escaped(domain))" \
            to="\(XML.escaped(jid))"><ping xmlns="\(Namespace.ping)"/></iq>
            """)
    }

    // MARK: Messages

    private func serveMessage(_ stanza: StanzaElement) {
        guard stanza.attributes["type"] != "error" else { return }
        guard let content = stanza.child("gcm", Namespace.messages) else {
            return refuseMessage(
                stanza,
                StanzaError(
                    .badRequest,
                    "InvalidJson: JSON_PARSING_ERROR : A message needs the element gcm of \(Namespace.messages)."
                ))
        }
        do throws(AppServerMessage.Fault) {
            switch try AppServerMessage(json: content.text, timeToLiveMax: timeToLiveMax) {
            case .acknowledgement(let to, let messageID): acknowledged(to: to, messageID: messageID)
            case .send(let message): hand(message)
            }
        } catch {
            switch error {
            case .stanza(let error): refuseMessage(stanza, error)
            case .refused(let messageID, let target, let refusal):
                nack(messageID, target, refusal)
            }
        }
    }

    /// The project's longest time to live.
    private func timeToLiveMax() -> UInt32 {
        sender?.timeToLiveSecondsMax() ?? Limits.timeToLiveSecondsMax
    }

    /// Sends a message back as a stanza error.
    private func refuseMessage(_ stanza: StanzaElement, _ error: StanzaError) {
        let content = stanza.child("gcm", Namespace.messages).map {
            "<gcm xmlns=\"\(Namespace.messages)\">\(XML.escaped($0.text))</gcm>"
        }
        send("<message type=\"error\"\(ends(of: stanza))>\(content ?? "")\(error.xml)</message>")
    }

    private func nack(
        _ messageID: String, _ target: String?, _ refusal: Refusal, group: TokenResults? = nil
    ) {
        core.metrics.sent(.nack)
        let answer = ServerMessage.refused(
            messageID: messageID, target: target, refusal, group: group)
        send(answer.xml)
    }

    func refuseAcknowledgement(to: String, messageID: String) {
        nack(
            messageID, to,
            Refusal(
                .badAcknowledgement,
                "No message from this sender with this ID is waiting on this connection."))
    }

    // MARK: Sends

    private func hand(_ message: DownstreamMessage) {
        guard drain == nil else {
            return nack(
                message.messageID, message.target,
                Refusal(
                    .connectionDraining,
                    "This connection is draining; send the message on a new one."))
        }
        inProgressCount += 1
        hand(message, to: message.message, canonical: nil)
    }

    /// Hands a message to the broker.
    /// - Parameters:
    ///   - outgoing: the message, with the target to try now.
    ///   - canonical: the token in that target, if the app server wrote an earlier one.
    private func hand(
        _ message: DownstreamMessage, to outgoing: OutgoingMessage, canonical: String?
    ) {
        guard let sender, let port else { return }
        if let error = core.fault?(outgoing) {
            return answered(message, outgoing, canonical, .failure(error))
        }
        let core = core
        let project = sender.project.id
        // Worked out here, because the answer comes on the committer's thread.
        let life =
            outgoing.wantsReceipts
            ? Int64(outgoing.timeToLiveSeconds ?? sender.timeToLiveSecondsMax()) : 0
        sender.send(outgoing) { result in
            // Before any device can report: its receipt needs the name.
            if case .success(let receipt) = result, outgoing.wantsReceipts,
                let number = receipt.messageID?.split(separator: "/").last.flatMap({ UInt64($0) })
            {
                let now = core.broker.now
                core.names.note(
                    message.messageID, of: number, in: project,
                    until: now.advanced(bySeconds: life + XMPPLimits.nameSpareSeconds), now: now)
            }
            port.run { $0.answered(message, outgoing, canonical, result) }
        }
    }

    private func answered(
        _ message: DownstreamMessage, _ outgoing: OutgoingMessage, _ canonical: String?,
        _ result: Result<SendReceipt, MartletError>
    ) {
        if case .failure(let error) = result, error.word == .unregistered,
            case .token(let text) = outgoing.target, canonical == nil,
            handElsewhere(message, instead: text)
        {
            return
        }
        inProgressCount -= 1
        switch result {
        case .success(let receipt):
            let group = receipt.tokens
            if let group, group.successCount == 0 {
                let word = group.failures.first?.word ?? .unregistered
                let refusal = Refusal(
                    MartletError(
                        word, "No member of the group can get the message.", field: "token"))
                nack(message.messageID, message.target, refusal, group: group)
            } else {
                core.metrics.sent(.ack)
                send(ServerMessage.accepted(message, canonical: canonical, group: group).xml)
            }
        case .failure(let error): nack(message.messageID, message.target, Refusal(error))
        }
        checkDrained()
        goOn()
    }

    /// Tries the target as the key of a group (GRP-5), or as an instance's earlier token (REG-4).
    /// - Returns: false if it is neither.
    private func handElsewhere(_ message: DownstreamMessage, instead text: String) -> Bool {
        guard let sender else { return false }
        var outgoing = message.message
        // The store has caught up with the refusal, so what we read here is no older (OPS-7).
        let group = try? Freshness.any.ask {
            try core.broker.group(key: text, in: sender.project.id)
        }
        if group != nil {
            outgoing.target = .group(text)
            hand(message, to: outgoing, canonical: nil)
            return true
        }
        guard let token = try? sender.currentToken(ofFormer: text) else { return false }
        outgoing.target = .token(token)
        hand(message, to: outgoing, canonical: token)
        return true
    }
}
