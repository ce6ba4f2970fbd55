//! Multi-locks in random histories: a naive model of queues gives the holders and waiters. After all releases no waiter
//! remains.

use holdfast_types::LockEvent;
use std::collections::BTreeMap;

use holdfast_types::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::guarantees::ensure;
use super::random::{config, seeded_runner};
use super::script_commands::{self, lock_name, session_name};
use crate::Machine;

const LOCKS: [&str; 5] = ["a", "a/b", "c", "d", "e"];
const SESSIONS: usize = 6;

#[derive(Clone, Debug)]
enum Step {
    /// `locks` is a bit set.
    AcquireAll {
        locks: u8,
        session: usize,
        wait: bool,
        wait_ms: bool,
    },
    Acquire {
        lock: usize,
        session: usize,
    },
    Release {
        lock: usize,
        session: usize,
    },
    ReleaseAll {
        locks: u8,
        session: usize,
    },
    Cancel {
        lock: usize,
        session: usize,
    },
    Close(usize),
    /// Sets the znode limit, or the default.
    Limit(Option<u32>),
    Reload,
}

fn step() -> impl Strategy<Value = Step> {
    let (lock, session) = (0..LOCKS.len(), 0..SESSIONS);
    let (set, entry) = (1..32_u8, (lock, session.clone()));
    prop_oneof![
        6 => (set.clone(), session.clone(), prop::bool::weighted(0.8), prop::bool::ANY).prop_map(
            |(locks, session, wait, wait_ms)| Step::AcquireAll { locks, session, wait, wait_ms }
        ),
        4 => entry.clone().prop_map(|(lock, session)| Step::Acquire { lock, session }),
        4 => entry.clone().prop_map(|(lock, session)| Step::Release { lock, session }),
        2 => (set, session.clone())
            .prop_map(|(locks, session)| Step::ReleaseAll { locks, session }),
        1 => entry.prop_map(|(lock, session)| Step::Cancel { lock, session }),
        2 => session.prop_map(Step::Close),
        1 => prop::option::of(5..25_u32).prop_map(Step::Limit),
        1 => Just(Step::Reload),
    ]
}

fn name(n: usize) -> SessionName {
    session_name(&format!("s{n}"))
}

fn names(bits: u8) -> Vec<LockName> {
    let mut names: Vec<_> = LOCKS.iter().enumerate().filter(|(n, _)| bits >> n & 1 == 1).collect();
    names.sort_by_key(|(_, name)| **name);
    names.into_iter().map(|(_, name)| lock_name(name)).collect()
}

/// An entry of the model: its session, the revision of its command, and its locks.
#[derive(Clone, Debug, PartialEq)]
struct QueueEntry {
    session: usize,
    ticket: u64,
    locks: Vec<LockName>,
}

/// The holders, and the waiters in order.
#[derive(Clone, Debug, Default)]
struct Model {
    holders: BTreeMap<LockName, QueueEntry>,
    queues: BTreeMap<LockName, Vec<QueueEntry>>,
}

impl Model {
    fn has(&self, lock: &LockName, session: usize) -> bool {
        let waits = self.queues.get(lock).is_some_and(|q| q.iter().any(|p| p.session == session));
        waits || self.holders.get(lock).is_some_and(|entry| entry.session == session)
    }

    fn join(&mut self, entry: &QueueEntry) {
        for lock in &entry.locks {
            self.queues.entry(lock.clone()).or_default().push(entry.clone());
        }
        self.grant_waiters();
    }

    fn leave(&mut self, lock: &LockName, session: usize) {
        if self.holders.get(lock).is_some_and(|entry| entry.session == session) {
            self.holders.remove(lock);
        }
        let queue = self.queues.get(lock).cloned().unwrap_or_default();
        for gone in queue.iter().filter(|entry| entry.session == session) {
            for queue in self.queues.values_mut() {
                queue.retain(|entry| entry != gone);
            }
        }
        self.grant_waiters();
    }

