# SPDX-License-Identifier: Apache-2.0
"""An app server over XMPP: slixmpp from PyPI, unmodified.

    xmpp_app_server.py HOST PORT CERTIFICATES SENDER_ID SERVER_KEY

Orders come on standard input, and events go to standard output, a JSON object on each line. Each connection has a number.

    {"do": "open"}                        another connection; the last one opened sends
    {"do": "send", "json": {...}}         sends JSON on the last connection
    {"do": "ack", "on": N, "json": {...}} acknowledges a message on connection N
    {"do": "ping", "on": N}               pings the server
    {"do": "drop", "on": N}               breaks connection N without a word
    {"do": "close", "on": N}              ends connection N in order
    {"do": "quit"}
"""

import asyncio
import json
import pathlib
import sys

import slixmpp
from slixmpp.xmlstream import ET
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import MatchXPath

GCM = "{google:mobile:data}gcm"


def tell(event, connection, **more):
    print(json.dumps({"event": event, "on": connection, **more}), flush=True)


class Connection(slixmpp.ClientXMPP):
    def __init__(self, number, options):
        host, port, certificates, sender, key = options
        super().__init__(f"{sender}@fcm.googleapis.com", key, sasl_mech="PLAIN")
        self.number = number
        self.ca_certs = pathlib.Path(certificates)
        self.enable_starttls = False
        self.enable_plaintext = False
        self.register_plugin("xep_0199")
        self.register_handler(
            Callback("gcm", MatchXPath("{jabber:client}message/" + GCM), self.received))
        self.add_event_handler("session_start", lambda _: tell("open", number, jid=str(self.boundjid)))
        self.add_event_handler("failed_all_auth", lambda _: tell("refused", number))
        self.add_event_handler(
            "stream_error", lambda error: tell("stream_error", number, condition=error["condition"]))
        self.add_event_handler("disconnected", lambda _: tell("ended", number))
        self.connect(host, int(port))

    def received(self, message):
        text = message.xml.find(GCM).text
        if message["type"] == "error":
            tell("error", self.number, text=message["error"]["text"])
        else:
            tell("message", self.number, json=json.loads(text))

    def say(self, value):
        message = self.Message()
        ET.SubElement(message.xml, GCM).text = json.dumps(value)
        message.send()


async def main(options):
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    connections = []
    while line := await orders.readline():
        order = json.loads(line)
        connection = connections[order.get("on", -1)] if connections else None
        match order["do"]:
            case "open":
                connections.append(Connection(len(connections), options))
            case "send" | "ack":
                connection.say(order["json"])
            case "ping":
                seconds = await connection["xep_0199"].ping("fcm.googleapis.com", timeout=10)
                tell("pong", connection.number, took=seconds >= 0)
            case "drop":
                connection.abort()
            case "close":
                await connection.disconnect()
            case "quit":
                return


asyncio.run(main(sys.argv[1:]))
