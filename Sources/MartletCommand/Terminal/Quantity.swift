// SPDX-License-Identifier: Apache-2.0
//
// Numbers for people: short, and with a unit where a unit fits. Pure.

enum Quantity {
    /// `950`, `12.3k`, `4.56M`.
    static func short(_ value: Double) -> String {
        switch value {
        case ..<9_999.5: fixed(value, 0)
        case ..<999_950: fixed(value / 1000, 1) + "k"
        case ..<999_950_000: fixed(value / 1_000_000, 2) + "M"
        default: fixed(value / 1_000_000_000, 2) + "G"
        }
    }

    static func bytes(_ count: UInt64) -> String {
        let value = Double(count)
        return switch value {
        case ..<10_240: "\(count) B"
        case ..<10_485_760: fixed(value / 1024, 0) + " KiB"
        case ..<10_737_418_240: fixed(value / 1_048_576, 0) + " MiB"
        default: fixed(value / 1_073_741_824, 1) + " GiB"
        }
    }

    /// `1 project`, `2 projects`.
    static func counted(_ count: Int, _ noun: String) -> String {
        "\(count) \(noun)\(count == 1 ? "" : "s")"
    }

    /// `0.04`, `12.30`.
    static func hundredths(_ value: Double) -> String { fixed(value, 2) }

    static func percent(_ part: Double) -> String { fixed(part * 100, 1) + " %" }

    /// `0.42 ms`, `35 ms`, `1.20 s`.
    static func time(_ seconds: Double) -> String {
        switch seconds {
        case ..<0.01: fixed(seconds * 1000, 2) + " ms"
        case ..<1: fixed(seconds * 1000, 0) + " ms"
        default: fixed(seconds, 2) + " s"
        }
    }

    /// `4s`, `2m 5s`, `3h 20m`.
    static func duration(_ seconds: Double) -> String {
        let whole = Int(min(max(seconds.rounded(.up), 0), 1e9))
        if whole < 60 { return "\(whole)s" }
        if whole < 3600 { return "\(whole / 60)m \(whole % 60)s" }
        return "\(whole / 3600)h \(whole % 3600 / 60)m"
    }

    private static func fixed(_ value: Double, _ digits: Int) -> String {
        var scale = 1
        for _ in 0..<digits { scale *= 10 }
        let whole = Int((value * Double(scale)).rounded())
        guard digits > 0 else { return "\(whole)" }
        let rest = "\(whole % scale)"
        let zeros = String(repeating: "0", count: digits - rest.count)
        return "\(whole / scale)." + zeros + rest
    }
}
