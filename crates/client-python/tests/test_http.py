"""Answers of HTTP/1, whole, cut off and malformed, and the connections that carry them."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import Any, AsyncIterator, Callable, Coroutine, List, Optional, Tuple

import pytest
from holdfast._http import Node, SendError

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def served(serve: Serve) -> AsyncIterator[Node]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    node = Node("http", "127.0.0.1", server.sockets[0].getsockname()[1], None)
    yield node
    node.close()
    server.close()


def answered(answer: str, ends: bool = False) -> Tuple[Optional[bytes], bool]:
    """The body that the client reads, or `None`, and whether it keeps the connection. With `ends`, the node closes it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer.replace("\n", "\r\n").encode())
        if ends:
            writer.close()
        else:
            await reader.read()
            writer.close()

    async def run() -> Tuple[Optional[bytes], bool]:
        async with served(serve) as node:
            try:
                body: Optional[bytes] = (await node.send("GET", "/", {}, b"", 2.0)).body
            except SendError as error:
                assert error.may_be_done and "in time" not in str(error), error
                body = None
            return body, bool(vars(node)["_idle"])

    return asyncio.run(run())


@pytest.mark.parametrize(
    "answer, body, persists",
    [
        ("HTTP/1.1 200 OK\ncontent-length: 4\n\nbody", b"body", True),
        ("HTTP/1.1 200 OK\ncontent-length: 4\ncontent-length: 4\n\nbody", b"body", True),
        ("HTTP/1.1 200 OK\ncontent-length: 4\nconnection: keep-alive, Close\n\nbody", b"body", False),
        ("HTTP/1.1 200 OK\ntransfer-encoding: chunked\n\n4\nbody\n0\n\n", b"body", True),
        ("HTTP/1.1 200 OK\ntransfer-encoding: chunked\n\n4;a=b\nbody\n0\nx: y\n\n", b"body", True),
        ("HTTP/1.1 200 OK\ntransfer-encoding: chunked\ncontent-length: 9\n\n4\nbody\n0\n\n", b"body", False),
        ("HTTP/1.0 200 OK\ncontent-length: 4\n\nbody", b"body", False),
        ("HTTP/1.1 204 No Content\n\n", b"", True),
    ],
)
def test_the_end_of_a_body_follows_from_the_headers(answer: str, body: bytes, persists: bool) -> None:
    assert answered(answer) == (body, persists)


@pytest.mark.parametrize("headers", ["", "transfer-encoding: gzip\ncontent-length: 2\n"])
def test_a_body_without_a_length_ends_with_the_connection(headers: str) -> None:
    assert answered(f"HTTP/1.1 200 OK\n{headers}\nall of it", ends=True) == (b"all of it", False)


CHUNKED = "4\nbody\n5\n more\n0\nx: y\n\n"


@pytest.mark.parametrize("cut", range(len(CHUNKED)))
def test_a_cut_off_chunked_body_is_no_answer(cut: int) -> None:
    assert answered(f"HTTP/1.1 200 OK\ntransfer-encoding: chunked\n\n{CHUNKED[:cut]}", ends=True) == (None, False)


@pytest.mark.parametrize(
    "chunk",
    ["x\n", "-1\n", "+1\na\n0\n\n", "1_0\n0123456789abcdef\n0\n\n", "\n", ";x\n", "1\nab\n0\n\n", "fffffffffffffffff\n"],
)
def test_a_malformed_chunk_is_no_answer(chunk: str) -> None:
    assert answered(f"HTTP/1.1 200 OK\ntransfer-encoding: chunked\n\n{chunk}") == (None, False)


@pytest.mark.parametrize(
    "head",
    [
        "SSH-2.0-OpenSSH_9.2\n",
        "HTTP/1.1 200 OK\ncontent-length: -1\n\n",
        "HTTP/1.1 200 OK\ncontent-length: +5\n\nbody+",
        "HTTP/1.1 200 OK\ncontent-length: 1_0\n\n0123456789",
        "HTTP/1.1 200 OK\ncontent-length: 5\ncontent-length: 6\n\nbody+",
        "HTTP/1.1 099 What\ncontent-length: 0\n\n",
        "HTTP/1.1 200 OK\nno colon\n\n",
    ],
)
def test_what_is_no_answer_is_an_error(head: str) -> None:
    assert answered(head) == (None, False)


def test_a_connection_with_unread_bytes_is_not_used_again() -> None:
    connections: List[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none")
        await writer.drain()
        await more.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfalse")
        await reader.read()
        writer.close()

    async def run() -> None:
        global more
        more = asyncio.Event()
        async with served(serve) as node:
            assert (await node.send("GET", "/", {}, b"", 2.0)).body == b"one"
            more.set()
            reader = vars(node)["_idle"][0].connection[0]
            while not vars(reader)["_buffer"]:
                await asyncio.sleep(0.01)
            more.clear()
            assert (await node.send("GET", "/", {}, b"", 2.0)).body == b"one"
            more.set()

    asyncio.run(run())
    assert len(connections) == 2


more: asyncio.Event


def test_an_address_that_drops_packets_does_not_hide_the_next_one() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    async def run() -> bytes:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        # The system drops a connection to a socket whose queue is full.
        full = socket.create_server(("127.0.0.2", port), backlog=0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.2", port))

        async def both(*_: object, **__: object) -> List[Any]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in ("127.0.0.2", "127.0.0.1")]

        asyncio.get_running_loop().getaddrinfo = both  # type: ignore[method-assign]
        try:
            return (await Node("http", "two.test", port, None).send("GET", "/", {}, b"", 5.0)).body
        finally:
            server.close()
            for one in (full, *fillers):
                one.close()

    assert asyncio.run(run()) == b"ok"
