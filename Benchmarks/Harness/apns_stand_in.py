# SPDX-License-Identifier: Apache-2.0
#
# The server of the tests that stands in for Apple's push service, as a program of its own for the benchmarks. It judges
# every request as in the tests, but reads a provider token once, and keeps no request. Runs in the environment of the
# tests with h2. Rests on Tests/Python/apns_server.py.
#
#     apns_stand_in.py FOLDER
#
# The first line of JSON has the URL, the file of the authority, and a key. Each line of standard input is a command, and
# has a line of JSON as its answer:
#
#     taken        takes all requests from now on
#     silent       answers no request from now on
#     unavailable  answers 503 from now on
#     count        says how many requests came, how many were taken, and when the last one was (monotonic seconds)
#     wait N       says the same when N requests have been taken, or after a minute

import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "Tests" / "Python"))

import apns_server  # noqa: E402
from apns_server import TAKEN, Answer  # noqa: E402

HOUR = 3600
WAIT_SECONDS_MAX = 60
ANSWERS = {
    "taken": TAKEN,
    "silent": TAKEN._replace(delay=HOUR),
    "unavailable": Answer(503, "ServiceUnavailable", {"retry-after": str(HOUR)})}


class StandIn(apns_server.Server):
    def __init__(self, folder):
        super().__init__(folder)
        self.came, self.taken, self.taken_at, self.known = 0, 0, 0.0, {}

    def judge(self, request):
        self.came += 1
        return self.fault(request) or self.answer(request)

    def authorization(self, text):
        if text not in self.known:
            self.known[text] = super().authorization(text)
        return self.known[text]

    def told(self, request, answer):
        if answer.status == 200:
            self.taken_at = time.monotonic()
            self.taken += 1


def main():
    server, key = StandIn(sys.argv[1]), apns_server.Key()
    server.trust(key)
    print(json.dumps({
        "url": server.url, "authority": server.authority, "keyID": key.id, "team": key.team,
        "key": key.text}), flush=True)
    for line in sys.stdin:
        command, *values = line.split()
        if command in ANSWERS:
            server.answer = lambda request, answer=ANSWERS[command]: answer
        elif command == "wait":
            end = time.monotonic() + WAIT_SECONDS_MAX
            while server.taken < int(values[0]) and time.monotonic() < end:
                time.sleep(0.02)
        found = {"came": server.came, "taken": server.taken, "takenAt": server.taken_at}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
