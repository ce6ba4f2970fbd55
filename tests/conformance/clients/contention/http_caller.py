"""Takes the lock over HTTP, with nothing but the standard library. Arguments as of `kazoo_caller`; connect names the
HTTP addresses, the first of which is used.

An HTTP caller learns its place in the queue only by looking: a second thread asks who waits until this session is
among them, and says `enqueue` then. A third renews the session, as a caller that waits longer than its ttl must.
"""

import json
import os
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from contention.log import Log  # noqa: E402

LOCK = "/v1/locks/orders"
LOOK_S = 0.02
WAIT_S = 240


class Refused(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status} {body}")
        self.status = status
        self.code = body.get("code") if isinstance(body, dict) else None


class Caller:
    def __init__(self, connect, directory, who, mode, cycles, hold_ms, timeout_ms):
        self.base = "http://" + connect.split(",")[0]
        self.log = Log(directory, who)
        self.mode, self.cycles, self.hold_s = mode, int(cycles), int(hold_ms) / 1000
        self.ttl_ms = int(timeout_ms)
        self.session = who
        self.cycle = 0
        self.ended = threading.Event()
        self.call("PUT", "/v1/sessions/" + who, ttl=f"{self.ttl_ms}ms")
        threading.Thread(target=self.renew, daemon=True).start()

    def call(self, method, path, **query):
        url = self.base + path + ("?" + urllib.parse.urlencode(query) if query else "")
        request = urllib.request.Request(url, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S + 30) as answer:
                body = answer.read()
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            try:
                raise Refused(error.code, json.loads(text)) from None
            except ValueError:
                raise Refused(error.code, text) from None
        return json.loads(body) if body else {}

    def renew(self):
        while not self.ended.wait(self.ttl_ms / 3000):
            try:
                self.call("POST", f"/v1/sessions/{self.session}/keepalive")
            except Refused as refused:
                if refused.status == 410:
                    self.log.say("lost", self.cycle, why=str(refused))
                    return
            except OSError as error:
                print("renewal:", error, file=sys.stderr, flush=True)

    def look(self, cycle, granted):
        """Until this session is seen in the queue or holds the lock."""
        while not granted.wait(LOOK_S):
            try:
                found = self.call("GET", LOCK)
            except (Refused, OSError):
                continue
            if self.session in [member["session"] for member in found["queue"]]:
                self.log.say("enqueue", cycle)
                return

    def acquire(self):
        """The grant's answer. What is safe to ask again is asked again."""
        while True:
            try:
                return self.call("PUT", LOCK, session=self.session, ttl=f"{self.ttl_ms}ms", wait=f"{WAIT_S}s")
            except Refused as refused:
                if refused.status not in (429, 503):
                    raise
                print("again:", refused, file=sys.stderr, flush=True)
                time.sleep(0.1)

    def once(self):
        granted = threading.Event()
        self.log.say("send", self.cycle)
        looking = threading.Thread(target=self.look, args=(self.cycle, granted), daemon=True)
        looking.start()
        answer = self.acquire()
        made = self.log.enter(self.cycle, token=answer["token"], **place(answer))
        granted.set()
        looking.join()
        if self.mode == "hold":
            time.sleep(3600)
        self.log.work(self.hold_s)
        self.log.leave(self.cycle, made)
        self.call("DELETE", LOCK, session=self.session)

    def run(self):
        while self.cycle < self.cycles or not self.log.stopped:
            self.once()
            self.cycle += 1
        self.ended.set()
        self.call("DELETE", "/v1/sessions/" + self.session)
        self.log.say("done", self.cycle)


def place(answer):
    """The contender's own znode, if the answer names it."""
    node = answer.get("node") or answer.get("contender") or ""
    return {"node": node, "seq": int(node[-10:])} if node[-10:].isdigit() else {}


Caller(*sys.argv[1:]).run()
