# SPDX-License-Identifier: Apache-2.0
"""A second round through a broker with the Python client: groups, what devices send themselves, and
receipts. Exits 0 when all of it went as the document says, else 1 with a sentence that tells the step.

    python3 groups_upstream_receipts.py --host 127.0.0.1 --port 5228 --project tides --server-key KEY
"""

import os
import sys

import martlet
from steps import expect, expect_refusal, run

ADD, REMOVE = 1, 2


class Round:
    """Two devices of one app, one of another, and a sender."""

    def __init__(self, options):
        self.options = options
        self.mark = os.urandom(6).hex()
        self.first, self.second = self.device(options.app), self.device(options.app)
        self.foreign = self.device(options.app + ".other")
        self.members = [self.first, self.second, self.foreign]
        self.sender = self.connect_sender()

    def device(self, app):
        return martlet.Device(self.options.host, self.options.port, self.options.project, app=app)

    def connect_sender(self):
        return martlet.Sender(self.options.host, self.options.port, self.options.project,
                              self.options.server_key)

    def close(self):
        for device in self.members:
            device.unregister()
            device.close()
        self.sender.close()


def tokens_of(answer):
    return [member["token"] for member in answer["tokens"]]


def take(device, origin, data):
    """The device's next message is one of a member of a group, or of the sender to one."""
    deliver, shown = device.next_message()
    expect((deliver["target kind"], deliver["from"], shown["data"]) == (4, origin, data),
           f"a member got {deliver}")
    device.acknowledge(0, deliver["stream ID"])


def groups(world, say):
    sender, name = world.sender, f"group-{world.mark}"
    sender_id = str(sender.welcome["sender ID"])

    say("a group of two devices is created and found")
    group = sender.create_group(name, world.first.token, world.second.token, world.first.token)
    key, two = group["key"], [world.first.token, world.second.token]
    expect(group["name"] == name and tokens_of(group) == two, f"GROUP: {group}")
    found = sender.find_group(name)
    expect((found["key"], tokens_of(found)) == (key, two), f"another group is found: {found}")

    say("a third joins, twice, and is listed")
    for _ in range(2):
        group = sender.change_group(ADD, name, key, world.foreign.token)
        expect(tokens_of(group) == two + [world.foreign.token], f"GROUP: {group}")
    expect({"name": name, "key": key, "members": 3} in sender.list_groups(), "it is not listed")

    say("what does not fit changes nothing")
    expect_refusal("ALREADY_EXISTS", "name", lambda: sender.create_group(name, world.first.token))
    expect_refusal("NOT_FOUND", "name", lambda: sender.find_group(name + "-not"))
    expect_refusal("INVALID_ARGUMENT", "key",
                   lambda: sender.change_group(ADD, name, key + "x", world.first.token))
    expect_refusal("INVALID_ARGUMENT", "tokens[1]",
                   lambda: sender.change_group(ADD, name, key, world.first.token, "none"))
    expect_refusal("PERMISSION_DENIED", "",
                   lambda: world.first.request("FIND_GROUP", name=name))
    expect(len(tokens_of(sender.find_group(name))) == 3, "a refused change was applied")

    say("all members get what is sent to its key")
    accepted = sender.send_message("group", key, martlet.message(data={"n": "1"}))
    expect((accepted["recipients"], accepted["successes"], accepted["failures"]) == (3, 3, []),
           f"GROUP_ACCEPTED: {accepted}")
    for device in world.members:
        take(device, sender_id, {"n": "1"})

    say("the tokens that it was not accepted for are named")
    accepted = sender.send_message("group", key, martlet.message(data={"n": "2"}),
                                   package_name=world.options.app)
    refused = [{"token": world.foreign.token, "word": 1}]
    expect((accepted["successes"], accepted["failures"]) == (2, refused),
           f"GROUP_ACCEPTED: {accepted}")
    for device in world.members[:2]:
        take(device, sender_id, {"n": "2"})

    say("a device sends to the others of its group")
    number = world.first.send_upstream(f"{world.mark}-group", {"n": "3"}, group=key)
    again = world.first.send_upstream(f"{world.mark}-group", {"n": "3"}, group=key)
    expect(number == again, f"one ID has the numbers {number} and {again}")
    for device in world.members[1:]:
        take(device, key, {"n": "3"})
    for device in world.members:
        device.ping()
        expect(not device.delivered, f"a member got {device.delivered} as well")

    say("who has left gets nothing, and may not send to it")
    group = sender.change_group(REMOVE, name, key, world.foreign.token)
    expect(tokens_of(group) == two, f"GROUP: {group}")
    accepted = sender.send_message("group", key, martlet.message(data={"n": "4"}))
    expect((accepted["successes"], accepted["failures"]) == (2, []), f"GROUP_ACCEPTED: {accepted}")
    for device in world.members[:2]:
        take(device, sender_id, {"n": "4"})
    world.foreign.ping()
    expect(not world.foreign.delivered, "who has left got a message")
    expect_refusal("NOT_FOUND", "group", lambda: world.foreign.send_upstream("x", {}, group=key))

    say("the group ends with its last member")
    group = sender.change_group(REMOVE, name, key, *two)
    expect(tokens_of(group) == [], f"members are left: {group}")
    accepted = sender.send_message("group", key, martlet.message(data={"n": "5"}))
    expect((accepted["successes"], accepted["failures"]) == (0, []), f"GROUP_ACCEPTED: {accepted}")
    expect_refusal("NOT_FOUND", "name", lambda: sender.find_group(name))


