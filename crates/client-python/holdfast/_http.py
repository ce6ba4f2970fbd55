"""HTTP/1.1 with connections that stay open, on the event loop of the engine.

Bounds: 64 idle connections to a node; a response body of 16 MiB. Proxies of the environment are not used.
"""

from __future__ import annotations

import asyncio
import ssl
import string
from collections import deque
from dataclasses import dataclass
from typing import Awaitable, Callable, Deque, Dict, List, Mapping, Optional, Tuple

from ._calls import Response
from ._within import within

_CONNECT_TIMEOUT = 1.0
#: A node closes an idle connection after 70 s.
_IDLE_MAX = 60.0
_IDLE_CONNECTIONS = 64
_BODY_MAX = 16 * 1024 * 1024
_READ = 64 * 1024
_HEADERS_MAX = 128
#: The pause before the next address of a name is tried, too: the first one may drop packets.
_NEXT_ADDRESS_AFTER = 0.25
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
        self._codings = _tokens(head.headers, "transfer-encoding")
        self._length = _content_length(head.headers)
        self._reader = reader
        self._writer = writer

    async def part(self) -> bytes:
        """The next part of a chunked body; empty at the end."""
        size = _chunk_size(await _line(self._reader))
        if size > _BODY_MAX:
            raise OSError("the answer is too large")
        if size == 0:
            await _read_headers(self._reader)
            return b""
        part = await self._reader.readexactly(size)
        if await _line(self._reader):
            raise ValueError("a chunk is longer than its size")
        return part

    async def body(self) -> bytes:
        """The whole body, whose end is that of RFC 9112."""
        if self._has_no_body:
            return b""
        if self._codings[-1:] == ["chunked"]:
            return await _joined(self.part)
        if self._codings or self._length is None:
            return await _joined(lambda: self._reader.read(_READ))
        if self._length > _BODY_MAX:
            raise OSError("the answer is too large")
        return await self._reader.readexactly(self._length)

    @property
    def persists(self) -> bool:
        """Whether the node keeps the connection open after the body.

        A body with both lengths may hide another answer, so the connection ends with it.
        """
        is_chunked = self._codings[-1:] == ["chunked"] and self._length is None
        ends_before = self._has_no_body or is_chunked or (not self._codings and self._length is not None)
        return ends_before and "close" not in _tokens(self.head.headers, "connection")

    @property
    def _has_no_body(self) -> bool:
        return self.head.status in (204, 304)

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
        self._keep(stream)
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
            is_open = not reader.at_eof() and not writer.is_closing()
            if is_open and now - idle.since < _IDLE_MAX and not _has_unread(reader):
                return idle.connection
            writer.close()
        host, port = self._address
        name = host if self._tls else None
        try:
            connecting = asyncio.open_connection(
                host, port, ssl=self._tls, server_hostname=name, happy_eyeballs_delay=_NEXT_ADDRESS_AFTER
            )
            return await within(_CONNECT_TIMEOUT, connecting, lambda made: made[1].close())
        except asyncio.TimeoutError:
            raise SendError("cannot connect: no answer in time", False) from None
        except (OSError, ValueError) as error:
            raise SendError(f"cannot connect: {_reason(error)}", False) from None

    def _keep(self, stream: Stream) -> None:
        reader, writer = stream.connection
        if not stream.persists or reader.at_eof() or len(self._idle) >= _IDLE_CONNECTIONS:
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


def _has_unread(reader: asyncio.StreamReader) -> bool:
    """Whether bytes have arrived after an answer, such as the answer to another process that shares the connection.

    The reader has no public method for this.
    """
    return bool(getattr(reader, "_buffer", b""))


async def _line(reader: asyncio.StreamReader) -> str:
    """The next line without its end."""
    line = await reader.readline()
    if not line.endswith(b"\n"):
        raise EOFError("the node closed the connection")
    return line.rstrip(b"\r\n").decode("latin-1")


async def _read_head(reader: asyncio.StreamReader) -> Response:
    while True:
        version, _, rest = (await _line(reader)).partition(" ")
        if not version.startswith("HTTP/1."):
            raise ValueError("the answer is no HTTP")
        status = _digits(rest[:3])
        if status < 100:
            raise ValueError("the answer has a status that HTTP does not have")
        headers = await _read_headers(reader)
        if version != "HTTP/1.1":
            # Before this version, an answer is the last one of its connection.
            headers["connection"] = "close"
        if status >= 200:
            return Response(status, headers)


async def _read_headers(reader: asyncio.StreamReader) -> Dict[str, str]:
    """Headers, or the lines after the last chunk. A repeated header is a list."""
    headers: Dict[str, str] = {}
    for _ in range(_HEADERS_MAX + 1):
        line = await _line(reader)
        if not line:
            return headers
        name, mark, value = line.partition(":")
        if not mark:
            raise ValueError("the answer has a header without a colon")
        name, value = name.strip().lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    raise ValueError("the answer has too many headers")


async def _joined(part: Callable[[], Awaitable[bytes]]) -> bytes:
    """All parts of a body."""
    body = bytearray()
    while received := await part():
        body += received
        if len(body) > _BODY_MAX:
            raise OSError("the answer is too large")
    return bytes(body)


def _tokens(headers: Mapping[str, str], name: str) -> List[str]:
    return [token.strip().lower() for token in headers.get(name, "").split(",") if token.strip()]


def _content_length(headers: Mapping[str, str]) -> Optional[int]:
    if "content-length" not in headers:
        return None
    lengths = {length.strip() for length in headers["content-length"].split(",")}
    if len(lengths) > 1:
        raise ValueError("the answer has two lengths")
    return _digits(lengths.pop())


def _chunk_size(line: str) -> int:
    text = line.partition(";")[0].rstrip()
    if not text or set(text) - set(string.hexdigits):
        raise ValueError("the answer has a malformed size of a chunk")
    return int(text, 16)


def _digits(text: str) -> int:
    """A number of digits alone: `int` accepts signs, spaces and `_`, too."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError("the answer has a malformed number")
    return int(text)


def _reason(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the node is not valid for this client: {error.verify_message}: give the CA as ca="
    if isinstance(error, asyncio.IncompleteReadError):
        return "the node closed the connection"
    return str(error) or type(error).__name__
