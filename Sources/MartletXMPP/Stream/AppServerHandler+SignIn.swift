// SPDX-License-Identifier: Apache-2.0
//
// Opens a stream: its header, the sign-in with a server key (REG-5), and the binding of a resource. Wrong keys are logged
// and slowed down by address, as at every door (REG-10). Source: RFC 6120, sections 4, 6 and 7. Rests on AppServerHandler.

import Martlet
import MartletThreads
import NIOCore

extension AppServerHandler {
    // MARK: Headers

    func opened(_ header: StanzaElement) {
        guard case .opening = phase else { return }
        if let to = header.attributes["to"], !to.isEmpty,
            to.utf8.count <= XMPPLimits.addressPartBytesMax
        {
            domain = to
        }
        sendHeader()
        guard !core.isDrained() else {
            return fail(StreamError(.systemShutdown, Drain.rest.text))
        }
        guard header.namespace == Namespace.stream else {
            return fail(StreamError(.invalidNamespace, "A stream is in \(Namespace.stream)."))
        }
        guard header.name == "stream" else {
            return fail(StreamError(.badFormat, "A stream must begin with the element stream."))
        }
        let version = header.attributes["version"]?.split(separator: ".").first.flatMap { Int($0) }
        guard version ?? 0 >= 1 else {
            return fail(StreamError(.unsupportedVersion, "The stream's version must be 1.0."))
        }
        guard header.attributes["to"]?.utf8.count ?? 0 <= XMPPLimits.addressPartBytesMax else {
            return fail(StreamError(.improperAddressing, "The server's name is too long."))
        }
        guard sender == nil else {
            phase = .binding
            return send(
                """
                <stream:features><bind xmlns="\(Namespace.bind)"/>\
                <session xmlns="\(Namespace.session)"><optional/></session></stream:features>
                """)
        }
        phase = .signingIn
        send(
            """
            <stream:features><mechanisms xmlns="\(Namespace.sasl)">\
            <mechanism>PLAIN</mechanism></mechanisms></stream:features>
            """)
    }

    // MARK: The sign-in

    func signIn(_ stanza: StanzaElement) {
        guard stanza.namespace == Namespace.sasl else {
            return fail(StreamError(.notAuthorized, "Sign in first."))
        }
        switch stanza.name {
        case "auth":
            guard stanza.attributes["mechanism"] == "PLAIN" else {
                return refuse(
                    SignInFailure(.invalidMechanism, "Sign in with PLAIN."))
            }
            // No credential came with it: the client waits for an empty challenge first. Source: RFC 6120 §6.4.2.
            guard !stanza.text.isEmpty else {
                return send("<challenge xmlns=\"\(Namespace.sasl)\"/>")
            }
            present(stanza.text)
        case "response": present(stanza.text)
        case "abort": refuse(SignInFailure(.aborted, "The app server gave up."))
        default:
            fail(StreamError(.unsupportedStanzaType, "This element has no place in a sign-in."))
        }
    }

    private func present(_ text: String) {
        let credential: PlainCredential
        do throws(SignInFailure) { credential = try PlainCredential(text) } catch {
            return refuse(error)
        }
        signIn(credential, .any, isLast: core.broker.isCurrent)
    }

    /// Tries a refused key again once the store has the newest rows: the key may be newer than it (OPS-7).
    private func signInByNewest(_ credential: PlainCredential) {
        guard let port else { return }
        phase = .checking
        let broker = core.broker
        Task {
            let freshness = await broker.newest()
            port.run { handler in
                guard handler.phase == .checking else { return }
                handler.phase = .signingIn
                handler.signIn(credential, freshness, isLast: true)
                handler.goOn()
            }
        }
    }

    /// - Parameter isLast: whether the store has every row, so that a refusal is final.
    private func signIn(_ credential: PlainCredential, _ freshness: Freshness, isLast: Bool) {
        guard let port else { return }
        do throws(MartletError) {
            let sender = try freshness.ask { () throws(MartletError) in
                try core.broker.signIn(serverKey: credential.serverKey) { project in
                    String(project.senderID) == credential.senderID
                } tell: { event in
                    port.run { $0.happened(event) }
                }
            }
            send("<success xmlns=\"\(Namespace.sasl)\"/>")
            restart(as: sender)
        } catch {
            guard error.word == .unauthenticated else {
                return refuse(SignInFailure(.temporaryAuthFailure, "\(error)"))
            }
            guard isLast else { return signInByNewest(credential) }
            refuseKey()
        }
    }

    /// Logs a wrong key, and delays the refusal if the address has presented too many (REG-10).
    private func refuseKey() {
        core.refusalLog.refused("server key", from: address.description)
        let failure = SignInFailure(
            .notAuthorized,
            "Sign in as SENDER_ID@DOMAIN, with a server key of the project as the password.")
        let (strangers, address) = (core.broker.strangers, address)
        switch strangers.refused(from: address) {
        case .atOnce: refuse(failure)
        case .later:
            phase = .checking
            let wait = TimeAmount.milliseconds(StrangerBook.waitMilliseconds)
            // The address gets its waiting place back even if the connection is gone by now.
            port?.eventLoop.scheduleTask(in: wait) { strangers.settled(address) }
            after(wait) { handler in
                guard handler.phase == .checking else { return }
                handler.phase = .signingIn
                handler.refuse(failure)
                handler.goOn()
            }
        case .never:
            refuse(
                SignInFailure(
                    .temporaryAuthFailure, "Too many keys from this address were refused."))
            fail(StreamError(.policyViolation, "Too many keys from this address were refused."))
        }
    }

    /// Refuses an attempt. The app server may try a few more times.
    private func refuse(_ failure: SignInFailure) {
        send(failure.xml)
        refusalCount += 1
        guard refusalCount < XMPPLimits.refusalsMax else {
            return fail(StreamError(.policyViolation, "The sign-in failed too often."))
        }
    }

    // MARK: Resources

    /// Binds a resource. Each connection gets one of its own, because an app server may open many under the same name.
    func bind(_ iq: StanzaElement, _ request: StanzaElement) {
        guard case .binding = phase, let sender, let port else {
            return refuse(iq, StanzaError(.notAllowed, "The connection already has a resource."))
        }
        let wanted = request.child("resource", Namespace.bind)?.text ?? ""
        guard wanted.utf8.count <= XMPPLimits.addressPartBytesMax / 2 else {
            return refuse(iq, StanzaError(.badRequest, "The resource is too long."))
        }
        jid =
            "\(sender.project.senderID)@\(domain)/\(wanted.isEmpty ? "" : wanted + "-")\(number)"
        phase = .bound
        answer(
            iq,
            "<bind xmlns=\"\(Namespace.bind)\"><jid>\(XML.escaped(jid))</jid></bind>")
        sender.listen()
        dispatcher = core.join(number, sender) { receipt in port.run { $0.took(receipt) } }
    }
}
