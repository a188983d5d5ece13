# SPDX-License-Identifier: Apache-2.0
"""One round through a broker with the Python client: register, subscribe, send to a condition,
receive, acknowledge, reconnect, doze, rotate, unregister; schedule and cancel. Exits 0 when all of
it went as the document says, else 1 with a sentence that tells the step.

    python3 device_and_sender.py --host 127.0.0.1 --port 5228 --project tides --server-key KEY
"""

import os
import sys
import time

import martlet
from steps import Wrong, expect, run


def round_trip(options, say):
    say("a device registers")
    device = martlet.Device(options.host, options.port, options.project, app=options.app)
    expect(device.welcome["role"] == 1, "a new device is not welcomed as a device")
    expect(device.token and device.device_key, "WELCOME brings no credentials")

    mark = os.urandom(6).hex()
    topic, other = f"python-{mark}", f"python-{mark}-other"
    say(f"it subscribes to {topic}")
    result = device.subscribe("/topics/" + topic)
    expect((result["successes"], result["failures"]) == (1, []), f"SUBSCRIBE: {result}")

    say("a sender sends to a condition")
    sender = martlet.Sender(options.host, options.port, options.project, options.server_key)
    condition = f"'{topic}' in topics && !('{other}' in topics)"
    audience = sender.audience(condition)
    expect(audience["total"] == 1, f"the audience is {audience['total']}, not 1")
    content = martlet.message(title="High water", body="at 18:04 ⚓", data={"mark": mark})
    accepted = sender.send_message("condition", condition, content, priority=2)
    expect(accepted["recipients"] == 1, f"accepted for {accepted['recipients']} instances, not 1")

    say("the device receives the message")
    deliver, shown = device.next_message()
    expect(shown["title"] == "High water" and shown["data"] == {"mark": mark}, f"it got {shown}")
    expect(deliver["message"] == content, "the message is not byte for byte the same")
    expect(deliver["stream ID"] == accepted["message number"], "another stream ID than accepted")
    expect(deliver["from"] == str(sender.welcome["sender ID"]), f"from is {deliver['from']}")
    expect(deliver["target kind"] == 3 and deliver["priority"] == 2, "another kind or priority")
    expect(deliver["accepted"] < deliver["expires"], "it expires before it was accepted")

    say("it acknowledges and reconnects; the message does not come again")
    device.acknowledge(deliver["stream ID"])
    device.ping()
    device.close()
    second = sender.send_message("topic", topic, martlet.message(data={"second": mark}))
    device = martlet.Device(options.host, options.port, options.project, token=device.token,
                            device_key=device.device_key)
    deliver, shown = device.next_message()
    expect(deliver["stream ID"] == second["message number"], "an acknowledged message came again")
    expect(deliver["from"] == "/topics/" + topic, f"from is {deliver['from']}")
    device.acknowledge(deliver["stream ID"])

    say("it dozes: what is urgent comes at once, the rest when it wakes")
    device.set_state("doze")
    device.ping()
    waiting = sender.send_message("topic", topic, martlet.message(data={"n": "1"}))
    urgent = sender.send_message("topic", topic, martlet.message(data={"n": "2"}), priority=2,
                                 receipts=True)
    deliver, _ = device.next_message()
    expect(deliver["stream ID"] == urgent["message number"], "a normal message woke the device")
    expect(deliver["flags"] & martlet.WANTS_RECEIPTS, "the device is not told of receipts")
    device.acknowledge(deliver["stream ID"])
    device.set_state("active")
    late, _ = device.next_message()
    expect(late["stream ID"] == waiting["message number"], "what waited for the doze is lost")
    device.acknowledge(0, late["stream ID"])

    say("a message is different on each platform")
    blocks = martlet.message(title="T", data={"k": "v"}, android={"data": {"k": "a"}, "priority": 2},
                             apns={"badge": 1})
    sender.send_message("token", device.token, blocks)
    deliver, shown = device.next_message()
    expect(shown["title"] == "T" and shown["data"] == {"k": "a"} and "badge" not in shown
           and deliver["priority"] == 2, f"an Android device got {shown}")
    device.acknowledge(deliver["stream ID"])

    say("a repeated send is one message, and a scheduled one is taken back")
    first = sender.send_message("topic", topic, martlet.message(data={"n": "3"}),
                                idempotency_key=mark)
    again = sender.send_message("topic", topic, martlet.message(data={"n": "3"}),
                                idempotency_key=mark)
    expect(first == again or first["message number"] == again["message number"],
           f"one key made {first} and {again}")
    deliver, _ = device.next_message()
    device.acknowledge(deliver["stream ID"])
    later = sender.send_message("topic", topic, martlet.message(data={"n": "4"}),
                                send_at=int((time.time() + 3600) * 1000))
    cancelled = sender.cancel(later["message number"])
    expect(cancelled["flags"] == 1 and cancelled["delivered"] == 0, f"CANCELLED: {cancelled}")

    say("one message goes to several targets, to each device once")
    other_device = martlet.Device(options.host, options.port, options.project, app=options.app)
    targets = [("topic", topic), ("token", device.token), ("token", other_device.token),
               ("token", "none")]
    accepted = sender.send_to_all(targets, martlet.message(data={"n": "6"}))
    expect(accepted["recipients"] == 2 and accepted["successes"] == 2
           and accepted["failures"] == [{"index": 3, "word": 1}], f"MULTICAST_RESULT: {accepted}")
    for member in (device, other_device):
        deliver, shown = member.next_message()
        expect(deliver["target kind"] == 5 and shown["data"] == {"n": "6"}, f"it got {shown}")
        member.acknowledge(0, deliver["stream ID"])
    other_device.unregister()
    other_device.close()

    say("two apps share a connection: each gets its own, and one leaves")
    shared = martlet.SharedConnection(options.host, options.port)
    expect(shared.welcome["role"] == 5, f"WELCOME: {shared.welcome}")
    apps = [martlet.Device(options.host, options.port, options.project, app=options.app)
            for _ in range(2)]
    for channel, app in enumerate(apps, start=1):
        shared.attach(channel, options.project, app.token, app.device_key)
        try:
            app.next_message()
            raise Wrong("the app's connection of before goes on")
        except martlet.MartletError as error:
            expect(error.word == "REPLACED", f"the connection of before was told {error}")
    for app, n in zip(apps, "12"):
        sender.send_message("token", app.token, martlet.message(data={"n": n}))
    for channel, n in ((2, "2"), (1, "1")):
        name, deliver = shared.receive_on(channel)
        expect(name == "DELIVER" and martlet.read_message(deliver["message"])["data"] == {"n": n},
               f"channel {channel} brought {name} {deliver}")
    shared.send_on(1, "DETACH")
    expect(shared.receive_on(1)[0] == "DETACHED", "the app that left was not told so")
    try:
        shared.attach(1, options.project, apps[0].token, apps[1].device_key)
        raise Wrong("a wrong key was taken")
    except martlet.MartletError as error:
        expect(error.word == "UNAUTHENTICATED", f"a wrong key is answered by {error}")
    expect(shared.receive_on(1)[0] == "DETACHED", "the app that was refused has its channel")
    shared.send_on(2, "UNREGISTER", correlation=1)
    expect([shared.receive_on(2)[0] for _ in range(2)] == ["DONE", "DETACHED"],
           "the app that unregistered was told something else")
    shared.close()

    say("the sender asks what is left of its quotas")
    for name, quota in sender.quotas().items():
        expect(quota["remaining"] <= quota["limit"], f"{name}: {quota}")
        expect(name != "sender-connections-max" or quota["remaining"] < quota["limit"],
               f"this connection is not counted: {quota}")

    say("it gets another token")
    old = device.token
    expect(device.rotate() != old, "the token is the old one")
    try:
        sender.send_message("token", old, martlet.message(data={"a": "b"}))
        raise Wrong("a send to an old token is accepted")
    except martlet.MartletError as error:
        expect(error.word == "UNREGISTERED", f"an old token is answered by {error}")

    say("what is malformed is refused")
    try:
        sender.send_message("condition", f"'{topic}' in", martlet.message(data={"a": "b"}))
        raise Wrong("a bad condition is accepted")
    except martlet.MartletError as error:
        expect(error.word == "INVALID_ARGUMENT", f"a bad condition is answered by {error}")

    say("it unregisters, and its token is invalid")
    device.unregister()
    device.close()
    try:
        sender.send_message("token", device.token, martlet.message(data={"a": "b"}))
        raise Wrong("a send to an unregistered token is accepted")
    except martlet.MartletError as error:
        expect(error.word == "UNREGISTERED", f"an unregistered token is answered by {error}")
    sender.close()


if __name__ == "__main__":
    sys.exit(run(round_trip, __doc__))
