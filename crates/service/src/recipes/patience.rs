//! The ends of waits at barriers, on the leader, for callers whose own node cannot end them any more: see
//! `patience.rs` of this crate, which does the same for locks. Refuses to read a clock and to propose anything.
//! Bounds: [`LOOK_MAX`] waits are read at a time; at most twice as many deadlines as waits, and [`TRIM_SLACK`].

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use holdfast_machine::Machine;
use holdfast_types::{Command, Recipe, Revision};

/// Waits looked at in one turn.
const LOOK_MAX: usize = 1_000;
/// Deadlines of waits that ended otherwise, always tolerated.
const TRIM_SLACK: usize = 10_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ArrivalPatience {
    /// Waits asked for up to here have been seen.
    seen: Revision,
    /// By deadline: the revision in which the wait was asked for.
    due: BTreeSet<(Instant, Revision)>,
}

impl ArrivalPatience {
    /// Notes waits that are new since the last look.
    pub(crate) fn look(&mut self, machine: &Machine, now: Instant, grace: Duration) {
        for wait in machine.arrival_waits_after(self.seen, LOOK_MAX) {
            self.seen = wait.give_up.asked;
            let length = Duration::from_millis(wait.wait_ms).saturating_add(grace);
            // A wait without an end in sight needs nobody to end it.
            if let Some(deadline) = now.checked_add(length) {
                self.due.insert((deadline, wait.give_up.asked));
            }
        }
        if self.due.len() > 2 * machine.arrival_waits() + TRIM_SLACK {
            self.due.retain(|(_, asked)| machine.arrival_asked_in(*asked).is_some());
        }
    }

    /// Takes up to `count_max` waits that are overdue, as the commands that end them.
    pub(crate) fn overdue(
        &mut self,
        machine: &Machine,
        now: Instant,
        count_max: usize,
    ) -> Vec<Command> {
        let mut given_up = Vec::new();
        while given_up.len() < count_max {
            match self.due.first() {
                Some((deadline, _)) if *deadline <= now => {}
                Some(_) | None => break,
            }
            let Some((_, asked)) = self.due.pop_first() else { break };
            if let Some(wait) = machine.arrival_asked_in(asked) {
                given_up.push(Command::Recipe(Recipe::GiveUp(wait.give_up)));
            }
        }
        given_up
    }

    /// The commands may not have reached the log: they are tried again at `at`.
    pub(crate) fn again(&mut self, commands: &[Command], at: Instant) {
        for command in commands {
            if let Command::Recipe(Recipe::GiveUp(give_up)) = command {
                self.due.insert((at, give_up.asked));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::{
        Arrive, Entry, Gate, Labels, OpenSession, Owner, RecipeName, SessionName, Stamp,
    };

    use super::*;

    const GRACE: Duration = Duration::from_secs(10);
    const SECOND: Duration = Duration::from_secs(1);

    fn arrive(machine: &mut Machine, session: &str) {
        let session = SessionName::new(session).unwrap();
        let labels = Labels::default();
        let command = Command::Recipe(Recipe::Arrive(Arrive {
            gate: Gate::Barrier,
            name: RecipeName::new("a").unwrap(),
            parties: 3,
            open: OpenSession { session, ttl: None, anonymous: false, labels, password: None },
            owner: Owner::unnamed(),
            request: None,
            wait_ms: Some(5_000),
        }));
        apply(machine, vec![command]);
    }

    fn apply(machine: &mut Machine, commands: Vec<Command>) {
        for outcome in machine.apply(Entry { stamped_at: Stamp(0), commands }).outcomes {
            outcome.unwrap();
        }
    }

    #[test]
    fn a_wait_at_a_barrier_ends_a_grace_after_its_length() {
        let (mut machine, mut patience) = (Machine::new(), ArrivalPatience::default());
        let t0 = Instant::now();
        arrive(&mut machine, "w1");
        patience.look(&machine, t0, GRACE);
        arrive(&mut machine, "w1");
        patience.look(&machine, t0 + SECOND * 5, GRACE);
        assert_eq!(patience.overdue(&machine, t0 + SECOND * 19, 10), [], "it has asked again");
        let due = patience.overdue(&machine, t0 + SECOND * 20, 10);
        assert_eq!(due.len(), 1);
        patience.again(&due, t0 + SECOND * 21);
        assert_eq!(patience.overdue(&machine, t0 + SECOND * 21, 10), due);
        apply(&mut machine, due);
        assert_eq!(machine.arrival_waits(), 0);
    }
}
