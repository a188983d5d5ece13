// SPDX-License-Identifier: Apache-2.0
//
// Numbers of the frame types and of the connection roles, as in the document WireProtocol. A number is part of the
// protocol and is never reused. The list of requests is here too, so a new request is one place in this file. Rests on
// `Limits` and the typed frames.

import MartletBase

/// Type of a frame: the byte after the length field.
public enum FrameType: UInt8, Sendable, CaseIterable, Hashable {
    case hello = 0x01
    case welcome = 0x02
    case ping = 0x03
    case pong = 0x04
    case error = 0x05
    case draining = 0x06
    case done = 0x07

    case deliver = 0x10
    case acknowledge = 0x11
    case subscribe = 0x12
    case unsubscribe = 0x13
    case unregister = 0x14
    case deviceState = 0x15
    case confirmed = 0x16
    case deleted = 0x17
    case receipt = 0x18
    case rotate = 0x19
    case rotated = 0x1A
    case apnsToken = 0x1B

    case send = 0x20
    case accepted = 0x21
    case changeTopic = 0x22
    case topicResult = 0x23
    case audience = 0x24
    case audienceResult = 0x25
    case explain = 0x26
    case explanation = 0x27
    case listTopics = 0x28
    case topicPage = 0x29
    case listSubscribers = 0x2A
    case listAudience = 0x2E
    case tokenPage = 0x2B
    case listInstanceTopics = 0x2C
    case quotas = 0x2D
    case quotaList = 0x2F

    case createProject = 0x30
    case project = 0x31
    case listProjects = 0x32
    case projectPage = 0x33
    case createKey = 0x34
    case key = 0x35
    case revokeKey = 0x36
    case listKeys = 0x37
    case keyPage = 0x38
    case changeProject = 0x39

    case cancel = 0x40
    case cancelled = 0x41
    case listenReceipts = 0x42
    case receiptEvent = 0x43
    case receiptAcknowledge = 0x44
    case unregisterToken = 0x45

    case listFanouts = 0x50
    case fanoutPage = 0x51
    case status = 0x52
    case statusResult = 0x53
    case metrics = 0x54
    case metricsResult = 0x55

    case createGroup = 0x60
    case changeGroup = 0x61
    case group = 0x62
    case findGroup = 0x63
    case listGroups = 0x64
    case groupPage = 0x65
    case groupAccepted = 0x66
    case multicast = 0x67
    case multicastResult = 0x68

    case upstream = 0x70
    case upstreamAccepted = 0x71
    case listenUpstream = 0x72
    case upstreamMessage = 0x73
    case upstreamAcknowledge = 0x74

    case report = 0x80
    case reportResult = 0x81
    case listDays = 0x82
    case dayPage = 0x83
    case listNotReceived = 0x84
    case channel = 0x98
    case detach = 0x99
    case detached = 0x9A
    case createServiceAccount = 0x90
    case revokeServiceAccount = 0x91
    case listServiceAccounts = 0x92
    case serviceAccountPage = 0x93

    case createRegistrationKey = 0xA0
    case registrationKey = 0xA1
    case revokeRegistrationKey = 0xA2
    case listRegistrationKeys = 0xA3
    case registrationKeyPage = 0xA4
    case addTicketKey = 0xA5
    case revokeTicketKey = 0xA6
    case listTicketKeys = 0xA7
    case ticketKeyPage = 0xA8
    case createApp = 0xA9
    case deleteApp = 0xAA
    case listApps = 0xAB
    case appPage = 0xAC
    case findPolicies = 0xAD
    case policies = 0xAE
    case changePolicies = 0xAF
    case findLimits = 0xB0
    case limits = 0xB1
    case changeLimits = 0xB2
    case addBridgeKey = 0xB3
    case removeBridgeKey = 0xB4
    case listBridgeKeys = 0xB5
    case bridgeKeyPage = 0xB6
    case backup = 0xB7
    case backupPart = 0xB8

    // 0xC0, 0xC2, 0xC4, 0xC5 and 0xC9 were planned for links, and no node has sent them.
    case committed = 0xC1
    case forward = 0xC3
    case ended = 0xC6
    case listen = 0xC7
    case nodeUpstream = 0xC8
    case nodeFigures = 0xCA
    case nodeWatch = 0xCB
    case nodeEvents = 0xCC
    case nodeFanout = 0xCD
    case nodeRow = 0xCE
    case nodeQuotas = 0xCF
}

