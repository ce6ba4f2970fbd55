"""A node over HTTP whose answers a test gives."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, List, Optional, Tuple

#: A status and a body, as JSON or as bytes; `None` closes the connection after the request. The header `Retry-After` has the whole seconds of
#: the fact `retry_after_ms`, as that of a node.
Answer = Optional[Tuple[int, Any]]

#: Answers that show by themselves that they are from another server.
PAGES = [(200, b"{}"), (200, b"[]"), (200, b"<html>Welcome</html>"), (200, b""), (404, b"<html>Not found</html>")]

SESSION = {"incarnation": 7, "expires_in_ms": 30000, "revision": 3, "holds": []}


class Node:
    """Answers each call by a function of its method and target. Without `has_all`, holds keepalives and opens sessions."""

    def __init__(self, answer: Callable[[str], Answer], has_all: bool = False) -> None:
        #: The method and the target of each call but keepalives.
        self.calls: List[str] = []
        #: The headers of each answer with a body.
        self.headers: Dict[str, str] = {}
        self._answer, self._has_all = answer, has_all
        self._over = threading.Event()
        node = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", "0")))
                answer = node._answer_to(f"{self.command} {self.path}")
                if answer is None:
                    self.close_connection = True
                    return
                is_end = self.command == "DELETE" and answer[0] == 200 and isinstance(answer[1], dict)
                body = answer[1] if isinstance(answer[1], bytes) else b"" if is_end else json.dumps(answer[1]).encode()
                self.send_response(204 if is_end else answer[0])
                if not is_end:
                    for name, value in {"content-length": str(len(body)), **node.headers}.items():
                        self.send_header(name, value)
                if not isinstance(answer[1], bytes) and "retry_after_ms" in answer[1]:
                    self.send_header("retry-after", str(answer[1]["retry_after_ms"] // 1000))
                self.end_headers()
                self.wfile.write(body)

            do_PUT = do_POST = do_DELETE = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def _answer_to(self, call: str) -> Answer:
        if self._has_all:
            return self._answer(call)
        if "/keepalive" in call:
            self._over.wait()
            return None
        self.calls.append(call)
        return (200, SESSION) if "/v1/sessions/" in call else self._answer(call)

    def count(self, part: str) -> int:
        """The number of calls with this text."""
        return sum(part in call for call in self.calls)

    def hold(self) -> Answer:
        """For an answer: waits until the test is over."""
        self._over.wait()
        return None

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
