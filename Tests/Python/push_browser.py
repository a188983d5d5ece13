# SPDX-License-Identifier: Apache-2.0
"""Firefox, unmodified but for preferences, at the Web Push door: `make browser-test`.

    push_browser.py MARTLET FIREFOX LOG

Firefox is driven by Marionette over TCP. A page on the loopback interface registers a worker and subscribes; the worker
keeps what it is pushed in a cache, which the page reads. pywebpush sends.
"""

import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

import push_scenarios
from ports import free_port
from push_agent import b64

PAGE = b"<!doctype html><title>push</title><p>push"
WORKER = b"""
self.addEventListener('install', event => event.waitUntil(self.skipWaiting()));
self.addEventListener('activate', event => event.waitUntil(self.clients.claim()));
self.addEventListener('push', event => event.waitUntil((async () => {
  const text = event.data ? event.data.text() : '(none)';
  const cache = await caches.open('pushed');
  await cache.put('/pushed/' + Date.now() + '-' + Math.random(), new Response(text));
  await self.registration.showNotification('push', { body: text });
})()));
"""
SUBSCRIBE = """
const [key, done] = arguments;
(async () => {
  const registration = await navigator.serviceWorker.register('/worker.js');
  await navigator.serviceWorker.ready;
  const options = { userVisibleOnly: true };
  if (key) options.applicationServerKey = key;
  const subscription = await registration.pushManager.subscribe(options);
  return subscription.toJSON();
})().then(done, error => done({ error: String(error) }));
"""
STATE = """
const [done] = arguments;
(async () => {
  const registration = await navigator.serviceWorker.ready;
  const subscription = await registration.pushManager.getSubscription();
  const cache = await caches.open('pushed');
  const texts = [];
  for (const request of await cache.keys()) texts.push(await (await cache.match(request)).text());
  return { subscription: subscription && subscription.toJSON(), texts };
})().then(done, error => done({ error: String(error) }));
"""
UNSUBSCRIBE = """
const [done] = arguments;
navigator.serviceWorker.ready.then(one => one.pushManager.getSubscription())
  .then(one => one.unsubscribe()).then(done, error => done({ error: String(error) }));
"""


class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        is_worker = self.path == "/worker.js"
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript" if is_worker else "text/html")
        self.end_headers()
        self.wfile.write(WORKER if is_worker else PAGE)

    def log_message(self, *arguments):
        pass


class Firefox:
    """A profile, and the browser on it while it runs."""

    def __init__(self, executable, url, log):
        self.executable, self.log = executable, log
        self.home = tempfile.mkdtemp(prefix="martlet-firefox-")
        self.profile = os.path.join(self.home, "profile")
        os.mkdir(self.profile)
        self.port = free_port()
        preferences = {
            "dom.push.serverURL": url,
            "dom.push.testing.allowInsecureServerURL": True,
            # Marionette turns the connection off unless it is asked not to change preferences.
            "dom.push.connection.enabled": True,
            "remote.prefs.recommended": False,
            "permissions.default.desktop-notification": 1,
            "dom.push.testing.ignorePermission": True,
            "dom.push.retryBaseInterval": 500,
            "marionette.port": self.port,
            "browser.shell.checkDefaultBrowser": False,
            "datareporting.policy.dataSubmissionEnabled": False,
            "toolkit.telemetry.reportingpolicy.firstRun": False,
            "app.update.enabled": False,
            "network.captive-portal-service.enabled": False,
            "network.connectivity-service.enabled": False,
            "services.settings.server": "http://127.0.0.1:9/",
        }
        with open(os.path.join(self.profile, "user.js"), "w", encoding="utf-8") as file:
            for name, value in preferences.items():
                file.write(f"user_pref({json.dumps(name)}, {json.dumps(value)});\n")

    def start(self):
        environment = dict(os.environ, HOME=self.home, MOZ_HEADLESS="1")
        self.process = subprocess.Popen(
            [self.executable, "--headless", "--no-remote", "--profile", self.profile, "-marionette"],
            stdout=self.log, stderr=self.log, env=environment)
        end = time.monotonic() + 60
        while True:
            try:
                self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=60)
                break
            except OSError:
                assert self.process.poll() is None, "Firefox ended"
                assert time.monotonic() < end, "Firefox does not listen"
                time.sleep(0.1)
        self.buffer, self.number = b"", 0
        self._receive()
        self.ask("WebDriver:NewSession", {})
        return self

    def _receive(self):
        while b":" not in self.buffer:
            self._read()
        length, rest = self.buffer.split(b":", 1)
        while len(rest) < int(length):
            self.buffer = rest
            self._read()
            rest = self.buffer
        self.buffer = rest[int(length):]
        return json.loads(rest[:int(length)])

    def _read(self):
        data = self.socket.recv(65536)
        assert data, "Firefox closed Marionette"
        self.buffer += data

    def ask(self, command, arguments):
        self.number += 1
        text = json.dumps([0, self.number, command, arguments])
        self.socket.sendall(f"{len(text)}:{text}".encode())
        while True:
            kind, number, error, result = self._receive()
            if kind == 1 and number == self.number:
                assert error is None, error
                return result

    def visit(self, url):
        self.ask("WebDriver:Navigate", {"url": url})

    def run(self, script, *arguments):
        result = self.ask("WebDriver:ExecuteAsyncScript", {
            "script": script, "args": list(arguments), "scriptTimeout": 30_000})
        return result["value"] if isinstance(result, dict) and "value" in result else result

    def quit(self):
        self.ask("Marionette:Quit", {"flags": ["eAttemptQuit"]})
        self.process.wait(30)

    def kill(self):
        self.process.kill()
        self.process.wait()


