// SPDX-License-Identifier: Apache-2.0
//
// The shapes of the console's answers, which are those of the commands' JSON. A test compares real answers with these
// shapes. Rests on Schema.

import MartletAnswers

extension Schema {
    private static let platform = words(["android", "apple", "web"])
    private static let role = words(ConsoleRole.allCases.map(\.rawValue))

    // MARK: Session, users, log

    static let session = named(
        "Session",
        object([
            "user": string, "role": role, "project?": string, "csrf": string, "ends": integer,
        ]))
    static let user = named(
        "User", object(["name": string, "role": role, "project?": string, "created": integer]))
    static let log = named(
        "Log",
        object([
            "entries": list(
                object([
                    "number": integer, "at": integer, "who": string, "from": string,
                    "project?": string, "action": string, "what": string,
                ])), "next?": integer,
        ]))

    // MARK: State

    private static let projectLoad = named(
        "ProjectLoad",
        object([
            "project": string, "weight": integer, "connections": integer, "delivered": integer,
            "deliveriesPerSecond": number, "fanoutsInProgress": integer,
            "fanoutsDeferred": integer, "fanoutBytes": integer, "frameBytes": integer,
            "requestBytes": integer, "share": number,
        ]))
    private static let durations = named(
        "Durations", object(["count": integer, "p50?": number, "p99?": number]))
    private static let projectRefusals = list(
        object(["project": string, "cause": string, "count": integer]))
    private static let brokerStatus = named(
        "BrokerStatus",
        object([
            "now": integer, "connections": integer, "delivered": integer,
            "deliveriesPerSecond": number, "acknowledged": integer, "fellBehind": integer,
            "commandsWaiting": integer, "frameBytes": integer, "requestBytes": integer,
            "storeBytes": integer, "allocatedBytes?": integer,
            "storeState": words(["ok", "refusing", "diskShort"]), "storeMapBytes": integer,
            "storeFileBytes": integer, "diskBytes": integer, "diskFreeBytes": integer,
            "commit": durations, "journalWrite": durations, "firstDelivery": durations,
            "lastDelivery": durations,
            "refusals": list(object(["cause": string, "count": integer])),
            "projectRefusals": projectRefusals,
            "tlsHandshakes": integer, "tlsHandshakesPerSecond": number, "tlsFailures": integer,
            "projects": list(projectLoad),
            "nodes?": list(
                object([
                    "node": string, "isActive": boolean, "connections": integer,
                    "delivered": integer, "deliveriesPerSecond": number,
                    "acknowledged": integer,
                ])),
        ]))
    static let status = named(
        "Status",
        either([
            object([
                "status": brokerStatus, "accepted": integer, "acceptedPerSecond": number,
                "projectsLeftOut": integer,
                "alerts": list(object(["name": string, "message": string, "remedy": string])),
            ]),
            object([
                "status": object([
                    "now": integer, "projects": list(projectLoad),
                    "projectRefusals": projectRefusals,
                ])
            ]),
        ]))
    static let history = list(
        named(
            "HistoryPoint",
            object([
                "at": integer, "connections": integer, "deliveriesPerSecond": number,
                "acceptedPerSecond": number, "commit50?": number, "commit99?": number,
                "firstDelivery99?": number, "memoryBytes?": integer, "storeBytes": integer,
            ])))

    // MARK: Projects

    static let project = named(
        "Project",
        object([
            "project": string, "senderID": integer, "conditionTopicsMax": integer,
            "instances": integer, "topics": integer, "weight": integer,
            "onOverload": words(["defer", "refuse"]),
            "registration": words(["key", "ticket", "open"]), "deviceTopics": string,
            "limits": map(object(["value": integer, "own": boolean])),
        ]))
    static let newProject = named(
        "NewProject",
        object([
            "project": string, "senderID": integer, "conditionTopicsMax": integer,
            "instances": integer, "topics": integer, "weight": integer, "onOverload": string,
            "registration": string, "deviceTopics": string, "registrationKey": string,
        ]))
    static let quota = named(
        "Quota",
        object([
            "quota": string, "limit": integer, "remaining": integer,
            "untilFullMilliseconds?": integer,
        ]))
    static let app = named(
        "App",
        object([
            "app": string, "platform": platform, "instances": integer, "beingDeleted": boolean,
        ]))
    static let fanout = named(
        "Fanout",
        object([
            "project": string, "messageID": string, "kind": string, "target": string,
            "since": integer, "deferredPlace?": integer, "recipients": integer,
            "delivered": integer, "progress": number, "deliveriesPerSecond": number,
            "share": number, "secondsLeft?": number,
        ]))

    // MARK: Messages

