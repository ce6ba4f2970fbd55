"""TLS with a private CA, and access tokens, on a real cluster."""

from __future__ import annotations

import json
import logging
import ssl
import threading
import time
import urllib.request
from pathlib import Path
from typing import Dict, Iterator

import holdfast
import pytest
from conftest import Cluster, start


@pytest.fixture(scope="module")
def secure() -> Iterator[Cluster]:
    running = start("--secure")
    yield running
    running.stop()


def exported(cluster: Cluster) -> Dict[str, str]:
    pairs = (line[len("export ") :].split("=", 1) for line in cluster.lines if line.startswith("export "))
    return {name: value for name, value in pairs}


def operate(cluster: Cluster, method: str, path: str) -> Dict[str, str]:
    """A call of the administrator."""
    environment = exported(cluster)
    token = Path(environment["HOLDFAST_ACCESS_TOKEN_FILE"]).read_text().split()[-1]
    headers = {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"https://127.0.0.1:{cluster.ports[0]}{path}", method=method, headers=headers)
    context = ssl.create_default_context(cafile=environment["HOLDFAST_CACERT"])
    with urllib.request.urlopen(request, context=context, timeout=20) as answer:
        found: Dict[str, str] = json.loads(answer.read() or b"{}")
        return found


def test_a_private_ca_and_an_access_token(secure: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    environment = exported(secure)
    ca, file = environment["HOLDFAST_CACERT"], environment["HOLDFAST_ACCESS_TOKEN_FILE"]
    with caplog.at_level(logging.DEBUG), holdfast.Client(secure.addresses, ca=ca, access_token_file=file) as hf:
        with hf.lock("orders", wait=20) as guard:
            guard.ensure()
            assert repr(hf).startswith("<holdfast.client.Client of https://")
    secret = Path(file).read_text().split()[-1]
    assert caplog.text and secret not in caplog.text


def test_an_unknown_ca_and_a_missing_token(secure: Cluster) -> None:
    ca = exported(secure)["HOLDFAST_CACERT"]
    nodes = [f"https://{address}" for address in secure.addresses]
    with holdfast.Client(nodes, request_timeout=3) as stranger:
        with pytest.raises(holdfast.Unavailable, match="certificate"):
            stranger.lock("orders").acquire()
    with holdfast.Client(nodes, ca=ca) as nobody:
        with pytest.raises(holdfast.Rejected) as rejected:
            nobody.lock("orders").acquire()
        assert rejected.value.code == "unauthenticated"
    with holdfast.Client(secure.addresses, request_timeout=2) as plain:
        with pytest.raises(holdfast.Error):
            plain.lock("orders").acquire()
    with pytest.raises(holdfast.InvalidArgument):
        holdfast.Client(nodes, ca="/does/not/exist")


def test_another_program_replaces_the_token(secure: Cluster, tmp_path: Path) -> None:
    operate(secure, "PUT", "/v1/auth/roles/locker?permission=lock+acquire+rotated/*")
    operate(secure, "PUT", "/v1/auth/subjects/job?role=locker")
    first = operate(secure, "POST", "/v1/auth/tokens?subject=job")
    file = tmp_path / "token"
    file.write_text(first["token"])
    ca = exported(secure)["HOLDFAST_CACERT"]
    with holdfast.Client(secure.addresses, ca=ca, access_token_file=file, ttl=10) as hf:
        with hf.lock("rotated/a", wait=20) as guard:
            second = operate(secure, "POST", "/v1/auth/tokens?subject=job")

            def replace() -> None:
                operate(secure, "DELETE", f"/v1/auth/tokens/{first['id']}")
                time.sleep(1)
                file.write_text(second["token"])

            thread = threading.Thread(target=replace)
            thread.start()
            thread.join()
            with hf.lock("rotated/b", wait=20):
                pass
            time.sleep(10)
            guard.ensure()