class Subscription:
    def __init__(self, told):
        self.told, self.endpoint = told, told["endpoint"]

    def info(self):
        return self.told


def wait(what, found, seconds=60):
    end = time.monotonic() + seconds
    while True:
        value = found()
        if value:
            return value
        assert time.monotonic() < end, what
        time.sleep(0.2)


def main():
    push_scenarios.MARTLET, executable, log_path = sys.argv[1:]
    if not shutil.which(executable):
        print("browser-test: skipped, Firefox is not installed")
        return 0
    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    page = f"http://127.0.0.1:{site.server_address[1]}/"
    server = push_scenarios.Server(limits=push_scenarios.WITHOUT_QUOTA)
    sender = push_scenarios.ApplicationServer()
    with open(log_path, "wb") as log:
        firefox = Firefox(executable, server.url, log).start()
        try:
            firefox.visit(page)

            # subscribe() before Firefox's push service has started never settles: wait for its connection.
            def connected():
                return 'martlet_http_requests_total{route="webSocket"' in server.metrics()
            wait("Firefox does not connect", connected)
            told = firefox.run(SUBSCRIBE, b64(sender.public))
            assert "error" not in told, told
            subscription = Subscription(told)
            assert "/wpush/b/" in subscription.endpoint

            def texts():
                return firefox.run(STATE)["texts"]

            def push(text, **more):
                assert sender.send(subscription, text, **more).status_code == 201

            push("hello")
            push("draft", coding="aesgcm")
            wait("the worker was not pushed", lambda: {"hello", "draft"} <= set(texts()))
            print("browser: subscribed with a key, and pushed in both codings")

            # The away matrix, over a restart of the browser.
            firefox.quit()
            push("never", ttl=0)
            push("short", ttl=1)
            push("topic one", headers={"Topic": "news"})
            push("kept")
            push("topic two", headers={"Topic": "news"})
            time.sleep(1.5)
            firefox.start()
            firefox.visit(page)
            wait("nothing came after the restart", lambda: {"kept", "topic two"} <= set(texts()))
            assert not {"never", "short", "topic one"} & set(texts()), texts()
            print("browser: after its restart the kept ones came, and no other")

            # The broker is killed and comes back.
            server.kill()
            server.start()
            push("after the kill")
            wait("nothing came after the kill", lambda: "after the kill" in texts())
            assert len(texts()) == len(set(texts())), texts()
            print("browser: it came back to a killed broker, and nothing came twice")

            # Both are killed.
            firefox.kill()
            server.kill()
            server.start()
            location = sender.send(subscription, "after both kills").headers["location"]
            firefox.start()
            firefox.visit(page)
            wait("nothing came after both kills", lambda: "after both kills" in texts())
            wait("the report is wrong",
                 lambda: server.report(location)["counts"]["acknowledged"] == 1)
            print("browser: after both were killed it came, and the report has it")

            # A sender with another key, and the end of the subscription.
            stranger = push_scenarios.ApplicationServer()
            try:
                stranger.send(subscription, "stranger")
                assert False, "another key may send"
            except push_scenarios.pywebpush.WebPushException as error:
                assert error.response.status_code == 403
            assert firefox.run(UNSUBSCRIBE) is True

            def gone():
                try:
                    sender.send(subscription, "gone")
                except push_scenarios.pywebpush.WebPushException as error:
                    return error.response.status_code == 410
            wait("an ended subscription takes messages", gone)
            print("browser: another key is refused, and an ended subscription is gone")
            firefox.quit()
        except BaseException:
            firefox.process.kill()
            server.process.kill()
            raise
    server.end()
    shutil.rmtree(firefox.home, ignore_errors=True)
    print("browser-test: passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
