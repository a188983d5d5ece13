// SPDX-License-Identifier: Apache-2.0
//
// The settings of the Web Push door. Rests on PushOrigin.

/// The settings of a Web Push door.
public struct WebPushConfiguration: Sendable {
    /// The origins at which senders reach the gateway. New endpoints begin with the first; a sender's token may name any.
    public var origins: [PushOrigin]
    /// ID of the project that subscriptions belong to. It must exist.
    public var project: String
    /// Name of the app that subscriptions belong to.
    public var app: String

    /// Makes the settings of a door.
    /// - Parameter origins: at least one.
    public init(
        origins: [PushOrigin], project: String = WebPushConfiguration.projectDefault,
        app: String = WebPushConfiguration.appDefault
    ) {
        self.origins = origins
        self.project = project
        self.app = app
    }

    /// The project to use if the settings name none.
    public static let projectDefault = "web-push"
    /// The app to use if the settings name none.
    public static let appDefault = "web-push"
}
