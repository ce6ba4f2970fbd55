"""Locks, guards and recipes of the blocking API on a real cluster."""

from __future__ import annotations

import gc
import threading
import time
import uuid
from typing import Iterator, List

import holdfast
import pytest
from conftest import Cluster


@pytest.fixture
def hf(cluster: Cluster) -> Iterator[holdfast.Client]:
    with holdfast.Client(cluster.addresses, ttl=15) as client:
        yield client


@pytest.fixture
def other(cluster: Cluster) -> Iterator[holdfast.Client]:
    with holdfast.Client(cluster.addresses, ttl=15, labels={"host": "web2"}) as client:
        yield client


@pytest.fixture
def name() -> str:
    return f"python/{uuid.uuid4()}"


def run(work: "threading.Thread") -> "threading.Thread":
    work.start()
    return work


def test_a_lock_has_one_holder_and_growing_tokens(hf: holdfast.Client, other: holdfast.Client, name: str) -> None:
    with other.lock(name) as guard:
        guard.ensure()
        assert 0 < guard.remaining() <= 15
        with pytest.raises(holdfast.Busy) as busy:
            hf.lock(name, wait=0).acquire()
        assert busy.value.holder and busy.value.holder["labels"] == {"host": "web2"}
        assert busy.value.code == "lock-busy" and busy.value.request_id and busy.value.hint
    with hf.lock(name) as later:
        assert later.token > guard.token
        assert later.headers() == {"Fencing-Token": f'{later.token}; resource="{name}"'}
    with pytest.raises(holdfast.Lost):
        later.ensure()


def test_a_wait_ends_and_leaves_the_queue(hf: holdfast.Client, name: str) -> None:
    with hf.lock(name):
        began = time.monotonic()
        with pytest.raises(holdfast.Busy) as busy:
            hf.lock(name, wait=0.5).acquire()
        assert 0.4 < time.monotonic() - began < 8
        assert busy.value.code == "wait-timeout"
        assert hf.lock_state(name)["waiters"] == 0


def test_waiters_get_the_lock_in_turn(hf: holdfast.Client, other: holdfast.Client, name: str) -> None:
    order: List[int] = []

    def wait(index: int) -> None:
        with other.lock(name, wait=20):
            order.append(index)

    with hf.lock(name):
        threads = []
        for index in range(4):
            threads.append(run(threading.Thread(target=wait, args=(index,))))
            while hf.lock_state(name)["waiters"] <= index:
                time.sleep(0.02)
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3]


def test_one_lock_object_serves_many_threads(hf: holdfast.Client, name: str) -> None:
    lock, inside, seen = hf.lock(name, wait=30), [0], []

    def work() -> None:
        for _ in range(5):
            with lock as guard:
                inside[0] += 1
                seen.append((inside[0], guard.token))
                inside[0] -= 1

    threads = [run(threading.Thread(target=work)) for _ in range(6)]
    for thread in threads:
        thread.join()
    assert {count for count, _ in seen} == {1}
    assert len({token for _, token in seen}) == 30
    assert [token for _, token in seen] == sorted(token for _, token in seen)


def test_a_session_is_renewed_beyond_its_ttl(hf: holdfast.Client, name: str) -> None:
    with hf.lock(name, ttl=3) as guard:
        time.sleep(4.5)
        guard.ensure()
        assert guard.remaining() > 0


def test_a_forced_release_is_reported_at_once(hf: holdfast.Client, other: holdfast.Client, name: str) -> None:
    guard = hf.lock(name).acquire()
    began = time.monotonic()
    assert other.force_release(name, "it burnt down") == 1
    loss = guard.lost.wait(9)
    assert loss == holdfast.Loss("force-released", "it burnt down")
    assert time.monotonic() - began < 8
    with pytest.raises(holdfast.Lost) as lost:
        guard.ensure()
    assert (lost.value.cause, lost.value.lock, lost.value.token) == ("force-released", name, guard.token)
    with pytest.raises(holdfast.Lost):
        guard.release()
    guard.release()


def test_a_body_with_a_lost_guard_raises_or_attaches_the_loss(hf: holdfast.Client, name: str) -> None:
    with pytest.raises(holdfast.Lost):
        with hf.lock(name) as guard:
            hf.force_release(name, "test")
            guard.lost.wait(9)
    with pytest.raises(KeyError) as error:
        with hf.lock(name) as guard:
            hf.force_release(name, "test")
            guard.lost.wait(9)
            raise KeyError("mine")
    assert isinstance(error.value.__context__, holdfast.Lost)


