// SPDX-License-Identifier: Apache-2.0
//
// Headers by which a browser keeps the console's pages apart from all others: no script but the console's files, no frame
// around, nothing loaded from elsewhere. Source: Content Security Policy Level 3, W3C. Pure.

/// Headers of the console's answers.
enum SafetyHeaders {
    private static let common: [(name: String, value: String)] = [
        ("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
    ]

    static let ofAPI: [(name: String, value: String)] =
        common + [
            ("cache-control", "no-store"),
            ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
        ]

    static let ofPages: [(name: String, value: String)] =
        common + [
            ("cache-control", "no-cache"), ("x-frame-options", "DENY"),
            (
                "content-security-policy",
                "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                    + "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
            ),
        ]
}
