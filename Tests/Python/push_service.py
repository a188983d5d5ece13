# SPDX-License-Identifier: Apache-2.0
"""A push service of its own, for senders: HTTPS, with HTTP/2 and without.

    push_service.py FOLDER

makes an authority and certificates in the folder, and prints a line of JSON with the ports: "port" offers HTTP/2, and
"plain" has HTTP/1.1 alone and a certificate for the name localhost alone. Each request is a further line. A request's path is its answer:

    /push/STATUS/NAME       the status, with the headers of the query, such as ?retry-after=7
    /push/503,201/NAME      the first status to the first request, and the last one to all later ones
    /push/silence/NAME      no answer
    /push/end/NAME          the end of the connection

h2 and cryptography, which the SDKs bring along. A program ends the service by closing its standard input.
"""

import base64
import datetime
import ipaddress
import json
import os
import socket
import ssl
import sys
import threading
import urllib.parse

import h2.config
import h2.connection
import h2.events
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LOCK = threading.Lock()
ASKED = {}


def certify(folder):
    """Files of an authority, and of certificates with their key for this machine."""
    now = datetime.datetime.now(datetime.timezone.utc)

    def build(subject, issuer, key, signer, extensions):
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
        from_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)])
        builder = (x509.CertificateBuilder().subject_name(name).issuer_name(from_name)
                   .public_key(key.public_key()).serial_number(x509.random_serial_number())
                   .not_valid_before(now - datetime.timedelta(days=1))
                   .not_valid_after(now + datetime.timedelta(days=30)))
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(signer, hashes.SHA256())

    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = build("Push authority", "Push authority", authority_key, authority_key,
                      [x509.BasicConstraints(ca=True, path_length=0)])
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.DNSName("localhost")
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = {"authority": authority}
    for path, names in (("certificate", [name, address]), ("named", [name])):
        made[path] = build("localhost", "Push authority", key, authority_key,
                           [x509.SubjectAlternativeName(names)])
    paths = {name: os.path.join(folder, name + ".pem") for name in [*made, "key"]}
    for path, certificate in made.items():
        with open(paths[path], "wb") as file:
            file.write(certificate.public_bytes(serialization.Encoding.PEM))
    with open(paths["key"], "wb") as file:
        file.write(key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption()))
    return paths


def tell(item):
    with LOCK:
        print(json.dumps(item), flush=True)


def answer_to(method, path, headers, body, protocol, connection):
    """Tells the request, and returns (status, headers), or a word for no answer."""
    parts = urllib.parse.urlsplit(path)
    tell({"method": method, "path": path, "headers": headers, "protocol": protocol,
          "connection": connection, "body": base64.b64encode(body).decode()})
    words = parts.path.split("/")[2].split(",")
    with LOCK:
        number = ASKED[path] = ASKED.get(path, 0) + 1
    word = words[min(number, len(words)) - 1]
    return (int(word), urllib.parse.parse_qsl(parts.query)) if word.isdigit() else word


def serve_h2(stream, number):
    state = h2.connection.H2Connection(
        h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
    state.initiate_connection()
    stream.sendall(state.data_to_send())
    requests = {}
    while data := stream.recv(65536):
        for event in state.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                requests[event.stream_id] = (dict(event.headers), bytearray())
            elif isinstance(event, h2.events.DataReceived):
                requests[event.stream_id][1].extend(event.data)
                state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                headers, body = requests.pop(event.stream_id)
                answer = answer_to(headers.pop(":method"), headers.pop(":path"), headers,
                                   bytes(body), "h2", number)
                if answer == "end":
                    return
                if answer == "silence":
                    continue
                state.send_headers(
                    event.stream_id, [(":status", str(answer[0])), *answer[1]])
                state.send_data(event.stream_id, b"told\n", end_stream=True)
        stream.sendall(state.data_to_send())


def serve_http(stream, number):
    file = stream.makefile("rb")
    while line := file.readline():
        method, path, _ = line.decode().split(" ")
        headers = {}
        while (line := file.readline().strip()):
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        body = file.read(int(headers.get("content-length", "0")))
        answer = answer_to(method, path, headers, body, "http/1.1", number)
        if answer == "end":
            return
        if answer == "silence":
            continue
        more = "".join(f"{name}: {value}\r\n" for name, value in answer[1])
        stream.sendall(f"HTTP/1.1 {answer[0]} Told\r\n{more}Content-Length: 5\r\n\r\ntold\n".encode())


def listen(paths, certificate, protocols):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(paths[certificate], paths["key"])
    context.set_alpn_protocols(protocols)
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    count = 0

    def serve(peer, number):
        try:
            with context.wrap_socket(peer, server_side=True) as stream:
                if stream.selected_alpn_protocol() == "h2":
                    serve_h2(stream, number)
                else:
                    serve_http(stream, number)
        except OSError:
            pass

    def accept():
        nonlocal count
        while True:
            peer, _ = listener.accept()
            count += 1
            threading.Thread(target=serve, args=(peer, count), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


def main():
    paths = certify(sys.argv[1])
    tell({"port": listen(paths, "certificate", ["h2", "http/1.1"]),
          "plain": listen(paths, "named", ["http/1.1"]), "authority": paths["authority"]})
    sys.stdin.read()


if __name__ == "__main__":
    main()
