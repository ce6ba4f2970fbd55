"""A socket for a program that must start and stop members itself: one JSON line asks, one answers.

Owns a Unix socket beside the ensemble and one thread, which serves one call at a time; no queue but the socket's.
"""

import json
import socketserver
import threading

SOCKET = "control.sock"


class Control:
    """Serves an ensemble until `close`."""

    def __init__(self, ensemble):
        self.ensemble = ensemble
        self.path = str(ensemble.directory / SOCKET)
        self._lock = threading.Lock()
        control = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                for line in self.rfile:
                    self.wfile.write(json.dumps(control.answer(line)).encode() + b"\n")

        self._server = socketserver.ThreadingUnixStreamServer(self.path, Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True, name="control").start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def answer(self, line):
        """Does what was asked; an error is an answer too."""
        try:
            call = json.loads(line)
            return {"ok": getattr(self, "do_" + call["do"])(**call.get("with", {}))}
        except Exception as error:  # the caller gets it
            return {"error": f"{type(error).__name__}: {error}"}

    def do_members(self):
        return [{"number": member.number, "address": member.address} for member in self.ensemble.members]

    def do_running(self, member):
        return self.ensemble.members[member].running

    # Two members may be stopped at the same time, so nothing locks here.
    def do_stop(self, member):
        self.ensemble.members[member].stop()

    def do_run(self, member):
        self.ensemble.members[member].run()

    def do_kill(self, member):
        self.ensemble.members[member].kill()

    def do_start(self):
        with self._lock:
            self.ensemble.start()

    def do_reset(self):
        with self._lock:
            self.ensemble.reset()

    def do_switch(self, local_sessions, sasl):
        with self._lock:
            self.ensemble.switch(local_sessions, sasl)

    def do_logs(self, lines):
        return [f"{member.number}: {line}" for member in self.ensemble.members for line in member.logs(lines)]
