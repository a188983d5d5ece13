// SPDX-License-Identifier: Apache-2.0
//
// `QuestionFrame`: one value for every frame that only asks. A question changes nothing, so any snapshot of the store
// answers it, and the broker answers on a thread apart from the loops. The questions are an enumeration of their own, so
// that a question without an answer does not compile. Rests on the typed frames.

import MartletBase

/// A frame from a client that asks and changes nothing.
public enum QuestionFrame: Sendable, Hashable {
    case condition(ConditionQuestion)
    case listTopics(ListTopicsRequest)
    case listSubscribers(ListSubscribersRequest)
    case listAudience(ListAudienceRequest)
    case listInstanceTopics(ListInstanceTopicsRequest)
    case listProjects(ListProjectsRequest)
    case listKeys(ListKeysRequest)
    case listFanouts(ListFanoutsRequest)
    case status(StatusRequest)
    case findGroup(FindGroupRequest)
    case listGroups(ListGroupsRequest)
    case report(ReportRequest)
    case listDays(ListDaysRequest)
    case listNotReceived(ListNotReceivedRequest)
    case listServiceAccounts(ListServiceAccountsRequest)

    package var type: FrameType {
        switch self {
        case .condition(let frame): frame.type
        case .listTopics(let frame): frame.type
        case .listSubscribers(let frame): frame.type
        case .listAudience(let frame): frame.type
        case .listInstanceTopics(let frame): frame.type
        case .listProjects(let frame): frame.type
        case .listKeys(let frame): frame.type
        case .listFanouts(let frame): frame.type
        case .status(let frame): frame.type
        case .findGroup(let frame): frame.type
        case .listGroups(let frame): frame.type
        case .report(let frame): frame.type
        case .listDays(let frame): frame.type
        case .listNotReceived(let frame): frame.type
        case .listServiceAccounts(let frame): frame.type
        }
    }

    /// Number that ties the answer to the question.
    public var correlation: UInt32 {
        switch self {
        case .condition(let frame): frame.correlation
        case .listTopics(let frame): frame.correlation
        case .listSubscribers(let frame): frame.correlation
        case .listAudience(let frame): frame.correlation
        case .listInstanceTopics(let frame): frame.correlation
        case .listProjects(let frame): frame.correlation
        case .listKeys(let frame): frame.correlation
        case .listFanouts(let frame): frame.correlation
        case .status(let frame): frame.correlation
        case .findGroup(let frame): frame.correlation
        case .listGroups(let frame): frame.correlation
        case .report(let frame): frame.correlation
        case .listDays(let frame): frame.correlation
        case .listNotReceived(let frame): frame.correlation
        case .listServiceAccounts(let frame): frame.correlation
        }
    }

    /// Appends the whole frame to the writer: length, type and body.
    func encode(into writer: inout WireWriter) {
        switch self {
        case .condition(let frame): frame.encode(into: &writer)
        case .listTopics(let frame): frame.encode(into: &writer)
        case .listSubscribers(let frame): frame.encode(into: &writer)
        case .listAudience(let frame): frame.encode(into: &writer)
        case .listInstanceTopics(let frame): frame.encode(into: &writer)
        case .listProjects(let frame): frame.encode(into: &writer)
        case .listKeys(let frame): frame.encode(into: &writer)
        case .listFanouts(let frame): frame.encode(into: &writer)
        case .status(let frame): frame.encode(into: &writer)
        case .findGroup(let frame): frame.encode(into: &writer)
        case .listGroups(let frame): frame.encode(into: &writer)
        case .report(let frame): frame.encode(into: &writer)
        case .listDays(let frame): frame.encode(into: &writer)
        case .listNotReceived(let frame): frame.encode(into: &writer)
        case .listServiceAccounts(let frame): frame.encode(into: &writer)
        }
    }

    /// Reads the body of a question.
    /// - Throws: `WireError` if frames of the type are no questions, or if the body is malformed.
    init(_ type: FrameType, from reader: inout WireReader) throws(WireError) {
        self =
            switch type {
            case .audience: .condition(try ConditionQuestion(kind: .audience, from: &reader))
            case .explain: .condition(try ConditionQuestion(kind: .explain, from: &reader))
            case .listTopics: .listTopics(try ListTopicsRequest(from: &reader))
            case .listSubscribers: .listSubscribers(try ListSubscribersRequest(from: &reader))
            case .listAudience: .listAudience(try ListAudienceRequest(from: &reader))
            case .listInstanceTopics:
                .listInstanceTopics(try ListInstanceTopicsRequest(from: &reader))
            case .listProjects: .listProjects(try ListProjectsRequest(from: &reader))
            case .listKeys: .listKeys(try ListKeysRequest(from: &reader))
            case .listFanouts: .listFanouts(try ListFanoutsRequest(from: &reader))
            case .status: .status(try StatusRequest(from: &reader))
            case .findGroup: .findGroup(try FindGroupRequest(from: &reader))
            case .listGroups: .listGroups(try ListGroupsRequest(from: &reader))
            case .report: .report(try ReportRequest(from: &reader))
            case .listDays: .listDays(try ListDaysRequest(from: &reader))
            case .listNotReceived: .listNotReceived(try ListNotReceivedRequest(from: &reader))
            case .listServiceAccounts:
                .listServiceAccounts(try ListServiceAccountsRequest(from: &reader))
            default: throw .unexpectedFrame(type)
            }
    }
}
