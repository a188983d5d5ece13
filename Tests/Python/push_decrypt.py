# SPDX-License-Identifier: Apache-2.0
"""Reads what a sender of Web Push made, with libraries of senders and user agents: http_ece and py_vapid.

    push_decrypt.py

reads a JSON object from standard input, {"messages": [{private, auth, body}…], "tokens": [authorization…]}, and prints the
texts, and the claims with the keys. Binary values are base64url.
"""

import base64
import json
import sys

import http_ece
import py_vapid
from cryptography.hazmat.primitives.asymmetric import ec


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def read(message):
    private = ec.derive_private_key(
        int.from_bytes(unb64(message["private"]), "big"), ec.SECP256R1())
    return b64(http_ece.decrypt(
        unb64(message["body"]), private_key=private, auth_secret=unb64(message["auth"]),
        version="aes128gcm"))


def verify(authorization):
    scheme, parameters = authorization.split(" ", 1)
    assert scheme == "vapid", authorization
    assert py_vapid.Vapid02.verify(authorization), authorization
    named = dict(part.split("=", 1) for part in parameters.split(","))
    header, claims, signature = named["t"].split(".")
    assert len(unb64(signature)) == 64
    return {"header": json.loads(unb64(header)), "claims": json.loads(unb64(claims)),
            "key": named["k"]}


asked = json.load(sys.stdin)
print(json.dumps({"messages": [read(message) for message in asked.get("messages", [])],
                  "tokens": [verify(token) for token in asked.get("tokens", [])]}))
