// SPDX-License-Identifier: Apache-2.0
//
// The JSON of a list of tokens: subscribers, an audience, or the instances without a message. Property names are the names
// in the JSON output. Pure.

package struct TokenList: Encodable {
    /// Subject of the list: either `topic`, `condition` or `messageID` is set.
    package var topic: String?
    package var condition: String?
    package var messageID: String?
    package var tokens: [String] = []
    /// The outcomes of the message: why those without it have not got it. nil for other lists.
    package var counts: CountsAnswer?
    /// Cursor for the next page; nil at the end of the list.
    package var next: String?

    package init(topic: String? = nil, condition: String? = nil, messageID: String? = nil) {
        self.topic = topic
        self.condition = condition
        self.messageID = messageID
    }
}