def test_a_release_request_reaches_the_holder_and_revokes(hf: holdfast.Client, name: str) -> None:
    guard = hf.lock(name).acquire()
    assert hf.request_release(name, "maintenance", deadline=4, revoke=True) == 1
    request = guard.release_requested.wait(9)
    assert request and (request.reason, request.revoke) == ("maintenance", True)
    guard.ensure()
    assert guard.lost.wait(12) == holdfast.Loss("revoked", "maintenance")
    with hf.lock(name, wait=5):
        pass


def test_limits_of_a_hold(hf: holdfast.Client, name: str) -> None:
    guard = hf.lock(name, max_hold=1).acquire()
    assert guard.lost.wait(9) == holdfast.Loss("max-hold-exceeded", "max_hold is 1s")
    stalled = hf.lock(name, wait=5, progress_timeout=0.6).acquire()
    for _ in range(3):
        time.sleep(0.3)
        stalled.report_progress()
    loss = stalled.lost.wait(9)
    assert loss and loss.cause == "stalled"
    with pytest.raises(holdfast.Lost):
        stalled.report_progress()
    with hf.lock(name, wait=5, min_hold=1):
        pass
    with pytest.raises(holdfast.Busy) as busy:
        hf.lock(name, wait=0).acquire()
    assert busy.value.code == "lock-in-cooldown"


def test_an_owner_enters_its_own_hold(hf: holdfast.Client, name: str) -> None:
    first = hf.lock(name, owner="importer").acquire()
    second = hf.lock(name, owner="importer", wait=0).acquire()
    third = first.reenter()
    assert first.token == second.token == third.token
    with pytest.raises(holdfast.Rejected):
        hf.lock(name, owner="importer", reentrant=False, wait=0).acquire()
    first.release()
    second.release()
    third.ensure()
    third.release()
    assert not hf.lock_state(name)["held"]


def test_a_lock_is_free_after_both_releases_although_one_guard_of_its_owner_upgraded_it(
    hf: holdfast.Client, other: holdfast.Client, name: str
) -> None:
    lock = hf.lock(name, owner="importer", mode="upgradable", ttl=3)
    first, second = lock.acquire(), lock.acquire()
    # Without it, the session could end, and free the lock, before the other client acquires it.
    third = hf.lock(f"{name}-third", ttl=3).acquire()
    first.upgrade(5)
    second.ensure()
    assert second.token == first.token
    second.release()
    first.release()
    other.lock(name, wait=20).acquire().release()
    third.release()


def test_modes(hf: holdfast.Client, name: str) -> None:
    reader = hf.lock(name, mode="shared").acquire()
    editor = hf.lock(name, mode="upgradable", wait=0).acquire()
    with pytest.raises(holdfast.Busy):
        editor.upgrade(0.3)
    assert editor.mode == "upgradable"
    editor.ensure()
    old = editor.token
    threading.Timer(0.3, reader.release).start()
    assert editor.upgrade(5) > old
    assert editor.mode == "exclusive"
    token = editor.token
    editor.downgrade("shared")
    assert (editor.mode, editor.token) == ("shared", token)
    with pytest.raises(holdfast.InvalidArgument):
        editor.downgrade("upgradable")
    editor.release()


def test_a_semaphore(hf: holdfast.Client, name: str) -> None:
    two = hf.semaphore(name, 3, permits=2).acquire()
    with hf.semaphore(name, 3, wait=0) as one:
        assert sorted([*two.slots, *one.slots]) == [0, 1, 2]
        with pytest.raises(holdfast.Busy):
            hf.semaphore(name, 3, wait=0).acquire()
    two.release_permits(1)
    assert two.permits == 1 and len(two.slots) == 1
    with pytest.raises(holdfast.InvalidArgument):
        two.release_permits(1)
    two.release()


def test_several_locks_all_or_none(hf: holdfast.Client, name: str) -> None:
    names = [f"{name}/a", f"{name}/b"]
    with hf.lock(names[0]):
        with pytest.raises(holdfast.Busy):
            hf.lock_many(names, wait=0).acquire()
        assert not hf.lock_state(names[1])["held"]
    with hf.lock_many(names, wait=5) as guard:
        assert set(guard.tokens) == set(names)
        assert guard.headers(names[0])["Fencing-Token"].startswith(str(guard.tokens[names[0]]))
        guard.ensure()
    assert not hf.lock_state(names[0])["held"]