    /// Grants each entry that is first in all its queues while all its locks are free.
    fn grant_waiters(&mut self) {
        let is_first = |model: &Self, entry: &QueueEntry| {
            entry.locks.iter().all(|lock| {
                model.queues.get(lock).and_then(|queue| queue.first()) == Some(entry)
                    && !model.holders.contains_key(lock)
            })
        };
        loop {
            let mut first_entries = self.queues.values().filter_map(|queue| queue.first());
            let next = first_entries.find(|entry| is_first(self, entry)).cloned();
            let Some(next) = next else { return };
            for lock in &next.locks {
                self.queues.get_mut(lock).unwrap().remove(0);
                self.holders.insert(lock.clone(), next.clone());
            }
        }
    }

    fn close(&mut self, session: usize) {
        // All entries are removed before any grant.
        self.holders.retain(|_, entry| entry.session != session);
        self.queues.values_mut().for_each(|queue| queue.retain(|entry| entry.session != session));
        self.grant_waiters();
    }
}

struct Trial {
    machine: Machine,
    model: Model,
    token: FencingToken,
    waited: usize,
}

impl Trial {
    fn apply(&mut self, command: Command) -> Result<(Outcome, u64), String> {
        let entry = Entry { stamped_at: Stamp(0), commands: vec![command] };
        let mut applied = self.machine.apply(entry);
        self.machine.check_invariants()?;
        for (_, event) in &applied.events {
            if let Event::Lock(LockEvent::Granted(grant)) = event {
                ensure(grant.token > self.token, "tokens strictly increase")?;
                self.token = grant.token;
            }
        }
        Ok((applied.outcomes.remove(0), applied.revision.0))
    }

