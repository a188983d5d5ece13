#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server of an app: who has logged in gets a ticket, with which one device registers once.

    TICKET_SECRET=$(openssl rand -hex 32) python3 login_server.py 8090 com.example.tides [KID]

The broker knows the same secret as a ticket key with the ID KID (else `login`), and the project's policy is `ticket`.
"""
import base64, hashlib, hmac, http.server, json, os, secrets, sys, time

SECRET, APP, USERS = os.environ["TICKET_SECRET"].encode(), sys.argv[2], {"ada": "lovelace"}
HEADER = json.dumps({"alg": "HS256", "kid": sys.argv[3] if len(sys.argv) > 3 else "login"}).encode()


def part(value):
    return base64.urlsafe_b64encode(value).rstrip(b"=")


def ticket(user):
    claims = {"jti": secrets.token_urlsafe(16), "exp": time.time() + 60, "app": APP, "topics": [f"user.{user}"]}
    signed = part(HEADER) + b"." + part(json.dumps(claims).encode())
    return signed + b"." + part(hmac.digest(SECRET, signed, hashlib.sha256))


class Login(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        form = json.loads(self.rfile.read(min(int(self.headers["Content-Length"]), 4096)))
        known = hmac.compare_digest(USERS.get(form["user"], ""), form["password"]) and form["password"]
        self.send_response(200 if known else 403)
        self.end_headers()
        self.wfile.write(ticket(form["user"]) if known else b"")


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Login)
    print(server.server_port, flush=True)
    server.serve_forever()
