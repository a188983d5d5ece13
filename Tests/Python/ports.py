# SPDX-License-Identifier: Apache-2.0
"""Ports for servers that are told their port before they start, and keep the port over restarts. Rests on the standard
library alone."""

import random
import socket

# Linux gives the ports behind these to connections. Such a port could be taken whenever the server is down.
PORTS = range(10_000, 32_768)
TRIES_MAX = 1_000
# A claim ends with the process.
_claims = []


def free_port():
    """A port of 127.0.0.1 on which nothing listens, and which no other caller gets while this process runs. The claim on
    the port is a UDP socket with the same number, so callers in other processes see it too."""
    for _ in range(TRIES_MAX):
        port = random.choice(PORTS)
        claim = socket.socket(type=socket.SOCK_DGRAM)
        try:
            claim.bind(("127.0.0.1", port))
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return port
    raise OSError(f"no free port was found in {TRIES_MAX} tries")
