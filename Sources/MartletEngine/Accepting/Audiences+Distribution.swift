// SPDX-License-Identifier: Apache-2.0
//
// Decides which of the target's instances get which of a message's variants: by platform, by the app of a restricted
// variant (MSG-8), and without inactive instances (STO-2). If nobody is excluded, the set is used as it is. Rests on
// RecipientFilter.

import MartletBase
import MartletBits
import MartletRows

extension Audiences {
    /// An instance's variant; nil if there is none for its platform.
    /// - Throws: a refusal if the variant is for another app (MSG-8).
    func variant(
        of dispatch: Dispatch, for instance: Instance,
        _ storage: borrowing Transaction
    ) throws(Obstacle) -> DispatchVariant? {
        guard
            let variant = dispatch.variants.first(where: {
                $0.variant.platforms.contains(instance.platform)
            })
        else { return nil }
        guard let name = variant.variant.restrictedPackageName else { return variant }
        guard
            try rows(storage.projects.app(instance.app, in: instance.project))?.name == name
        else {
            throw .refusal(
                MartletError(
                    .invalidArgument,
                    "The token belongs to another app than the message is restricted to.",
                    field: "restricted_package_name"))
        }
        return variant
    }

    /// A message's recipients before quotas; nil if there are none. For a single instance, `dispatch` keeps only the variant
    /// for its platform.
    /// - Throws: a refusal if the only instance has another app (MSG-8).
    mutating func recipients(
        of dispatch: inout Dispatch, among instances: ResolvedTarget.Instances,
        in project: ProjectNumber, _ storage: borrowing Transaction
    ) throws(Obstacle) -> Recipients? {
        switch instances {
        case .one(let instance):
            guard let variant = try variant(of: dispatch, for: instance, storage) else {
                return nil
            }
            dispatch.variants = [variant]
            return .one(instance.ordinal)
        case .many(let set):
            guard set.count > 0 else { return nil }
            if dispatch.isForEverybody { return .many(set) }
            let reaches = dispatch.variants.map(VariantReach.init)
            let isLast = lastTopic?.subscribers === set
            if isLast, let known = lastTopic?.recipients(for: reaches) {
                return known.count > 0 ? .many(known) : nil
            }
            let reached = try rows(
                intersection(of: set, with: reaches, in: project, storage))
            if isLast { lastTopic?.keep(reached, for: reaches) }
            return reached.count > 0 ? .many(reached) : nil
        }
    }

    /// Who gets which variant, among the recipients within their quotas.
    mutating func distribution(
        of dispatch: Dispatch, to recipients: Recipients, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Distribution {
        switch recipients {
        case .one(let ordinal): try distribution(of: dispatch, to: ordinal, in: project, storage)
        case .many(let set): try distribution(of: dispatch, to: set, in: project, storage)
        }
    }

    private func distribution(
        of dispatch: Dispatch, to ordinal: Ordinal, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Distribution {
        invariant(dispatch.variants.count == 1, "A message to one instance has its variant alone.")
        var distribution = Distribution(recipientCount: 1, perVariant: [.one(ordinal)])
        guard dispatch.variants[0].isStored else { return distribution }
        if limits.inactiveSeconds > 0,
            try RecipientFilter.contains(ordinal, in: .inactive, of: project, storage)
        {
            distribution.inactive = .one(ordinal)
            distribution.perVariant = [nil]
        } else {
            distribution.stored = .one(ordinal)
        }
        return distribution
    }

    private mutating func distribution(
        of dispatch: Dispatch, to recipients: RecipientSet, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Distribution {
        if dispatch.isForEverybody, !dispatch.isStored {
            return Distribution(
                recipientCount: recipients.count, perVariant: [.many(recipients)])
        }
        let reaches = dispatch.variants.map(VariantReach.init)
        let isKnown =
            lastTopic.map {
                $0.subscribers === recipients || $0.recipients(for: reaches) === recipients
            } ?? false
        if isKnown, let distribution = lastTopic?.distribution(for: reaches) {
            return distribution
        }
        let distribution = try self.distribution(
            of: reaches, to: recipients, in: project, storage)
        if isKnown { lastTopic?.keep(distribution, for: reaches) }
        return distribution
    }

    private func distribution(
        of reaches: [VariantReach], to recipients: RecipientSet, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Distribution {
        let isSplit = limits.inactiveSeconds > 0 && reaches.contains(where: \.isStored)
        let (inactive, active) =
            isSplit
            ? try RecipientFilter.split(recipients, by: .inactive, in: project, storage)
            : (nil, recipients)
        var distribution = Distribution(recipientCount: recipients.count, perVariant: [])
        for reach in reaches {
            var reached = reach.isStored ? active : recipients
            // If there is only one variant, the recipients have already been reduced to its platforms.
            if reaches.count > 1 {
                reached = try intersection(of: reached, with: [reach], in: project, storage)
            }
            distribution.perVariant.append(reached.count > 0 ? .many(reached) : nil)
        }
        invariant(
            distribution.perVariant.count == reaches.count, "Each variant has its recipients.")
        let storedReaches = reaches.filter(\.isStored)
        guard !storedReaches.isEmpty else { return distribution }
        let isAll = storedReaches.count == reaches.count
        let stored =
            isAll
            ? active : try intersection(of: active, with: storedReaches, in: project, storage)
        if stored.count > 0 { distribution.stored = .many(stored) }
        invariant(
            active.count + (inactive?.count ?? 0) == recipients.count,
            "A recipient is either active or inactive.")
        if let inactive {
            let discarded =
                isAll
                ? inactive
                : try intersection(of: inactive, with: storedReaches, in: project, storage)
            if discarded.count > 0 { distribution.inactive = .many(discarded) }
        }
        return distribution
    }

    /// The recipients that get at least one of the variants.
    func intersection(
        of recipients: RecipientSet, with reaches: [VariantReach], in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> RecipientSet {
        let isEverybody =
            reaches.reduce(into: PlatformSet()) {
                if $1.restrictedPackageName == nil { $0.formUnion($1.platforms) }
            } == .all
        guard !isEverybody else { return recipients }
        var sets: [InstanceSet] = []
        for reach in reaches {
            for platform in Platform.allCases where reach.platforms.contains(platform) {
                guard let name = reach.restrictedPackageName else {
                    sets.append(.platform(platform))
                    continue
                }
                if let app = try storage.projects.app(named: name, on: platform, in: project) {
                    sets.append(.app(app.number))
                }
            }
        }
        return try RecipientFilter.intersection(
            of: recipients, with: sets, in: project, storage)
    }
}
