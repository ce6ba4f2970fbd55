"""Transfers of a hold, sharded locks and groups."""

from __future__ import annotations

import threading
import time
import uuid
from typing import Dict, Iterator, List

import holdfast
import pytest
from conftest import Cluster


@pytest.fixture
def hf(cluster: Cluster) -> Iterator[holdfast.Client]:
    with holdfast.Client(cluster.addresses, ttl=15) as client:
        yield client


@pytest.fixture
def other(cluster: Cluster) -> Iterator[holdfast.Client]:
    with holdfast.Client(cluster.addresses, ttl=15) as client:
        yield client


@pytest.fixture
def name() -> str:
    return f"python/{uuid.uuid4()}"


def test_the_receiver_holds_the_lock_with_a_new_token(hf: holdfast.Client, other: holdfast.Client, name: str) -> None:
    with other.open_session() as session:
        with hf.lock(name) as guard:
            token = guard.transfer(session.name)
            assert token > guard.token
            with pytest.raises(holdfast.Lost) as lost:
                guard.ensure()
            assert lost.value.cause == "transferred"
            assert guard.lost.get() is None, "the program has given the lock away, so the end is no loss"
        received = other.lock(name, wait=10).receive_transfer()
    assert (received.token, received.lock, received.mode) == (token, name, "exclusive")
    received.ensure()
    with pytest.raises(holdfast.Busy):
        hf.lock(name, wait=0).acquire()
    received.release()
    assert hf.lock_state(name)["holders"] == []


def test_a_waiter_of_the_receiver_is_granted_before_the_queue(hf: holdfast.Client, other: holdfast.Client, name: str) -> None:
    granted: List[str] = []

    def wait(client: holdfast.Client, owner: str) -> None:
        with client.lock(name, owner=owner, wait=20):
            granted.append(owner)

    with other.open_session() as session:
        guard = hf.lock(name).acquire()
        threads = []
        for index, owner in enumerate(["first", "heir"]):
            threads.append(threading.Thread(target=wait, args=(other, owner)))
            threads[-1].start()
            while hf.lock_state(name)["waiters"] <= index:
                time.sleep(0.02)
        guard.transfer(session.name, "heir")
        for thread in threads:
            thread.join()
    assert granted == ["heir", "first"]


def test_a_refused_transfer_leaves_the_lock(hf: holdfast.Client, name: str) -> None:
    with hf.lock(name) as guard:
        with pytest.raises(holdfast.InvalidArgument, match="is not open"):
            guard.transfer("nobody-is-there")
        guard.ensure()
        with pytest.raises(holdfast.InvalidArgument):
            guard.transfer("")
        with guard.reenter():
            with pytest.raises(holdfast.InvalidArgument, match="entered again"):
                guard.transfer("nobody-is-there")
        assert [holder["token"] for holder in hf.lock_state(name)["holders"]] == [guard.token]


def test_no_transfer_is_busy_and_acquires_nothing(hf: holdfast.Client, name: str) -> None:
    with pytest.raises(holdfast.Busy) as busy:
        hf.lock(name, wait=0.3).receive_transfer()
    assert busy.value.code == "not-yet"
    assert hf.lock_state(name)["holders"] == []


def test_each_shard_is_a_separate_lock(hf: holdfast.Client, name: str) -> None:
    guards = [hf.lock(name, shards=3, wait=0).acquire() for _ in range(3)]
    assert sorted(guard.lock for guard in guards) == [f"{name}/{shard}" for shard in range(3)]
    assert sorted(guard.shard or 0 for guard in guards) == [0, 1, 2]
    with pytest.raises(holdfast.Busy):
        hf.lock(name, shards=3, wait=0).acquire()
    second = next(guard for guard in guards if guard.shard == 1)
    second.release()
    with hf.lock(name, shards=3, shard=1, mode="upgradable", wait=0) as again:
        assert again.upgrade(wait=5) > second.token
        again.ensure()
    for guard in guards:
        guard.release()
    with pytest.raises(holdfast.InvalidArgument):
        hf.lock_many([name, f"{name}-b"], shards=3)


def test_a_group_lists_its_members_until_they_leave(hf: holdfast.Client, other: holdfast.Client, name: str) -> None:
    group, seen = hf.group(name), other.group(name).watch()
    assert seen.next() == {} == group.members()
    with group.join("10.0.0.1:80") as one:
        assert seen.next() == {one.session: "10.0.0.1:80"}
        one.set_value("10.0.0.1:81")
        assert seen.next() == {one.session: "10.0.0.1:81"}
        two = other.group(name).join("10.0.0.2:80")
        expected: Dict[str, str] = {one.session: "10.0.0.1:81", two.session: "10.0.0.2:80"}
        assert seen.next() == expected == group.members()
        hf.group(f"{name}/eu").join("of another group").leave()
        assert group.members() == expected
    assert seen.next() == {two.session: "10.0.0.2:80"}
    two.leave()
    two.leave()
    assert seen.next() == {}
    with pytest.raises(holdfast.Lost):
        one.ensure()


def test_the_end_of_a_session_ends_its_membership(cluster: Cluster, hf: holdfast.Client, name: str) -> None:
    with holdfast.Client(cluster.addresses) as third:
        third.group(name).join("x")
        assert list(hf.group(name).members().values()) == ["x"]
    assert hf.group(name).members() == {}
