# SPDX-License-Identifier: Apache-2.0
"""The official Admin SDK, unmodified but for where it sends to, against a gateway.

    admin_sdk.py BASE_URL CREDENTIALS SCENARIO [JSON]

runs one of the functions below with the members of JSON as its arguments, and prints what it returns
as one line of JSON. CREDENTIALS is the file of a service account."""

import datetime
import json
import sys

import firebase_admin
from firebase_admin import credentials, exceptions, messaging


def connect(base_url, file):
    messaging._MessagingService.FCM_URL = base_url + "/v1/projects/{0}/messages:send"
    messaging._MessagingService.IID_URL = base_url
    app = firebase_admin.initialize_app(credentials.Certificate(file))
    # Versions from 7.6 on change topics at an address that is made with the app.
    messaging._get_messaging_service(app)._fcm_topic_url = (
        f"{base_url}/v1/projects/{app.project_id}/registrations")


def outcome(response):
    """Of one message among several."""
    if response.success:
        return {"name": response.message_id}
    return described(response.exception)


def described(error):
    return {"class": type(error).__name__, "code": error.code, "message": str(error)}


def full_message(**target):
    """Every part of a message that the SDK can say."""
    return messaging.Message(
        **target,
        data={"score": "850", "time": "2:45"},
        notification=messaging.Notification(
            title="Storm", body="Force 9", image="https://example.com/s.png"),
        fcm_options=messaging.FCMOptions(analytics_label="storm-1"),
        android=messaging.AndroidConfig(
            collapse_key="storm", priority="high", ttl=datetime.timedelta(seconds=3, milliseconds=500),
            restricted_package_name="com.example.tides", data={"score": "android"},
            direct_boot_ok=True,
            notification=messaging.AndroidNotification(
                title="Android storm", icon="wave", color="#112233", sound="horn", tag="t",
                click_action="OPEN", body_loc_key="bk", body_loc_args=["1"], title_loc_key="tk",
                title_loc_args=["2"], channel_id="alerts", ticker="tick", sticky=True,
                event_timestamp=datetime.datetime(
                    2026, 1, 2, 3, 4, 5, 678, tzinfo=datetime.timezone.utc),
                local_only=False, priority="max", vibrate_timings_millis=[100, 200],
                default_vibrate_timings=False, default_sound=False, default_light_settings=False,
                light_settings=messaging.LightSettings(
                    color="#ff0000", light_on_duration_millis=200, light_off_duration_millis=300),
                visibility="public", notification_count=3, proxy="deny"),
            fcm_options=messaging.AndroidFCMOptions(analytics_label="android-1")),
        apns=messaging.APNSConfig(
            headers={"apns-priority": "5", "apns-collapse-id": "storm", "apns-push-type": "alert"},
            payload=messaging.APNSPayload(
                aps=messaging.Aps(
                    alert=messaging.ApsAlert(
                        title="Apple storm", subtitle="North Sea", body="Force 9", loc_key="lk",
                        loc_args=["1"], launch_image="i.png"),
                    badge=3, sound=messaging.CriticalSound("horn.caf", critical=True, volume=0.5),
                    content_available=True, mutable_content=True, category="warning",
                    thread_id="north-sea", custom_data={"interruption-level": "critical"}),
                gusts={"knots": [47, 52]}),
            fcm_options=messaging.APNSFCMOptions(image="https://example.com/apple.png")),
        webpush=messaging.WebpushConfig(
            headers={"TTL": "60", "Urgency": "high", "Topic": "storm"}, data={"score": "web"},
            notification=messaging.WebpushNotification(
                title="Web storm", icon="wave.png", badge="b.png", direction="ltr", tag="t",
                language="en", renotify=True, require_interaction=True, silent=False,
                timestamp_millis=1760000000000, vibrate=[200, 100],
                actions=[messaging.WebpushNotificationAction("open", "Open", icon="o.png")],
                custom_data={"own": {"a": [1]}}),
            fcm_options=messaging.WebpushFCMOptions(link="https://example.com/storm")))


# Scenarios


def send(dry_run=False, **target):
    return {"name": messaging.send(full_message(**target), dry_run=dry_run)}


def send_each(tokens):
    """One message to each, numbered."""
    batch = messaging.send_each(
        [messaging.Message(token=token, data={"n": str(n)}) for n, token in enumerate(tokens)])
    return {"success": batch.success_count, "failure": batch.failure_count,
            "responses": [outcome(response) for response in batch.responses]}


def send_equal(token, count):
    """The same message several times at once, as one batch and as a multicast, and one by one."""
    message = messaging.Message(token=token, data={"n": "equal"})
    multicast = messaging.MulticastMessage(tokens=[token] * count, data={"n": "equal"})
    return [
        [response.message_id for response in messaging.send_each([message] * count).responses],
        [response.message_id
         for response in messaging.send_each_for_multicast(multicast).responses],
        [messaging.send(message) for _ in range(3)]]


def multicast(tokens):
    batch = messaging.send_each_for_multicast(
        messaging.MulticastMessage(tokens=tokens, data={"n": "multicast"}))
    return {"success": batch.success_count, "failure": batch.failure_count,
            "responses": [outcome(response) for response in batch.responses]}


def change_topic(tokens, topic, unsubscribe=False):
    change = messaging.unsubscribe_from_topic if unsubscribe else messaging.subscribe_to_topic
    response = change(tokens, topic)
    return {"success": response.success_count, "failure": response.failure_count,
            "errors": [[error.index, error.reason] for error in response.errors]}


def version():
    return firebase_admin.__version__


def refused_topic(tokens, topic):
    try:
        messaging.subscribe_to_topic(tokens, topic)
    except exceptions.FirebaseError as error:
        return described(error)
    return {}


def refused(ttl_seconds=None, **fields):
    """What a send throws that cannot be."""
    if ttl_seconds is not None:
        fields["android"] = messaging.AndroidConfig(ttl=ttl_seconds)
    try:
        return {"name": messaging.send(messaging.Message(**fields))}
    except exceptions.FirebaseError as error:
        return described(error)


def main():
    base_url, file, scenario = sys.argv[1:4]
    connect(base_url, file)
    arguments = json.loads(sys.argv[4]) if len(sys.argv) > 4 else {}
    print(json.dumps(globals()[scenario](**arguments)))


if __name__ == "__main__":
    main()
