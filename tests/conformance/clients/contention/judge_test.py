"""The judge judged: a good log passes, and each injected fault is found."""

import unittest

from contention.judge import judge

SECOND = 1_000_000_000


class Story:
    """Writes a log, one event a millisecond."""

    def __init__(self):
        self.now = SECOND
        self.events = []

    def tell(self, who, what, cycle=0, **more):
        self.now += SECOND // 1000
        self.events.append({"t": self.now, "who": who, "what": what, "cycle": cycle, **more})
        return self

    def turn(self, who, seq, cycle=0):
        self.tell(who, "send", cycle).tell(who, "enqueue", cycle, seq=seq)
        return self.tell(who, "grant", cycle, seq=seq).tell(who, "release", cycle)

    def complaints(self, counter=None, cycles=1):
        releases = sum(1 for event in self.events if event["what"] == "release")
        counter = releases if counter is None else counter
        return judge(self.events, counter=counter, cycles=cycles, timeout_s=10.0).complaints


def good():
    story = Story().turn("a", 1).turn("b", 2)
    return story.tell("a", "done", 1).tell("b", "done", 1)


class JudgeTest(unittest.TestCase):
    def found(self, story, text, **more):
        complaints = story.complaints(**more)
        self.assertTrue(any(text in complaint for complaint in complaints), complaints)

    def test_a_good_run_passes(self):
        self.assertEqual(good().complaints(), [])

    def test_two_inside_are_found(self):
        self.found(good().tell("b", "overlap", 1, seq=3), "together with somebody else")

    def test_a_grant_before_the_release_is_found(self):
        story = Story().tell("a", "send").tell("b", "send").tell("a", "grant", seq=1).tell("b", "grant", seq=2)
        self.found(story.tell("a", "release").tell("b", "release"), "before a had released")

    def test_a_lost_addition_is_found(self):
        self.found(good(), "some were lost", counter=1)

    def test_a_wrong_sequence_is_found(self):
        self.found(Story().turn("a", 2).turn("b", 1), "b with 1 was granted after a with 2")

    def test_passing_in_the_queue_is_found_without_sequence_numbers(self):
        story = Story().tell("a", "send").tell("a", "enqueue").tell("b", "send")
        story.tell("b", "grant").tell("b", "release").tell("a", "grant").tell("a", "release")
        self.found(story, "b (cycle 0) passed a")

    def test_starvation_is_found(self):
        self.found(good().tell("c", "send"), "c asked in cycle 0 and was never granted")
        self.found(good(), "a had the lock 1 times, not 2", cycles=2)

    def test_a_caller_that_fails_is_found(self):
        self.found(good().tell("a", "lost", why="session expired"), "a lost its session")
        self.found(Story().turn("a", 1), "a did not come to its end")

    def test_tokens_that_do_not_grow_are_found(self):
        story = Story().tell("a", "grant", token=5).tell("a", "release").tell("b", "grant", token=5)
        self.found(story.tell("b", "release"), "b got token 5 after a got 5")

    def test_a_holder_that_http_does_not_see_is_found(self):
        self.found(good().tell("driver", "seen", holder="a", held=False, tokens=[], waiters=1), "HTTP said: held False")
        self.assertEqual(good().tell("driver", "seen", holder="a", held=True, tokens=[7], waiters=1).complaints(), [])

    def killed_holder(self, freed_after_s):
        story = Story().turn("a", 1).tell("v", "send").tell("v", "enqueue", seq=2).tell("v", "grant", seq=2)
        story.tell("v", "killed")
        story.now += int(freed_after_s * SECOND)
        return story.turn("a", 3, 1).tell("a", "done", 2)

    def test_a_killed_holder_gives_way_in_time(self):
        self.assertEqual(self.killed_holder(11).complaints(), [])
        self.found(self.killed_holder(1), "too early")
        self.found(self.killed_holder(60), "the next grant came 60.0 s later")

    def test_a_killed_caller_is_never_granted_again(self):
        story = good().tell("v", "send").tell("v", "enqueue", seq=3).tell("v", "killed")
        self.found(story, "nobody was granted after v")
        self.found(story.tell("v", "grant", seq=3), "v was granted after it had been killed")


if __name__ == "__main__":
    unittest.main()