def next_upstream(sender, numbers):
    """The next message of this round's devices; others may have sent before."""
    while True:
        sent = sender.next_upstream()
        if sent["number"] in numbers:
            return sent
        sender.acknowledge_upstream(sent["number"])


def upstream(world, say):
    device, mark = world.first, world.mark

    say("a device sends to its project, the second message twice")
    numbers = [device.send_upstream(f"{mark}-{n}", {"n": str(n)}) for n in (1, 2, 2)]
    expect(numbers[0] < numbers[1] == numbers[2], f"the numbers are {numbers}")

    say("a sender gets both, once each")
    listener = world.connect_sender()
    listener.listen_upstream()
    for n, number in enumerate(numbers[:2], start=1):
        sent = next_upstream(listener, numbers)
        expect((sent["number"], sent["token"], sent["app name"], sent["message ID"])
               == (number, device.token, world.options.app, f"{mark}-{n}"),
               f"UPSTREAM_MESSAGE: {sent}")
        expect(martlet.read_message(sent["message"])["data"] == {"n": str(n)}, "other data")
        expect(sent["accepted"] < sent["expires"], "it expires before it was accepted")
    listener.ping()
    expect(not listener.upstream, f"{listener.upstream} came as well")

    say("it acknowledges one; the other goes to the next sender, under the same number")
    listener.acknowledge_upstream(numbers[0])
    listener.ping()
    listener.close()
    listener = world.connect_sender()
    listener.listen_upstream()
    sent = next_upstream(listener, numbers)
    expect(sent["number"] == numbers[1], "an acknowledged message came again")
    listener.acknowledge_upstream(numbers[1])

    say("what is now or never comes to who listens, and else to nobody")
    number = device.send_upstream(f"{mark}-now", {"n": "3"}, time_to_live=0)
    sent = next_upstream(listener, [number])
    expect(sent["expires"] == sent["accepted"], f"UPSTREAM_MESSAGE: {sent}")
    listener.acknowledge_upstream(number)
    listener.ping()
    expect(not listener.upstream, f"{listener.upstream} came as well")
    expect_refusal("PERMISSION_DENIED", "",
                   lambda: world.sender.request("UPSTREAM", group="", message_ID="x", message=b"",
                                                time_to_live=martlet.ABSENT))
    listener.close()


def receipts(world, say):
    device, sender = world.first, world.connect_sender()

    say("a device reports what becomes of a message whose sender wants to know")
    accepted = sender.send_message("token", device.token, martlet.message(data={"n": "1"}),
                                   receipts=True)
    deliver, _ = device.next_message()
    expect(deliver["flags"] & martlet.WANTS_RECEIPTS, "the device is not told of receipts")
    device.acknowledge(deliver["stream ID"])
    for kind in ("received", "received", "displayed", "opened"):
        device.receipt(kind, deliver["stream ID"])
    expect_refusal("NOT_FOUND", "stream_id",
                   lambda: world.second.receipt("opened", deliver["stream ID"]))

    say("the sender hears of each once")
    sender.listen_receipts()
    events = []
    while len(events) < 3:
        event = sender.next_receipt()
        # Other messages may have been reported before.
        if event["message number"] == accepted["message number"]:
            events.append(event)
    expect([event["kind"] for event in events] == [1, 2, 3]
           and all(event["token"] == device.token for event in events), f"RECEIPT_EVENT: {events}")
    expect(events[0]["event ID"] < events[1]["event ID"] < events[2]["event ID"],
           "event IDs do not rise")
    sender.ping()
    expect(not sender.receipts, f"{sender.receipts} came as well")

    say("what it has not taken comes again on its next connection")
    sender.acknowledge_receipts(events[1]["event ID"])
    sender.ping()
    sender.close()
    sender = world.connect_sender()
    sender.listen_receipts()
    expect(sender.next_receipt() == events[2], "another receipt than the third")
    sender.acknowledge_receipts(events[2]["event ID"])
    sender.ping()
    sender.close()

    say("nobody wants to know of another message")
    world.sender.send_message("token", device.token, martlet.message(data={"n": "2"}))
    deliver, _ = device.next_message()
    expect(not deliver["flags"] & martlet.WANTS_RECEIPTS, "the device is told of receipts")
    device.acknowledge(deliver["stream ID"])


def round_trip(options, say):
    world = Round(options)
    groups(world, say)
    upstream(world, say)
    receipts(world, say)
    world.close()


if __name__ == "__main__":
    sys.exit(run(round_trip, __doc__))