def test_a_deadlock_is_rejected(hf: holdfast.Client, name: str) -> None:
    first, second = hf.lock(f"{name}/1", owner="x").acquire(), hf.lock(f"{name}/2", owner="y").acquire()
    waiting = run(threading.Thread(target=lambda: hf.lock(f"{name}/2", owner="x", wait=9).acquire().release()))
    while not hf.lock_state(f"{name}/2")["waiters"]:
        time.sleep(0.02)
    with pytest.raises(holdfast.Rejected) as rejected:
        hf.lock(f"{name}/1", owner="y", wait=9).acquire()
    assert rejected.value.code == "deadlock" and not rejected.value.retryable
    second.release()
    waiting.join()
    first.release()


def test_an_interrupted_acquire_leaves_the_queue(hf: holdfast.Client, name: str) -> None:
    with hf.lock(name):
        future = hf._submit(lambda core: core.acquire(hf.lock(name)._request))
        while not hf.lock_state(name)["waiters"]:
            time.sleep(0.02)
        hf._give_up(future)
        until = time.monotonic() + 5
        while hf.lock_state(name)["waiters"]:
            assert time.monotonic() < until
            time.sleep(0.02)


def test_a_dropped_guard_releases(hf: holdfast.Client, name: str) -> None:
    with pytest.warns(ResourceWarning):
        hf.lock(name).acquire()
        gc.collect()
    with hf.lock(name, wait=9):
        pass


def test_every_allowed_name(hf: holdfast.Client, name: str) -> None:
    for strange in ("a b", "ü/é", "q?x=1&y", "100%", "#", "+;:@", "'\"\\", "日本/🔒", "x" * 400):
        with hf.lock(f"{name}/{strange}", wait=0) as guard:
            assert guard.lock == f"{name}/{strange}"
        with hf.election(f"{name}/{strange}").campaign("v") as leadership:
            assert leadership.lock == f"elections/{name}/{strange}"


def test_an_election(hf: holdfast.Client, other: holdfast.Client, name: str) -> None:
    observer = other.election(name).observe()
    assert observer.next() is None
    with hf.election(name).campaign("10.0.0.7") as leadership:
        leader = observer.next()
        assert leader == holdfast.Leader(leadership.session, leadership.token, "10.0.0.7")
        with pytest.raises(holdfast.Busy):
            other.election(name).campaign("me", wait=0)
        leadership.proclaim("10.0.0.8")
        changed = observer.next()
        assert isinstance(changed, holdfast.Leader) and changed.value == "10.0.0.8"
        assert other.election(name).leader() == changed
    assert observer.next() is None
    observer.close()


def test_latches_and_counters(hf: holdfast.Client, name: str) -> None:
    latch = hf.latch(name)
    assert latch.create(2) == 2
    assert latch.count_down("eu") == latch.count_down("eu") == 1
    with pytest.raises(holdfast.Busy):
        latch.wait(0.2)
    threading.Timer(0.2, lambda: latch.count_down("us")).start()
    latch.wait(5)
    latch.delete()
    counter = hf.counter(name)
    assert counter.get().value == 0
    assert counter.add(5).value == 5
    changed = counter.add(-2)
    with pytest.raises(holdfast.Rejected):
        counter.set(9, version=changed.version + 1)
    assert counter.set(9, version=changed.version).value == 9
    counter.delete()
    assert counter.get().value == 0


def test_barriers(hf: holdfast.Client, name: str) -> None:
    rounds: List[int] = []

    def arrive() -> None:
        rounds.append(hf.barrier(name, 2).wait(10).index)

    threads = [run(threading.Thread(target=arrive)) for _ in range(2)]
    for thread in threads:
        thread.join()
    assert sorted(rounds) == [0, 1]
    with pytest.raises(holdfast.Busy):
        hf.barrier(name, 2).wait(0.2)
    inside: List[str] = []

    def enter() -> None:
        party = hf.double_barrier(name, 2)
        party.enter(10)
        inside.append("in")
        party.leave(10)
        inside.append("out")

    threads = [run(threading.Thread(target=enter)) for _ in range(2)]
    for thread in threads:
        thread.join()
    assert inside == ["in", "in", "out", "out"]


