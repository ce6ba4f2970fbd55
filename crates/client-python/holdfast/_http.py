"""HTTP/1.1 with connections that stay open, on the event loop of the engine.

Bounds: 64 idle connections to a node; a response body of 16 MiB. Proxies of the environment are not used.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from dataclasses import dataclass
from typing import Deque, Dict, Mapping, Optional, Tuple

from ._calls import Response
from ._within import within

_CONNECT_TIMEOUT = 1.0
#: A node closes an idle connection after 70 s.
_IDLE_MAX = 60.0
_IDLE_CONNECTIONS = 64
_BODY_MAX = 16 * 1024 * 1024
_HEADERS_MAX = 128
_USER_AGENT = "holdfast-python/0.1"

_Connection = Tuple[asyncio.StreamReader, asyncio.StreamWriter]


class SendError(Exception):
    """A request without an answer."""

    def __init__(self, reason: str, may_be_done: bool) -> None:
        super().__init__(reason)
        #: Whether the node may have received the request. If not, a retry is always safe.
        self.may_be_done = may_be_done


class Stream:
    """An answer whose body arrives in parts. Only its reader may close it."""

    def __init__(self, head: Response, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.head = head
        self._reader = reader
        self._writer = writer

    async def part(self) -> bytes:
        """The next part of a chunked body; empty at the end."""
        size = int((await self._reader.readline()).split(b";")[0].strip() or b"0", 16)
        if size > _BODY_MAX:
            raise OSError("the answer is too large")
        part = await self._reader.readexactly(size)
        await self._reader.readline()
        return part

    async def body(self) -> bytes:
        """The whole body."""
        headers = self.head.headers
        if self.head.status in (204, 304):
            return b""
        if "chunked" in headers.get("transfer-encoding", ""):
            body = b""
            while part := await self.part():
                body += part
                if len(body) > _BODY_MAX:
                    raise OSError("the answer is too large")
            return body
        length = int(headers.get("content-length", "0"))
        if not 0 <= length <= _BODY_MAX:
            raise OSError("the answer is too large")
        return await self._reader.readexactly(length)

    def close(self) -> None:
        self._writer.close()

    @property
    def connection(self) -> _Connection:
        return self._reader, self._writer


@dataclass
class _Idle:
    connection: _Connection
    since: float


class Node:
    """The connections to one node."""

    def __init__(self, scheme: str, host: str, port: int, tls: Optional[ssl.SSLContext]) -> None:
        self.base = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
        self._host_header = self.base.partition("://")[2]
        self._address = (host, port)
        self._tls = tls if scheme == "https" else None
        self._idle: Deque[_Idle] = deque()

    async def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, timeout: float
    ) -> Response:
        """Sends a request once and reads the whole answer."""
        written = asyncio.Event()
        try:
            return await within(timeout, self._exchange(method, target, headers, body, written))
        except asyncio.TimeoutError:
            raise SendError("no answer in time", written.is_set()) from None

    async def _exchange(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, written: asyncio.Event
    ) -> Response:
        stream = await self.open(method, target, headers, body, written)
        try:
            response = Response(stream.head.status, stream.head.headers, await stream.body())
        except (OSError, EOFError, ValueError) as error:
            stream.close()
            raise SendError(_reason(error), True) from None
        except BaseException:
            # An unread answer makes its connection useless.
            stream.close()
            raise
        self._keep(stream, response)
        return response

    async def open(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, written: Optional[asyncio.Event] = None
    ) -> Stream:
        """Sends a request and reads the head of the answer. The caller bounds the time. Sets `written` before it writes."""
        reader, writer = await self._connection()
        if written:
            written.set()
        try:
            writer.write(self._head(method, target, headers, body) + body)
            return Stream(await _read_head(reader), reader, writer)
        except asyncio.CancelledError:
            writer.close()
            raise
        except (OSError, EOFError, ValueError) as error:
            writer.close()
            raise SendError(_reason(error), True) from None

    def close(self) -> None:
        while self._idle:
            self._idle.pop().connection[1].close()

    async def _connection(self) -> _Connection:
        now = asyncio.get_running_loop().time()
        while self._idle:
            idle = self._idle.pop()
            reader, writer = idle.connection
            if now - idle.since < _IDLE_MAX and not reader.at_eof() and not writer.is_closing():
                return idle.connection
            writer.close()
        host, port = self._address
        name = host if self._tls else None
        try:
            connecting = asyncio.open_connection(host, port, ssl=self._tls, server_hostname=name)
            return await within(_CONNECT_TIMEOUT, connecting, lambda made: made[1].close())
        except asyncio.TimeoutError:
            raise SendError("cannot connect: no answer in time", False) from None
        except (OSError, ValueError) as error:
            raise SendError(f"cannot connect: {_reason(error)}", False) from None

    def _keep(self, stream: Stream, response: Response) -> None:
        reader, writer = stream.connection
        is_last = response.headers.get("connection", "").lower() == "close" or reader.at_eof()
        if is_last or len(self._idle) >= _IDLE_CONNECTIONS:
            return writer.close()
        self._idle.append(_Idle((reader, writer), asyncio.get_running_loop().time()))

    def _head(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> bytes:
        lines = [f"{method} {target} HTTP/1.1", f"host: {self._host_header}", f"user-agent: {_USER_AGENT}"]
        lines.extend(f"{name}: {value}" for name, value in headers.items())
        if body or method not in ("GET", "HEAD"):
            lines.append(f"content-length: {len(body)}")
        head = "\r\n".join(lines)
        if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1:
            raise ValueError("a header has a line break")
        return head.encode("latin-1") + b"\r\n\r\n"


async def _read_head(reader: asyncio.StreamReader) -> Response:
    while True:
        line = await reader.readline()
        if not line.endswith(b"\n"):
            raise EOFError("the node closed the connection")
        version, _, rest = line.decode("latin-1").partition(" ")
        if not version.startswith("HTTP/1."):
            raise ValueError("the answer is no HTTP")
        status = int(rest[:3])
        headers = await _read_headers(reader)
        if status >= 200:
            return Response(status, headers)


async def _read_headers(reader: asyncio.StreamReader) -> Dict[str, str]:
    headers: Dict[str, str] = {}
    for _ in range(_HEADERS_MAX):
        line = await reader.readline()
        if line in (b"\r\n", b"\n"):
            return headers
        if not line.endswith(b"\n"):
            raise EOFError("the node closed the connection")
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    raise ValueError("the answer has too many headers")


def _reason(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the node is not valid for this client: {error.verify_message}: give the CA as ca="
    if isinstance(error, asyncio.IncompleteReadError):
        return "the node closed the connection"
    return str(error) or type(error).__name__