    private static let failures = list(
        named("TokenFailure", object(["token": string, "error": string])))
    private static let counts = named(
        "Counts",
        object([
            "targeted": integer, "sent": integer, "displayed": integer, "opened": integer,
            "acknowledged": integer, "collapsed": integer, "expired": integer,
            "rateLimited": integer, "discarded": integer, "discardedTooMany": integer,
            "discardedInactive": integer, "unregistered": integer, "cancelled": integer,
            "nowOrNever": integer, "handedOver": integer, "refused": integer, "pending": integer,
        ]))
    static let sent = named(
        "Sent",
        object([
            "messageID?": string, "recipients": integer, "rateLimited": integer,
            "inactive": integer, "deferredPlace?": integer, "successes?": integer,
            "failures?": failures, "connected?": integer,
        ]))
    static let scheduled = named("Scheduled", object(["messageID": string, "due": integer]))
    static let cancelled = named(
        "Cancelled",
        object(["messageID": string, "wasScheduled": boolean, "delivered": integer]))
    static let messageReport = named(
        "MessageReport",
        object([
            "messageID": string, "accepted": integer, "unsettled": integer, "counts": counts,
            "refusals?": list(object(["service": string, "reason": string, "count": integer])),
        ]))
    static let projectReport = named(
        "ProjectReport",
        object([
            "project": string, "firstDay": string, "lastDay": string, "total": counts,
            "days": list(
                object(["day": string, "app": string, "platform": platform, "counts": counts])),
        ]))

    // MARK: Audiences, topics, groups

    static let audience = named(
        "Audience",
        object([
            "condition": string, "total": integer, "android": integer, "apple": integer,
            "web": integer, "connected": integer,
            "apps": list(object(["app": string, "platform": platform, "count": integer])),
        ]))
    static let explanation = named(
        "Explanation",
        object([
            "condition": string, "readAs": string, "bytecode": list(string),
            "parts": list(
                object([
                    "depth": integer, "start": integer, "end": integer, "text": string,
                    "count": integer,
                ])), "advice": list(object(["byteOffset": integer, "message": string])),
        ]))
    static let tokens = named(
        "Tokens",
        object([
            "topic?": string, "condition?": string, "messageID?": string, "tokens": list(string),
            "next?": string,
        ]))
    static let tokenResults = named(
        "TokenResults", object(["successes": integer, "failures": failures]))
    static let topic = named("Topic", object(["topic": string, "subscribers": integer]))
    static let group = named(
        "Group", object(["name": string, "key": string, "tokens": list(string)]))
    static let groupEntry = named(
        "GroupEntry", object(["name": string, "key": string, "members": integer]))

    // MARK: Devices

    static let device = named(
        "Device",
        object([
            "token": string, "app": string, "platform": platform, "registered": integer,
            "connection?": object([
                "since": integer, "address": string, "loop": integer,
                "state": words(["active", "background", "doze"]), "queuedBytes": integer,
            ]), "seen": integer, "throttledUntil?": integer, "discarded": integer,
            "limits": list(
                object([
                    "limit": words(DeviceAnswer.limits), "left": integer, "of": integer,
                ])), "topics": list(string), "groups": list(string),
            "waiting": list(
                object([
                    "messageID?": string, "accepted": integer, "expires": integer,
                    "priority": words(["normal", "high"]), "collapsible": boolean,
                    "why": words(DeviceAnswer.reasons),
                ])), "hasMore": boolean,
        ]))

    // MARK: Keys

    static let newKey = named(
        "NewKey", object(["project": string, "keyID": string, "key": string]))
    static let newServiceAccount = named(
        "NewServiceAccount", object(["keyID": string, "file": string]))
    static let revokedKey = named("RevokedKey", object(["keyID": string, "revoked": boolean]))
    private static let key = named(
        "Key",
        object(["keyID": string, "name": string, "created": string, "revoked": boolean]))
    static let keys = named(
        "Keys",
        object([
            "serverKeys": list(key), "registrationKeys": list(key),
            "serviceAccounts": list(
                object([
                    "keyID": string, "name": string, "clientEmail": string, "created": string,
                    "revoked": boolean,
                ])),
            "ticketKeys": list(
                object([
                    "keyID": string, "name": string, "algorithm": string, "created": string,
                    "revoked": boolean,
                ])),
        ]))

    // MARK: Failure and events

    static let failure = named(
        "Failure",
        object([
            "error": object([
                "code": string, "message": string, "field?": string, "byteOffset?": integer,
                "retryDelayMilliseconds?": integer,
            ])
        ]))
    /// The data of each event of a stream, by the event's name.
    static let events: [(name: String, schema: Schema)] = [
        ("status", status),
        (
            "accepted",
            object([
                "messageID": string, "recipients": integer, "deferred": boolean,
                "scheduled": boolean,
            ])
        ),
        (
            "progress",
            object([
                "messageID": string, "recipients": integer, "delivered": integer, "done": boolean,
            ])
        ),
        ("refused", failure),
        (
            "sums",
            object([
                "at": integer, "accepted": integer, "upstream": integer, "refused": integer,
                "connected": integer, "disconnected": integer, "connections": integer,
                "dropped": integer, "counts": counts,
            ])
        ),
        ("left-out", object(["count": integer])),
        ("end", nothing),
    ]
}
