// SPDX-License-Identifier: Apache-2.0
//
// Pages of lists, as the client library gives them: topics and tokens. Rests on `ListPage`.

package import MartletBase

extension ListPage where Element == TopicSummary {
    package init(_ page: TopicPage) {
        self.init(entries: page.topics, next: page.hasMore ? page.topics.last?.name : nil)
    }
}

extension ListPage where Element == String {
    package init(_ page: TokenPage) {
        self.init(entries: page.tokens, nextCursor: page.nextCursor)
    }
}
