"""Reads the log of a contention run and says what was wrong. Pure: events in, complaints out.

Holds a run to this: never two inside, grants in the order of the sequence numbers and never against the order in which
callers asked, nobody starves, tokens grow, and a killed caller loses its place, not too early and not too late.
"""

from dataclasses import dataclass, field

NS = 1_000_000_000
# How long after its session's timeout a killed holder may keep the others waiting: one expiry tick, and a machine
# that does other things too.
LATE_S = 15.0
# A server hears a client at least every third of the timeout; so this share of it is left when the client is killed.
EARLY_SHARE = 0.5


@dataclass
class Turn:
    """One caller's one attempt at the lock."""

    who: str
    cycle: int
    send: int = None
    enqueue: int = None
    grant: int = None
    release: int = None
    seq: int = None
    token: int = None


@dataclass
class Verdict:
    complaints: list = field(default_factory=list)
    grants: int = 0
    callers: int = 0
    killed: int = 0
    waits_s: list = field(default_factory=list)
    freed_s: list = field(default_factory=list)

    @property
    def holds(self):
        return not self.complaints

    def complain(self, text):
        self.complaints.append(text)


def judge(events, *, counter, cycles, timeout_s):
    """The verdict on the events of one run. `cycles` is how many turns each caller that was not killed had to have."""
    verdict = Verdict()
    turns = turns_of(events)
    killed = {event["who"]: event["t"] for event in events if event["what"] == "killed"}
    granted = sorted((turn for turn in turns if turn.grant), key=lambda turn: turn.grant)
    verdict.grants, verdict.killed = len(granted), len(killed)
    verdict.callers = len({turn.who for turn in turns})
    verdict.waits_s = [(turn.grant - turn.send) / NS for turn in granted if turn.send]
    one_holder(verdict, events, granted, killed)
    additions_kept(verdict, events, counter)
    in_sequence(verdict, granted)
    in_asking_order(verdict, turns)
    nobody_starves(verdict, events, turns, killed, cycles)
    tokens_grow(verdict, granted)
    both_front_ends_agree(verdict, events)
    killed_give_way(verdict, turns, granted, killed, timeout_s)
    return verdict


def turns_of(events):
    """The events by caller and cycle."""
    turns = {}
    for event in events:
        what = event["what"]
        if what not in ("send", "enqueue", "grant", "overlap", "release"):
            continue
        turn = turns.setdefault((event["who"], event["cycle"]), Turn(event["who"], event["cycle"]))
        setattr(turn, "grant" if what == "overlap" else what, event["t"])
        for name in ("seq", "token"):
            if event.get(name) is not None:
                setattr(turn, name, event[name])
    return list(turns.values())


def one_holder(verdict, events, granted, killed):
    for event in events:
        if event["what"] == "overlap":
            verdict.complain(f"{event['who']} was inside together with somebody else (cycle {event['cycle']})")
    for earlier, later in zip(granted, granted[1:]):
        end = earlier.release or killed.get(earlier.who)
        if end is None or end > later.grant:
            verdict.complain(f"{later.who} was granted before {earlier.who} had released")


def additions_kept(verdict, events, counter):
    releases = sum(1 for event in events if event["what"] == "release")
    if counter != releases:
        verdict.complain(f"the counter says {counter} after {releases} additions: some were lost")


def in_sequence(verdict, granted):
    known = [turn for turn in granted if turn.seq is not None]
    for earlier, later in zip(known, known[1:]):
        if later.seq <= earlier.seq:
            verdict.complain(f"{later.who} with {later.seq} was granted after {earlier.who} with {earlier.seq}")


def in_asking_order(verdict, turns):
    """A caller seen in the queue before another asked is granted before it. Needs no sequence number."""
    waiting = [turn for turn in turns if turn.enqueue and turn.grant]
    for late in turns:
        if late.send is None or late.grant is None:
            continue
        passed = [turn for turn in waiting if turn.enqueue < late.send and turn.grant > late.grant]
        if passed:
            verdict.complain(f"{late.who} (cycle {late.cycle}) passed {passed[0].who}, who was in the queue before it asked")


def nobody_starves(verdict, events, turns, killed, cycles):
    for event in events:
        if event["what"] == "lost":
            verdict.complain(f"{event['who']} lost its session or failed: {event.get('why')}")
    done = {event["who"] for event in events if event["what"] == "done"}
    for who in sorted({turn.who for turn in turns} - set(killed)):
        had = sum(1 for turn in turns if turn.who == who and turn.grant)
        if had < cycles:
            verdict.complain(f"{who} had the lock {had} times, not {cycles}")
        if who not in done:
            verdict.complain(f"{who} did not come to its end")
    for turn in turns:
        if turn.grant is None and turn.who not in killed:
            verdict.complain(f"{turn.who} asked in cycle {turn.cycle} and was never granted")


def tokens_grow(verdict, granted):
    known = [turn for turn in granted if turn.token is not None]
    for earlier, later in zip(known, known[1:]):
        if later.token <= earlier.token:
            verdict.complain(f"{later.who} got token {later.token} after {earlier.who} got {earlier.token}")


def both_front_ends_agree(verdict, events):
    """Over HTTP the lock looked held by one, with a token, and waiters, whichever client held it and waited."""
    for event in (event for event in events if event["what"] == "seen"):
        tokens = [token for token in event["tokens"] if token]
        if not event["held"] or len(tokens) != 1 or event["waiters"] < 1:
            verdict.complain(
                f"while {event['holder']} held and another waited, HTTP said: held {event['held']}, "
                f"tokens {event['tokens']}, {event['waiters']} waiters"
            )


def killed_give_way(verdict, turns, granted, killed, timeout_s):
    for who, at in killed.items():
        later = [turn for turn in granted if turn.grant > at]
        if any(turn.who == who for turn in later):
            verdict.complain(f"{who} was granted after it had been killed")
        if not later:
            verdict.complain(f"nobody was granted after {who} had been killed")
            continue
        held = any(turn.who == who and turn.grant for turn in turns)
        if held:
            freed_s = (later[0].grant - at) / NS
            verdict.freed_s.append(freed_s)
            if freed_s < timeout_s * EARLY_SHARE:
                verdict.complain(f"{who} was killed, and its lock given away {freed_s:.1f} s later: too early for {timeout_s:.0f} s")
            if freed_s > timeout_s + LATE_S:
                verdict.complain(f"{who} was killed, and the next grant came {freed_s:.1f} s later")
