// SPDX-License-Identifier: Apache-2.0
//
// Tells errors that are the request's own fault: the HTTP client won't build it and sends nothing, however often we try, so
// the message counts as refused. Every other error may pass. Rests on AsyncHTTPClient.

package import AsyncHTTPClient

extension HTTPClientError {
    /// Whether the request itself cannot be built.
    package var isOfRequest: Bool { Self.ofRequest.contains(shortDescription) }

    /// Recognised by their descriptions, which don't depend on the header field.
    private static let ofRequest: Set<String> = Set(
        [
            HTTPClientError.invalidURL, .emptyHost, .emptyScheme, .unsupportedScheme(""),
            .missingSocketPath, .invalidHeaderFieldNames([]), .invalidHeaderFieldValues([]),
            .traceRequestWithBody, .bodyLengthMismatch, .contentLengthMissing,
            .identityCodingIncorrectlyPresent,
        ].map(\.shortDescription))
}