    fn release(&mut self, locks: LockSet, session: usize) -> Result<(), String> {
        let (session, owner, target) = (name(session), Owner::unnamed(), ReleaseTarget::AnyEntry);
        self.apply(Command::Release(Release { locks, session, owner, target }))?.0.ok();
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::AcquireAll { locks, session, wait, wait_ms } => {
                self.acquire_all(names(locks), session, wait, wait_ms)?;
            }
            Step::Acquire { lock, session } => {
                let lock = lock_name(LOCKS[lock]);
                let open = script_commands::open(name(session).as_str());
                let acquire = Acquire::new(lock.clone(), open, Owner::unnamed());
                let (outcome, ticket) = self.apply(Command::Acquire(acquire))?;
                if outcome.is_ok() && !self.model.has(&lock, session) {
                    self.model.join(&QueueEntry { session, ticket, locks: vec![lock] });
                }
            }
            Step::Release { lock, session } => {
                let lock = lock_name(LOCKS[lock]);
                self.release(lock.clone().into(), session)?;
                self.model.leave(&lock, session);
            }
            Step::ReleaseAll { locks, session } => {
                let locks = names(locks);
                self.release(LockSet::new(locks.clone()).unwrap(), session)?;
                // The machine removes all entries before any grant, and a waiting multi-lock leaves all its queues at
                // once.
                let mut model = self.model.clone();
                locks.iter().for_each(|lock| model.leave(lock, session));
                self.model = model;
            }
            Step::Cancel { lock, session } => {
                let lock = lock_name(LOCKS[lock]);
                let queue = self.model.queues.get(&lock).cloned().unwrap_or_default();
                let Some(entry) = queue.iter().find(|entry| entry.session == session) else {
                    return Ok(());
                };
                let (session_name, owner) = (name(session), Owner::unnamed());
                let state =
                    self.machine.entry_state(&lock.clone().into(), &session_name, &owner, None);
                let Some(EntryState::Waiting(queued)) = state else { return Ok(()) };
                let (ticket, requested_in) = (Ticket(entry.ticket), queued[0].requested_in);
                let cancel = Cancel {
                    lock: lock.clone(),
                    session: session_name,
                    owner,
                    ticket,
                    requested_in,
                };
                let (outcome, _) = self.apply(Command::Cancel(cancel))?;
                ensure(outcome == Ok(Reply::Cancelled), "a waiter can cancel")?;
                self.model.leave(&lock, session);
            }
            Step::Close(n) => {
                let (session, attachment) = (name(n), None);
                self.apply(Command::CloseSession { session, attachment, incarnation: None })?
                    .0
                    .ok();
                self.model.close(n);
            }
            Step::Limit(znodes) => {
                let plain = Limits::default();
                let znodes_max = znodes.unwrap_or(plain.znodes_max);
                self.apply(Command::SetLimits(Limits { znodes_max, ..plain }))?.0.ok();
            }
            Step::Reload => {
                self.machine = Machine::load(self.machine.dump()).map_err(|e| e.to_string())?;
            }
        }
        self.compare()
    }

    fn acquire_all(
        &mut self,
        locks: Vec<LockName>,
        session: usize,
        wait: bool,
        wait_ms: bool,
    ) -> Result<(), String> {
        let open = script_commands::open(name(session).as_str());
        let wait_ms = wait_ms.then_some(1_000);
        let has = locks.iter().any(|lock| self.model.has(lock, session));
        let plain = Acquire::new(LockSet::new(locks.clone()).unwrap(), open, Owner::unnamed());
        let all = Acquire { wait, wait_ms, ..plain };
        let before = self.machine.clone();
        let (outcome, ticket) = self.apply(Command::Acquire(all))?;
        match &outcome {
            Ok(_) if !has => {
                self.model.join(&QueueEntry { session, ticket, locks: locks.clone() });
            }
            Ok(_) => {}
            Err(_) => {
                let znodes = (before.counts().znodes, self.machine.counts().znodes);
                ensure(znodes.0 == znodes.1, "a rejected acquire creates no znode")?;
            }
        }
        self.waited += usize::from(matches!(outcome, Ok(Reply::Acquired(EntryState::Waiting(_)))));
        let holds = locks
            .iter()
            .all(|lock| self.model.holders.get(lock).is_some_and(|entry| entry.session == session));
        match outcome {
            Ok(Reply::Acquired(EntryState::Holding(grants))) => ensure(
                holds && grants.len() == locks.len(),
                "a granted multi-lock holds all its locks",
            ),
            Ok(Reply::Acquired(EntryState::Waiting(_))) => {
                ensure(!holds && wait, "a queued multi-lock does not hold")
            }
            _ => Ok(()),
        }
    }

    fn compare(&self) -> Result<(), String> {
        for lock in LOCKS.map(lock_name) {
            let view = self.machine.lock(&lock, 100);
            let holder = view.holder().map(|holder| holder.session.clone());
            let expected = self.model.holders.get(&lock).map(|entry| name(entry.session));
            let queue: Vec<_> =
                view.waiters.iter().map(|w| (w.session.clone(), w.ticket.0)).collect();
            let expected_queue: Vec<_> = self.model.queues.get(&lock).map_or(Vec::new(), |queue| {
                queue.iter().map(|entry| (name(entry.session), entry.ticket)).collect()
            });
            if holder != expected || queue != expected_queue {
                return Err(format!(
                    "{lock}: {holder:?} {queue:?}\n{expected:?} {expected_queue:?}"
                ));
            }
        }
        Ok(())
    }

    /// Releases every hold until none is left; no waiter may remain.
    fn drain(&mut self) -> Result<(), String> {
        for _ in 0..10_000 {
            let Some((lock, entry)) = self.model.holders.iter().next() else { break };
            let (lock, session) =
                (LOCKS.iter().position(|l| lock_name(l) == *lock).unwrap(), entry.session);
            self.step(&Step::Release { lock, session })?;
        }
        let waiting = self.model.queues.values().map(Vec::len).sum::<usize>();
        ensure(
            waiting == 0 && self.machine.counts().waiters == 0,
            "no waiter remains after all releases",
        )
    }
}

fn run(steps: &[Step]) -> Result<usize, String> {
    let machine = Machine::new();
    let mut trial = Trial { machine, model: Model::default(), token: FencingToken(0), waited: 0 };
    for step in steps {
        trial.step(step).map_err(|what| format!("at {step:?}: {what}"))?;
    }
    trial.drain()?;
    Ok(trial.waited)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn multi_locks_are_granted_as_a_whole_and_no_waiter_starves(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        prop_assert_eq!(run(&steps).err(), None);
    }
}

/// The same histories in each run (`mutations.toml`).
#[test]
fn seeded_multi_locks_are_granted_as_a_whole() {
    let mut runner = seeded_runner();
    let steps = prop::collection::vec(step(), 60);
    let waited: usize =
        (0..200).map(|_| run(&steps.new_tree(&mut runner).unwrap().current()).unwrap()).sum();
    assert!(waited > 200, "only {waited} multi-lock waits in all histories");
}