def test_the_tree_and_its_changes(hf: holdfast.Client, name: str) -> None:
    assert hf.tree_get(name) is None
    watch = hf.watch(f"/{name}")
    watch.start()
    assert hf.tree_put(name, "one", parents=True, create=True) == 0
    with pytest.raises(holdfast.Rejected) as exists:
        hf.tree_put(name, "one", create=True)
    assert exists.value.code == "znode-exists"
    assert hf.tree_put(name, b"two", version=0) == 1
    with pytest.raises(holdfast.Rejected) as mismatch:
        hf.tree_put(name, "three", version=0)
    assert mismatch.value.code == "version-mismatch"
    assert hf.tree_get(name) == holdfast.Znode(b"two", 1)
    assert hf.tree_delete(name, version=1) == 1
    kinds = [change.kind for change in (watch.next(), watch.next(), watch.next()) if isinstance(change, holdfast.Change)]
    assert kinds == ["created", "changed", "deleted"]


def test_a_watch_reports_a_gap(hf: holdfast.Client) -> None:
    change = hf.watch("/", since=0).next()
    assert isinstance(change, (holdfast.Gap, holdfast.Change))


def test_a_named_session_outlives_the_client(cluster: Cluster, hf: holdfast.Client, name: str) -> None:
    session = f"named-{uuid.uuid4()}"
    named = holdfast.Client(cluster.addresses, session=session, ttl=5)
    guard = named.lock(name, owner="me").acquire()
    assert guard.session == session
    with pytest.raises(holdfast.InvalidArgument):
        named.lock(name, ttl=9).acquire()
    guard.release()
    named.close()
    with holdfast.Client(cluster.addresses, session=session) as again:
        with again.lock(name) as guard:
            assert guard.session == session


def test_closing_ends_the_holds_and_the_waits(cluster: Cluster, hf: holdfast.Client, name: str) -> None:
    client = holdfast.Client(cluster.addresses)
    guard = client.lock(name).acquire()
    client.close()
    loss = guard.lost.wait(1)
    assert loss and loss.cause == "session-ended"
    with pytest.raises(holdfast.Lost):
        guard.release()
    with pytest.raises(holdfast.InvalidArgument):
        client.lock(name).acquire()
    with hf.lock(name, wait=2):
        pass


def test_metrics(cluster: Cluster, name: str) -> None:
    seen: List[str] = []

    class Recorder(holdfast.Metrics):
        def acquired(self, lock: str, waited: float) -> None:
            seen.append(f"acquired {lock}")

        def lost(self, lock: str, cause: str) -> None:
            seen.append(f"lost {cause}")

        def released(self, lock: str, held: float) -> None:
            seen.append(f"released {lock}" if held > 0 else "no time")

        def renewed(self, session: str, acknowledged: bool) -> None:
            seen.append(f"renewed {acknowledged}")

    with holdfast.Client(cluster.addresses, ttl=3, metrics=Recorder()) as client:
        guard = client.lock(name).acquire()
        time.sleep(2)
        client.force_release(name, "test")
        guard.lost.wait(9)
        client.lock_many([f"{name}-a", f"{name}-b"]).acquire().release()
    assert [f"acquired {name}", f"acquired {name}-a", f"acquired {name}-b"] == [one for one in seen if "acquired" in one]
    assert [f"released {name}-a", f"released {name}-b"] == [one for one in seen if "released" in one and "force" not in one]
    assert "renewed True" in seen and "lost force-released" in seen


def test_no_node_answers(name: str) -> None:
    with holdfast.Client("127.0.0.1:9", request_timeout=0.5) as nobody:
        began = time.monotonic()
        with pytest.raises(holdfast.Unavailable):
            nobody.lock(name).acquire()
        assert time.monotonic() - began < 3


def test_a_durable_hold_outlasts_its_client(cluster: Cluster) -> None:
    name = f"durable/{uuid.uuid4()}"
    with holdfast.Client(cluster.addresses) as hf:
        token = hf.hold_durably(name, "carol", "moving to v2")
    with holdfast.Client(cluster.addresses) as hf:
        assert hf.hold_durably(name, "carol", "moving to v2") == token, "the owner names the hold"
        with pytest.raises(holdfast.Busy):
            hf.hold_durably(name, "dave", "a freeze", wait=0.1)
        hf.release_durable(name, "carol", token + 1)
        with pytest.raises(holdfast.Busy):
            hf.lock(name, wait=0).acquire()
        hf.release_durable(name, "carol", token)
        hf.release_durable(name, "carol", token)
        with hf.lock(name, wait=0) as guard:
            assert guard.token > token
