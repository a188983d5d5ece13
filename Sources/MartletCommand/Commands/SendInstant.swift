// SPDX-License-Identifier: Apache-2.0
//
// The instant at which a message is to be sent, on a command line (MSG-10): an instant, or a duration from now.

import ArgumentParser
import FoundationEssentials
import Martlet
import MartletAnswers

enum SendInstant: ExpressibleByArgument {
    case at(Martlet.Instant)
    case afterSeconds(Int64)

    init?(argument: String) {
        guard argument.hasPrefix("+") else {
            guard let date = try? Date(argument, strategy: .iso8601) else { return nil }
            let milliseconds = date.timeIntervalSince1970 * 1000
            guard abs(milliseconds) < 1e15 else { return nil }
            self = .at(Martlet.Instant(millisecondsSince1970: Int64(milliseconds)))
            return
        }
        let unit: Int64
        switch argument.last {
        case "s": unit = 1
        case "m": unit = 60
        case "h": unit = 3600
        case "d": unit = 86_400
        default: return nil
        }
        guard let count = UInt32(argument.dropFirst().dropLast()) else { return nil }
        self = .afterSeconds(Int64(count) * unit)
    }

    func instant(after now: Date) -> Martlet.Instant {
        switch self {
        case .at(let instant): instant
        case .afterSeconds(let seconds):
            Martlet.Instant(millisecondsSince1970: Int64(now.timeIntervalSince1970 * 1000))
                .advanced(bySeconds: seconds)
        }
    }
}
