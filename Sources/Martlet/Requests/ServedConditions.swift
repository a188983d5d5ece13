// SPDX-License-Identifier: Apache-2.0
//
// A sender's questions about a condition (CON-8, CON-9). Rests on ServedRequest and the engine's queries.

import MartletBase
import MartletCondition
import MartletEngine
import MartletRows
import MartletWire

extension AudienceRequest: ServedQuestion {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> AudienceResult {
        let project = try principal.senderProject()
        let audience = try answerer.read {
            try Audience(
                of: condition, in: project, answerer.programs, limits: answerer.limits, $0)
        }
        return AudienceResult(
            total: audience.total, android: audience.perPlatform[.android] ?? 0,
            apple: audience.perPlatform[.apple] ?? 0, web: audience.perPlatform[.web] ?? 0,
            apps: audience.perApp.map {
                AudienceSummary.AppCount(
                    app: $0.app.name, platform: $0.app.platform, count: $0.count)
            })
    }
}

extension ExplainRequest: ServedQuestion {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> MartletWire.Explanation {
        let project = try principal.senderProject()
        let explanation = try answerer.read {
            try Audience.explain(
                condition, in: project, answerer.programs, limits: answerer.limits, $0)
        }
        return MartletWire.Explanation(
            tree: explanation.treeText, bytecode: explanation.bytecode.joined(separator: "\n"),
            parts: explanation.parts.map {
                MartletWire.Explanation.Part(
                    start: UInt32($0.byteRange.lowerBound), end: UInt32($0.byteRange.upperBound),
                    count: $0.count)
            }, advice: explanation.advice)
    }
}

extension ListAudienceRequest: ServedQuestion {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> TokenPage {
        let project = try principal.senderProject()
        let start = try Ordinal(cursor: cursor)
        return TokenPage(
            try answerer.read {
                try Listing.audience(
                    of: condition, in: project, from: start, limit: Int(limit),
                    answerer.programs, limits: answerer.limits, $0)
            })
    }
}

extension MartletCondition.Explanation {
    /// Bytes for the advice of an explanation. The frame has 256 KiB; tree, bytecode and parts have at most 64
    /// KiB each.
    private static var adviceBytesMax: Int { 48 * 1024 }
    /// Characters of a piece of advice. Advice that quotes a long condition is cut here.
    private static var adviceCharactersMax: Int { 500 }

    /// The first pieces of advice, as many as fit into the frame.
    fileprivate var advice: [MartletWire.Explanation.Advice] {
        var left = Self.adviceBytesMax
        var result: [MartletWire.Explanation.Advice] = []
        for lint in lints {
            var text = lint.message
            if text.count > Self.adviceCharactersMax {
                text = String(text.prefix(Self.adviceCharactersMax)) + "…"
            }
            left -= text.utf8.count + 6
            guard left >= 0 else { break }
            result.append(.init(byteOffset: lint.byteOffset, text: text))
        }
        return result
    }

    /// The sub-expressions, indented by depth, each with its cardinality.
    fileprivate var treeText: String {
        parts.map { part in
            String(repeating: "  ", count: part.depth) + "\(part.label)  \(part.count)"
        }.joined(separator: "\n")
    }
}
