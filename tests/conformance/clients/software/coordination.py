"""Faults of the coordination service below a system that works all the time.

`meanwhile` runs while a fault lasts, and `afterwards` when all members serve again; each raises if the system does not work.
"""

import time

from software.case import wait

LONG_S = 180  # for a loaded machine
FROZEN_S = 20


class Coordination:
    def __init__(self, ensemble, meanwhile, afterwards):
        self.ensemble, self.meanwhile, self.afterwards = ensemble, meanwhile, afterwards

    def leader(self):
        def found():
            return [member for member in self.ensemble.members if self.ensemble.mode(member.address) == "leader"]
        return wait(found, LONG_S, "a leader of the coordination service")[0]

    def fault(self, begin, end):
        began = time.time()
        begin()
        try:
            self.meanwhile()
        finally:
            end()
        self.ensemble.await_serving(self.ensemble.members)
        return self.afterwards(began)

    def coordination_leader_killed(self):
        return self.fault(self.leader().kill, self.ensemble.start)

    def coordination_leader_frozen(self):
        leader, thaws = self.leader(), time.monotonic() + FROZEN_S

        def thaw():
            wait(lambda: time.monotonic() > thaws, LONG_S, "the end of the freeze")
            leader.suspend(False)
        return self.fault(lambda: leader.suspend(True), thaw)

    def coordination_restarted(self):
        return self.fault(lambda: [member.kill() for member in self.ensemble.members], self.ensemble.start)

    def steps(self):
        return [(name, getattr(self, name)) for name in STEPS]


STEPS = ["coordination_leader_killed", "coordination_leader_frozen", "coordination_restarted"]
