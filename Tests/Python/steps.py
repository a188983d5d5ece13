# SPDX-License-Identifier: Apache-2.0
"""What the rounds through a broker have in common: their options, and the step that went wrong."""

import argparse
import ssl
import sys

import martlet


class Wrong(Exception):
    """The broker did something else than the document says."""


def expect(condition, sentence):
    if not condition:
        raise Wrong(sentence)


def expect_refusal(word, field, ask):
    """That `ask` is answered by this word, and names this field."""
    try:
        answer = ask()
    except martlet.MartletError as error:
        expect((error.word, error.field) == (word, field), f"{word} {field} expected, got {error}")
        return
    raise Wrong(f"{word} {field} expected, answered by {answer}")


def run(round_trip, description):
    """`round_trip(options, say)` against the broker that the command line names; the exit code."""
    parser = argparse.ArgumentParser(description=description.split("\n\n")[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=martlet.DEFAULT_PORT)
    parser.add_argument("--project", required=True)
    parser.add_argument("--server-key", required=True)
    parser.add_argument("--app", default="com.example.python")
    parser.add_argument("--ca", help="speak TLS, and trust the certificates in this file")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args()
    if options.ca:
        martlet.tls_context = ssl.create_default_context(cafile=options.ca)
        martlet.tls_context.set_alpn_protocols(["martlet"])
    step = ["connecting"]

    def say(sentence):
        step[0] = sentence
        if not options.quiet:
            print(sentence)

    try:
        round_trip(options, say)
    except (Wrong, martlet.MartletError, martlet.ProtocolViolation, OSError) as error:
        print(f"failed where {step[0]}: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print("all as the document says")
    return 0
