"""Calls that end early or late: what they leave in the cluster, and in the client. Without a cluster."""

from __future__ import annotations

import asyncio
from typing import List, Optional, Tuple

import pytest
from fake import Answer, Fake, grant, on_engine, opened, request
from holdfast import _mode
from holdfast._calls import Call
from holdfast._entry import Stage
from holdfast.errors import Lost


class TestModeChange:
    def test_a_cancelled_upgrade_keeps_its_turn_until_the_mode_is_restored(self) -> None:
        async def run() -> Tuple[List[str], str, int]:
            is_upgrade_sent = asyncio.Event()

            def answer(call: Call) -> Optional[Answer]:
                if "change=" not in call.target:
                    return opened(call)
                if "mode=exclusive" not in call.target:
                    return 200, grant(5, mode="upgradable")
                if not is_upgrade_sent.is_set():
                    is_upgrade_sent.set()
                    return None
                return 200, grant(6)

            fake = Fake(answer)
            held = await fake.core.acquire(request(mode="upgradable"))
            first = asyncio.ensure_future(_mode.upgrade(held.holds[0], 5.0))
            await is_upgrade_sent.wait()
            second = asyncio.ensure_future(_mode.upgrade(held.holds[0], 5.0))
            await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait({first})
            await second
            await held.session.settled()
            changes = [call.target.split("&mode=")[1].split("&")[0] for call in fake.calls.sent if "change=" in call.target]
            grant_now = held.holds[0].grant
            await held.release()
            return changes, grant_now.mode, grant_now.token

        assert on_engine(run) == (["exclusive", "upgradable", "exclusive"], "exclusive", 6)

    def test_a_late_answer_does_not_restore_a_released_hold(self) -> None:
        async def run() -> Stage:
            def answer(call: Call) -> Optional[Answer]:
                if "change=" in call.target:
                    held.release_in_background()
                    return 200, grant(6)
                return None if len(fake.calls.targets("DELETE")) == 1 else opened(call)

            fake = Fake(answer)
            held = await fake.core.acquire(request(mode="upgradable"))
            with pytest.raises(Lost):
                await _mode.upgrade(held.holds[0], 5.0)
            stage = held.holds[0].entry.stage
            await held.session.settled()
            return stage

        assert on_engine(run) is Stage.LEAVING
