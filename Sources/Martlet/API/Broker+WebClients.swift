// SPDX-License-Identifier: Apache-2.0
//
// Registers web pages that use FCM's web SDK (GW-11). Such a page has no connection to the broker: its instance has the page's
// subscription at a push service as its only way. The page presents what a new device presents (REG-7). From then on its token
// is its only secret, because the SDK keeps no other. Rests on Broker.

package import MartletBase
import MartletEngine
package import MartletRows

extension Broker {
    /// What a page presents, checked without an effect: a ticket stays unused.
    /// - Throws: `PERMISSION_DENIED` without what the project's policy wants, and for an unknown project.
    package func admit(
        _ credential: RegistrationCredential, app: String, in project: String
    ) throws(MartletError) {
        _ = try newWebClient(credential, nil, app: app, in: project)
    }

    /// The ID of the project that has a text as its ID or as its sender ID; the text itself without such a project.
    package func projectID(named text: String) throws(MartletError) -> String {
        guard text.utf8.count == Self.senderIDDigits, let senderID = UInt64(text) else {
            return text
        }
        return try ask { (transaction) throws in
            if try transaction.projects.project(id: text) != nil { return text }
            var last = ""
            while true {
                let page = try transaction.projects.projects(
                    after: last, limit: Limits.pageEntriesMax)
                if let found = page.first(where: { $0.senderID == senderID }) { return found.id }
                guard page.count == Limits.pageEntriesMax, let end = page.last else { return text }
                last = end.id
            }
        }
    }

    /// REG-5: a sender ID has 12 digits.
    private static let senderIDDigits = 12

    /// Whether a project lets every device register.
    package func isOpen(_ project: String) throws(MartletError) -> Bool {
        let number = try number(of: project)
        return try ask { (transaction) throws in
            try transaction.registrations.policies(of: number).registration == .open
        }
    }

    /// Registers a page's subscription. A subscription that is registered keeps its token.
    /// - Parameters:
    ///   - credential: what the page presents.
    ///   - peer: of the page; its registrations are bounded.
    /// - Throws: `PERMISSION_DENIED` without what the project's policy wants; `ALREADY_EXISTS` if the endpoint is
    ///   registered
    ///   with other keys; `INVALID_ARGUMENT` for a malformed address; `RESOURCE_EXHAUSTED` for too many instances or
    ///   registrations; `NOT_FOUND` for the project.
    package func register(
        _ address: WebPushAddress, app: String, in project: String,
        presenting credential: RegistrationCredential, from peer: PeerAddress
    ) async throws(MartletError) -> Token {
        let new = try newWebClient(credential, address, app: app, in: project)
        if let known = try await webClient(address, in: project) { return known }
        try strangers.register(from: peer)
        do throws(MartletError) {
            _ = try await perform(.register(new))
            return new.token
        } catch {
            // Another request may have registered the subscription meanwhile.
            guard error.word == .alreadyExists,
                let known = try await webClient(address, in: project)
            else { throw error }
            return known
        }
    }

    /// Gives a page's instance another subscription.
    /// - Throws: `NOT_FOUND` for a token that is no page's; `ALREADY_EXISTS` if another instance has the endpoint;
    ///   `INVALID_ARGUMENT`.
    package func change(
        webClient token: String, to address: WebPushAddress, in project: String
    ) async throws(MartletError) {
        try await requireWebClient(token, in: project)
        let holder = try await self.token(of: .webPush(address), in: project)
        if let holder, holder.text != token { throw .otherSubscription }
        try await setBridge(.webPush(address), ofToken: token, in: project)
    }

    /// Unregisters a page's instance.
    /// - Throws: `NOT_FOUND` for a token that is no page's.
    package func unregister(
        webClient token: String, in project: String
    ) async throws(MartletError) {
        try await requireWebClient(token, in: project)
        try await unregister(token, in: project)
    }

    /// The public keys of a project for Web Push, in Base64URL.
    package func webPushKeys(of project: String) throws(MartletError) -> [String] {
        let number = try number(of: project)
        return try ask { (transaction) throws in
            try transaction.bridges.keys(of: number).filter { $0.kind == .webPush }.map(\.id)
        }
    }

    private func newWebClient(
        _ credential: RegistrationCredential, _ address: WebPushAddress?, app: String,
        in project: String
    ) throws(MartletError) -> NewInstance {
        var new = try admitted {
            try NewInstance(
                admitting: credential, to: project, app: app, platform: .web,
                deviceKey: Credentials.deviceKey(), now: clock(), store: store)
        }
        new.bridging = address.map { Bridging(.webPush($0), isOnlyWay: true) }
        return new
    }

    /// The token of the instance with a subscription.
    private func webClient(
        _ address: WebPushAddress, in project: String
    ) async throws(MartletError) -> Token? {
        let number = try await number(of: project)
        return try await ask { (transaction) throws in
            guard
                let ordinal = try transaction.bridges.ordinal(of: .webPush(address), in: number),
                let known = try transaction.bridges.bridging(of: ordinal, in: number),
                let instance = try transaction.instances.instance(ordinal, in: number)
            else { return nil }
            guard known.address == .webPush(address) else {
                throw MartletError.otherSubscription
            }
            return instance.token
        }
    }

    private func requireWebClient(
        _ token: String, in project: String
    ) async throws(MartletError) {
        let number = try await number(of: project)
        let isWebClient = try await ask { (transaction) throws in
            let ordinal = try Listing.locate(token, in: number, transaction)
            guard let known = try transaction.bridges.bridging(of: ordinal, in: number) else {
                return false
            }
            return known.isOnlyWay && known.address.kind == .webPush
        }
        guard isWebClient else {
            throw MartletError(
                .notFound, "The token is not one of a page's registration.", field: "token")
        }
    }
}

extension MartletError {
    fileprivate static var otherSubscription: MartletError {
        MartletError(
            .alreadyExists, "The endpoint is registered for another subscription.",
            field: "endpoint")
    }
}
