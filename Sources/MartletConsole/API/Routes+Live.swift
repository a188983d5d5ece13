// SPDX-License-Identifier: Apache-2.0
//
// The broker's state now and in the last minutes, and a stream of events (GW-9). A person of a single project sees the
// figures of that project alone. Rests on Sampler and Viewers.

import Martlet
import MartletAnswers
import MartletGateway

extension ConsoleRoute {
    static let live = [
        ConsoleRoute(
            "status", .get, "status", .role(.viewer), "Tell the broker's state.",
            answer: "`status` as `martlet top --json` prints it, with `accepted`, "
                + "`acceptedPerSecond` and `alerts`. For a user of one project: `now` and "
                + "`projects` alone.",
            schema: .status
        ) { call in .text(call.console.sampler.latest.text(for: try call.person)) },
        ConsoleRoute(
            "history", .get, "history", .everywhere(.viewer),
            "Tell the broker's figures of the last ten minutes.",
            answer: "A list of figures for each second, the oldest first.",
            schema: .history
        ) { call in .json(call.console.sampler.history) },
        ConsoleRoute(
            "events", .get, "events", .role(.viewer), "Follow the broker, and a project.",
            query: [Field("project", .string, "The project to follow.")],
            answer: "Server-sent events: `status` once a second, and of the project `accepted`, "
                + "`progress`, `refused` and `sums`.",
            schema: .string
        ) { call in
            let person = try call.person
            let project = call.call.parameter("project")
            if project != nil { try person.require(.viewer, in: project) }
            let followed = try project.map { (id) throws in
                (project: id, watch: try call.broker.watch(id))
            }
            var answer = GatewayAnswer(headers: [("content-type", "text/event-stream")])
            answer.stream = try call.console.viewers.stream(
                to: person, followed, of: call.console)
            return .whole(answer)
        },
    ]
}