extension FrameType {
    /// All requests of senders and administrators that have one answer, of one type.
    package static let requests: [any WireRequest.Type] = [
        AddBridgeKeyRequest.self, AddTicketKeyRequest.self, AudienceRequest.self,
        BackupRequest.self, CancelRequest.self, ChangeGroupRequest.self,
        ChangeLimitsRequest.self, ChangePoliciesRequest.self, ChangeProjectRequest.self,
        ChangeTopicRequest.self,
        CreateAppRequest.self, CreateGroupRequest.self, CreateKeyRequest.self,
        CreateProjectRequest.self, CreateRegistrationKeyRequest.self,
        CreateServiceAccountRequest.self, DeleteAppRequest.self, ExplainRequest.self,
        FindGroupRequest.self, FindLimitsRequest.self, FindPoliciesRequest.self,
        ListAppsRequest.self,
        ListAudienceRequest.self, ListBridgeKeysRequest.self, ListDaysRequest.self,
        ListFanoutsRequest.self,
        ListGroupsRequest.self, ListInstanceTopicsRequest.self, ListKeysRequest.self,
        ListNotReceivedRequest.self, ListProjectsRequest.self, ListRegistrationKeysRequest.self,
        ListServiceAccountsRequest.self, ListSubscribersRequest.self, ListTicketKeysRequest.self,
        ListTopicsRequest.self, MetricsRequest.self, QuotasRequest.self, ReportRequest.self,
        RemoveBridgeKeyRequest.self, RevokeKeyRequest.self,
        RevokeRegistrationKeyRequest.self, RevokeServiceAccountRequest.self,
        RevokeTicketKeyRequest.self, StatusRequest.self, UnregisterTokenRequest.self,
    ]

    /// The request or the answer of each type, by the type's number.
    private static let correlated:
        (requests: [(any WireRequest.Type)?], answers: [(any WireAnswer.Type)?]) = {
            var table: ([(any WireRequest.Type)?], [(any WireAnswer.Type)?]) = (
                Array(repeating: nil, count: 256), Array(repeating: nil, count: 256)
            )
            func add<Request: WireRequest>(_ request: Request.Type) {
                table.0[Int(Request.type.rawValue)] = request
                table.1[Int(Request.Answer.type.rawValue)] = Request.Answer.self
            }
            for request in requests { add(request) }
            return table
        }()

    /// The request that frames of the type hold; nil for all other frames.
    package var request: (any WireRequest.Type)? { Self.correlated.requests[Int(rawValue)] }
    /// The answer that frames of the type hold; nil for all other frames.
    package var answer: (any WireAnswer.Type)? { Self.correlated.answers[Int(rawValue)] }
}

/// Role of the client: the client claims a role in HELLO, and the broker grants a role in WELCOME.
public enum ConnectionRole: UInt8, Sendable, CaseIterable, Hashable {
    /// An instance that proves its identity with a device key.
    case device = 1
    /// An app server of one project.
    case sender = 2
    /// An instance without a token. The role exists only in HELLO, because WELCOME makes the instance a device.
    case newDevice = 3
    /// A client with the administrator key, for one project or for no project.
    case administrator = 4
    /// A device with several instances. Each instance has a channel of the connection.
    case shared = 5

    /// NET-3: longest frame that the broker accepts from a client of this role, in bytes after the length field.
    public var frameBytesMax: Int {
        switch self {
        case .device, .newDevice, .shared: Limits.deviceFrameBytesMax
        case .sender, .administrator: Limits.senderFrameBytesMax
        }
    }
}

/// Fixed numbers of version 1 of the protocol.
public enum WireVersion {
    /// Version of the protocol that the codec reads and writes.
    public static let current: UInt8 = 1
    /// `MRTL`, the first bytes of HELLO's body, read as a little-endian integer.
    public static let magic: UInt32 = 0x4C54_524D
    /// Value of an absent optional `u32`: "retrying cannot help" and "no byte offset" in ERROR, "the default" in
    /// SEND.
    public static let absent: UInt32 = .max
    /// Bytes of a frame's length field.
    public static let lengthBytes = 4
    /// Bit 63 of a stream ID: the message is not stored, and the device must not acknowledge.
    public static let notStoredBit: UInt64 = 1 << 63
}
