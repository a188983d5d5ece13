// SPDX-License-Identifier: Apache-2.0
//
// Errors of the HTTP client that lie in the request itself: the client does not build it, and no byte is sent. Such a request
// has the same end whenever it is repeated, so the message counts as refused. All other errors may end. Rests on
// AsyncHTTPClient.

package import AsyncHTTPClient

extension HTTPClientError {
    /// Whether the request itself cannot be built.
    package var isOfRequest: Bool { Self.ofRequest.contains(shortDescription) }

    /// By their descriptions, which are the same for all header fields.
    private static let ofRequest: Set<String> = Set(
        [
            HTTPClientError.invalidURL, .emptyHost, .emptyScheme, .unsupportedScheme(""),
            .missingSocketPath, .invalidHeaderFieldNames([]), .invalidHeaderFieldValues([]),
            .traceRequestWithBody, .bodyLengthMismatch, .contentLengthMissing,
            .identityCodingIncorrectlyPresent,
        ].map(\.shortDescription))
}
