"""kazoo over TLS: `kazoo_checks.py HOSTS HTTP CA CERT KEY TOKEN`. Prints one line for each check."""

import json
import logging
import ssl
import sys
import threading
import traceback
import urllib.error
import urllib.request

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import AuthFailedError, ConnectionClosedError, NoAuthError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.connection import _CONNECTION_DROP
from kazoo.recipe.lock import Lock

HOSTS, HTTP, CA, CERT, KEY, TOKEN = sys.argv[1:]


def client(token=None, certificate=False):
    auth = [("digest", f"ci:{token}")] if token else []
    own = {"certfile": CERT, "keyfile": KEY} if certificate else {}
    found = KazooClient(HOSTS, use_ssl=True, ca=CA, verify_certs=True, auth_data=auth, timeout=10.0, **own)
    found.start(timeout=20)
    return found


def http(method, target):
    """The status and the body of a call with the access token."""
    call = urllib.request.Request(f"https://{HTTP}{target}", method=method, headers={"Authorization": f"Bearer {TOKEN}"})
    try:
        with urllib.request.urlopen(call, context=ssl.create_default_context(cafile=CA), timeout=20) as reply:
            return reply.status, json.loads(reply.read() or b"{}")
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read())


def locked_beside_http(zookeeper, name):
    """kazoo's lock and an HTTP caller exclude each other."""
    with Lock(zookeeper, f"/locks/deploy/{name}", "kazoo"):
        status, body = http("PUT", f"/v1/locks/deploy/{name}?session=http")
        assert (status, body["code"]) == (423, "lock-busy"), (status, body)
    status, body = http("PUT", f"/v1/locks/deploy/{name}?session=http&wait=10s")
    assert status == 200 and body["token"] > 0, (status, body)
    assert not Lock(zookeeper, f"/locks/deploy/{name}", "kazoo").acquire(blocking=False)
    assert http("DELETE", f"/v1/locks/deploy/{name}?session=http")[0] == 204


def a_token_locks_beside_http():
    zookeeper = client(token=TOKEN)
    locked_beside_http(zookeeper, "token")
    zookeeper.stop()


def a_certificate_locks_beside_http():
    zookeeper = client(certificate=True)
    locked_beside_http(zookeeper, "certificate")
    zookeeper.stop()


def another_path_is_no_auth():
    zookeeper = client(token=TOKEN)
    for path in ("/locks/orders", "/cfg"):
        try:
            zookeeper.create(path, b"")
        except NoAuthError:
            continue
        raise AssertionError(f"{path} was created")
    zookeeper.stop()


def a_token_returns_to_its_session():
    """After a lost connection: the session id is that of the first response, which came before the credential."""
    zookeeper = client(token=TOKEN)
    zookeeper.ensure_path("/locks/deploy")
    path = zookeeper.create("/locks/deploy/mine-", b"", ephemeral=True, sequence=True)
    session = zookeeper.client_id
    lost, back = threading.Event(), threading.Event()

    def changed(state):
        if state == KazooState.SUSPENDED:
            lost.set()
        elif state == KazooState.CONNECTED and lost.is_set():
            back.set()

    zookeeper.add_listener(changed)
    zookeeper._call(_CONNECTION_DROP, zookeeper.handler.async_result())
    assert back.wait(20), "not connected again"
    assert zookeeper.client_id == session, (zookeeper.client_id, session)
    assert zookeeper.exists(path).ephemeralOwner == session[0]
    zookeeper.delete(path)
    zookeeper.stop()


def a_credential_after_the_connection_opens_the_session():
    zookeeper = client()
    zookeeper.add_auth("digest", f"ci:{TOKEN}")
    assert zookeeper.exists("/locks")
    zookeeper.stop()


def no_credential_is_no_auth():
    zookeeper = client()
    try:
        zookeeper.get_children("/locks")
    except NoAuthError:
        zookeeper.stop()
        return
    raise AssertionError("the children were read")


def a_wrong_token_is_auth_failed():
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logging.getLogger("kazoo.client").addHandler(handler)
    try:
        zookeeper = client(token=TOKEN[:-1] + ("A" if TOKEN[-1] != "A" else "B"))
        zookeeper.get_children("/locks")
    except (AuthFailedError, ConnectionClosedError, KazooTimeoutError):
        # kazoo closes the client after AUTH_FAILED. A call after that reports a closed connection. If `start` finds the
        # client closed, it reports a timeout.
        assert any("AUTH_FAILED" in message for message in messages), messages
        return
    raise AssertionError("a wrong access token was accepted")


failed = False
for check in (
    a_token_locks_beside_http,
    a_certificate_locks_beside_http,
    a_token_returns_to_its_session,
    a_credential_after_the_connection_opens_the_session,
    another_path_is_no_auth,
    no_credential_is_no_auth,
    a_wrong_token_is_auth_failed,
):
    try:
        check()
        print("ok", check.__name__)
    except Exception:
        failed = True
        traceback.print_exc()
        print("FAILED", check.__name__)
sys.exit(failed)
