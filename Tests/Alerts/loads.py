# SPDX-License-Identifier: Apache-2.0
"""The causes of alerts: each function gets a broker, and goes on until it is told to stop. Whatever it has changed of
the broker's surroundings it puts right then."""

import socket
import threading

from brokers import EIO, martlet

# A project may have 16,384 commands waiting, a connection 1024, and the alert wants 32,769.
WAITING_PROJECTS = ("one", "two", "three")
SENDERS_PER_PROJECT = 13
SENDS_PER_SENDER = 1000
# Longer than the alert needs to fire.
STALL_MICROSECONDS = 25_000_000
# A message to so many takes six seconds at 20 deliveries a second.
DEVICES = 120
HEALTHY_DEVICES = 20
HEALTHY_MESSAGES_MIN = 200


def small(number=0):
    return martlet.message(data={"n": str(number)})


def sending(broker, stop, seconds, tolerant=False):
    """Sends to nobody, again and again."""
    sender = broker.sender()
    while not stop.wait(seconds):
        try:
            sender.send_message("topic", "nobody", small())
        except martlet.MartletError as error:
            if not tolerant or error.word != "UNAVAILABLE":
                raise


def kill(broker, stop):
    broker.end()
    stop.wait()


def refuse(broker, stop):
    broker.disk(*(f"1 {name} ws {EIO} -1 0" for name in ("data.mdb", "journal.0", "journal.1")))
    try:
        sending(broker, stop, 0.1, tolerant=True)
    finally:
        broker.disk()
    # The broker must take messages again by itself.
    again = threading.Event()
    sender = broker.sender()
    for _ in range(300):
        try:
            sender.send_message("topic", "nobody", small())
            return
        except martlet.MartletError as error:
            if error.word != "UNAVAILABLE":
                raise
            again.wait(0.1)
    raise AssertionError("the broker still refuses messages 30 s after the disk's errors")


def fill_up(broker, stop):
    """The rest of the reserve is taken by messages to a device that does not read."""
    device = broker.device()
    token = device.token
    device.close()
    broker.fill(1)
    sender = broker.sender()
    body = martlet.message(data={"n": "x" * 3900})
    refused = False
    while not refused and not stop.is_set():
        try:
            outstanding(sender, token, body, 200)
        except martlet.MartletError as error:
            if error.word != "UNAVAILABLE":
                raise
            refused = True
    stop.wait()
    broker.make_room()


def outstanding(sender, token, body, count):
    """Sends messages without waiting for the answer of each; the first refusal is raised."""
    for number in range(count):
        sender.correlation += 1
        send_frame(sender, "token", token, body)
    error = None
    for _ in range(count):
        name, content = sender.receive()
        if name == "ERROR":
            error = martlet.MartletError(content)
    if error:
        raise error


def send_frame(sender, kind, target, body):
    sender.send("SEND", correlation=sender.correlation, flags=0,
                target_kind=1 if kind == "token" else 2, target=target,
                time_to_live=martlet.ABSENT, priority=0, collapse_key="",
                restricted_package_name="", idempotency_key="", send_at=0, not_received=None,
                message=body)


def fill_mostly(broker, stop):
    broker.fill(0.9)
    stop.wait()
    broker.make_room()


def slow_disk(microseconds):
    def act(broker, stop):
        broker.disk(f"1 journal.0 w 0 -1 {microseconds}", f"2 journal.1 w 0 -1 {microseconds}")
        try:
            sending(broker, stop, 0.01)
        finally:
            broker.disk()

    return act


def wait_for_disk(broker, stop):
    """One write that hangs, and many senders meanwhile."""
    senders = [(project, broker.sender(project)) for project in WAITING_PROJECTS
               for _ in range(SENDERS_PER_PROJECT)]
    broker.disk(f"1 journal.0 w 0 1 {STALL_MICROSECONDS}", f"2 journal.1 w 0 1 {STALL_MICROSECONDS}")
    body = small()
    for number in range(SENDS_PER_SENDER):
        for _, sender in senders:
            sender.correlation += 1
            send_frame(sender, "topic", "nobody", body)
    stop.wait()
    for _, sender in senders:
        for _ in range(SENDS_PER_SENDER):
            sender.receive()


def many_fanouts(broker, stop):
    devices = [broker.device("all") for _ in range(DEVICES)]
    sender = broker.sender()
    while not stop.is_set():
        for _ in range(6):
            sender.send_message("topic", "all", small())
        stop.wait(10)
    for device in devices:
        device.close()


def strangers(broker, stop):
    """Four connections without a word take the places of the address."""
    silent = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(4)]
    while not stop.wait(0.002):
        try:
            socket.create_connection(("127.0.0.1", broker.port), timeout=5).close()
        except OSError:
            pass
    for connection in silent:
        connection.close()


def bad_handshakes(broker, stop):
    while not stop.wait(0.01):
        with socket.create_connection(("127.0.0.1", broker.port), timeout=5) as stranger:
            try:
                stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
                stranger.recv(1)
            except OSError:
                pass


def healthy(broker, stop):
    """Messages to all and to one, acknowledged, fifty a second."""
    devices = [broker.device("all") for _ in range(HEALTHY_DEVICES)]

    def take(device):
        while not stop.is_set():
            try:
                deliver, _ = device.next_message()
                device.acknowledge(deliver["stream ID"])
            except OSError:
                continue

    threads = [threading.Thread(target=take, args=(device,), daemon=True) for device in devices]
    for thread in threads:
        thread.start()
    sender = broker.sender()
    number = 0
    while not stop.wait(0.02):
        number += 1
        if number % 5:
            sender.send_message("token", devices[number % HEALTHY_DEVICES].token, small(number))
        else:
            sender.send_message("topic", "all", small(number))
