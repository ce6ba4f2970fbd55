//! Sharded locks in random histories, against a naive model of one queue for each shard. Each shard has at most one
//! holder, each owner one entry, and no owner queues while a shard is free.

use std::collections::BTreeMap;

use holdfast_types::LockRejection;
use holdfast_types::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::guarantees::ensure;
use super::random::{config, seeded_runner};
use super::script_commands::{lock_name, open, run_line, session_name};
use crate::Machine;
use crate::lock::policy::check_servable;

const SESSIONS: usize = 6;

#[derive(Clone, Debug)]
enum Step {
    Acquire {
        session: usize,
        count: Option<u32>,
        choice: ShardChoice,
        wait: bool,
    },
    /// Acquires the resource without shards.
    AcquireUnsharded(usize),
    /// Releases the resource, or one shard.
    Release {
        session: usize,
        shard: Option<u32>,
    },
    Cancel(usize),
    Close(usize),
    SetShards(Option<u32>),
    Reload,
}

fn step() -> impl Strategy<Value = Step> {
    let session = 0..SESSIONS;
    let count = prop::sample::select(vec![Some(3), Some(3), Some(3), Some(4), None]);
    let choice = prop_oneof![
        3 => Just(ShardChoice::Any),
        1 => (0..5_u32).prop_map(ShardChoice::At),
    ];
    prop_oneof![
        8 => (session.clone(), count, choice, prop::bool::weighted(0.7))
            .prop_map(|(session, count, choice, wait)| Step::Acquire { session, count, choice, wait }),
        1 => session.clone().prop_map(Step::AcquireUnsharded),
        4 => (session.clone(), prop::option::weighted(0.3, 0..4_u32))
            .prop_map(|(session, shard)| Step::Release { session, shard }),
        1 => session.clone().prop_map(Step::Cancel),
        1 => session.prop_map(Step::Close),
        1 => prop::option::weighted(0.8, 2..5_u32).prop_map(Step::SetShards),
        1 => Just(Step::Reload),
    ]
}

/// The expected outcome of an acquire.
#[derive(Debug, PartialEq)]
enum AcquireResult {
    Granted(LockName),
    Queued(LockName),
    Rejected,
    Busy,
}

/// The number of shards, and a queue for each shard whose first entry holds.
#[derive(Clone, Debug, Default)]
struct Model {
    count: Option<u32>,
    queues: Vec<Vec<usize>>,
    /// Those that wait for any shard, in the order of their arrival.
    for_any: Vec<usize>,
}

impl Model {
    fn shard_of(&self, session: usize) -> Option<usize> {
        self.queues.iter().position(|queue| queue.contains(&session))
    }

    /// Removes an entry. A shard that becomes free goes to the first of those that wait for any.
    fn leave(&mut self, session: usize) {
        let left = self.shard_of(session);
        self.queues.iter_mut().for_each(|queue| queue.retain(|one| *one != session));
        self.for_any.retain(|one| *one != session);
        let Some(free) = left.filter(|at| self.queues[*at].is_empty()) else { return };
        let waits =
            |one: &&usize| self.queues.iter().any(|queue| queue.iter().skip(1).any(|w| w == *one));
        let Some(first) = self.for_any.iter().find(waits).copied() else { return };
        self.queues.iter_mut().for_each(|queue| queue.retain(|one| *one != first));
        self.queues[free].push(first);
    }

    fn expected_in(&self, session: usize, at: usize, wait: bool) -> AcquireResult {
        match self.queues[at].iter().position(|one| *one == session) {
            Some(0) => AcquireResult::Granted(shard(at)),
            _ if !wait => AcquireResult::Busy,
            _ => AcquireResult::Queued(shard(at)),
        }
    }

    fn acquire(
        &mut self,
        session: usize,
        requested: Option<u32>,
        choice: ShardChoice,
        wait: bool,
    ) -> AcquireResult {
        let count = match (self.count, requested) {
            (Some(count), requested) if requested.is_none_or(|requested| requested == count) => {
                count
            }
            (None, Some(requested)) => requested,
            _ => return AcquireResult::Rejected,
        };
        let before = self.clone();
        self.queues.resize(count as usize, Vec::new());
        let own = self.shard_of(session);
        let at = match choice {
            ShardChoice::At(at) if at >= count || own.is_some_and(|own| own != at as usize) => {
                *self = before;
                return AcquireResult::Rejected;
            }
            ShardChoice::At(at) => at as usize,
            // The first of the shortest queues, so a free shard if there is one.
            ShardChoice::Any => own.unwrap_or_else(|| {
                let shortest = self.queues.iter().map(Vec::len).min().unwrap();
                self.queues.iter().position(|queue| queue.len() == shortest).unwrap()
            }),
        };
        if own.is_none() {
            self.queues[at].push(session);
            self.for_any.extend((choice == ShardChoice::Any).then_some(session));
        }
        let actual = self.expected_in(session, at, wait);
        if actual == AcquireResult::Busy {
            *self = before;
        } else {
            self.count = Some(count);
        }
        actual
    }
}

pub(super) fn name(n: usize) -> SessionName {
    session_name(&format!("s{n}"))
}

pub(super) fn resource() -> LockName {
    lock_name("stock")
}

pub(super) fn shard(n: usize) -> LockName {
    ShardRequest::shard_name(&resource(), n as u32).unwrap()
}

pub(super) fn acquire(session: usize, shards: Option<ShardRequest>, wait: bool) -> Command {
    let plain = Acquire::new(resource(), open(name(session).as_str()), Owner::unnamed());
    Command::Acquire(Acquire { shards, wait, ..plain })
}

struct Trial {
    machine: Machine,
    model: Model,
    waited: usize,
}

impl Trial {
    fn apply(&mut self, command: Command) -> Result<Outcome, String> {
        let before = self.machine.counts();
        let entry = Entry { stamped_at: Stamp(0), commands: vec![command] };
        let outcome = self.machine.apply(entry).outcomes.remove(0);
        self.machine.check_invariants()?;
        ensure(
            outcome.is_ok() || before == self.machine.counts(),
            "a rejected command changes no count",
        )?;
        Ok(outcome)
    }

    fn acquire(&mut self, session: usize, shards: ShardRequest, wait: bool) -> Result<(), String> {
        let actual = match self.apply(acquire(session, Some(shards), wait))? {
            Ok(Reply::Acquired(EntryState::Holding(grant))) => {
                AcquireResult::Granted(grant[0].lock.clone())
            }
            Ok(Reply::Acquired(EntryState::Waiting(queued))) => {
                AcquireResult::Queued(queued[0].lock.clone())
            }
            Err(Rejection::Lock(
                LockRejection::ShardsMismatch { .. } | LockRejection::AlreadyQueued { .. },
            )) => AcquireResult::Rejected,
            Err(Rejection::Lock(LockRejection::Busy { .. })) => AcquireResult::Busy,
            other => return Err(format!("{other:?}")),
        };
        let expected = self.model.acquire(session, shards.count, shards.choice, wait);
        self.waited += usize::from(matches!(actual, AcquireResult::Queued(_)));
        if actual != expected {
            return Err(format!("{actual:?}\nexpected {expected:?}"));
        }
        let (caller, owner) = (name(session), Owner::unnamed());
        let found = self.machine.owned_shard(&resource(), shards, &caller, &owner);
        let found_own = match actual {
            AcquireResult::Granted(lock) | AcquireResult::Queued(lock) => found == Some(lock),
            AcquireResult::Rejected | AcquireResult::Busy => true,
        };
        ensure(found_own, "`shard_held` returns the owner's shard")
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Acquire { session, count, choice, wait } => {
                self.acquire(session, ShardRequest { count, choice }, wait)?;
            }
            Step::AcquireUnsharded(session) => {
                if self.model.count.is_some() {
                    let shards = self.model.count;
                    let outcome = self.apply(acquire(session, None, true))?;
                    let rejected =
                        outcome == Err(Rejection::Lock(LockRejection::ShardsMismatch { shards }));
                    ensure(rejected, "a sharded lock rejects an acquire without shards")?;
                }
            }
            Step::Release { session, shard: at } => {
                let lock = at.map_or_else(resource, |at| shard(at as usize));
                let (caller, owner) = (name(session), Owner::unnamed());
                let release = Release {
                    locks: lock.into(),
                    session: caller,
                    owner,
                    target: ReleaseTarget::AnyEntry,
                };
                self.apply(Command::Release(release))?.ok();
                let shard = self.model.shard_of(session);
                if at.is_none_or(|at| shard == Some(at as usize)) {
                    self.model.leave(session);
                }
            }
            Step::Cancel(session) => self.cancel(session)?,
            Step::Close(n) => {
                let (session, attachment) = (name(n), None);
                self.apply(Command::CloseSession { session, attachment, incarnation: None })?.ok();
                self.model.leave(n);
            }
            Step::SetShards(shards) => self.set_shards(shards)?,
            Step::Reload => {
                self.machine = Machine::load(self.machine.dump()).map_err(|e| e.to_string())?;
            }
        }
        self.compare()
    }

    fn cancel(&mut self, session: usize) -> Result<(), String> {
        let Some(at) = self.model.shard_of(session) else { return Ok(()) };
        let (lock, caller, owner) = (shard(at), name(session), Owner::unnamed());
        let state = self.machine.entry_state(&lock.clone().into(), &caller, &owner, None);
        let Some(EntryState::Waiting(queued)) = state else {
            return Ok(());
        };
        let Queued { lock, ticket, requested_in, .. } = queued[0].clone();
        let cancel = Cancel { lock, session: caller, owner, ticket, requested_in };
        let outcome = self.apply(Command::Cancel(cancel))?;
        ensure(outcome == Ok(Reply::Cancelled), "a waiter can cancel")?;
        self.model.leave(session);
        Ok(())
    }

    fn set_shards(&mut self, shards: Option<u32>) -> Result<(), String> {
        let change = PolicyChange { shards: Some(shards), ..PolicyChange::default() };
        let outcome = self.apply(Command::SetPolicy { lock: resource(), change })?;
        let used = self.model.queues.iter().any(|queue| !queue.is_empty());
        if used && shards != self.model.count {
            return ensure(
                matches!(outcome, Err(Rejection::Lock(LockRejection::InUse { .. }))),
                "the number of shards cannot change during use",
            );
        }
        ensure(outcome.is_ok(), "the number of shards of an unused lock can change")?;
        self.model.count = shards;
        let count = shards.unwrap_or(0) as usize;
        if !used {
            self.model.queues = vec![Vec::new(); count];
        }
        Ok(())
    }

    fn compare(&self) -> Result<(), String> {
        let view = self.machine.lock(&resource(), 100);
        ensure(view.policy.shards == self.model.count, "the number of shards matches")?;
        ensure(
            view.shards.len() as u32 == self.model.count.unwrap_or(0),
            "the view lists all shards",
        )?;
        for (at, queue) in self.model.queues.iter().enumerate() {
            let one = self.machine.lock(&shard(at), 100);
            let holders = one.holders.iter().map(|holder| holder.session.clone());
            let found: Vec<_> =
                holders.chain(one.waiters.iter().map(|w| w.session.clone())).collect();
            let expected: Vec<_> = queue.iter().map(|session| name(*session)).collect();
            if found != expected || one.holders.len() != queue.len().min(1) {
                return Err(format!("{}: {found:?}\nexpected {expected:?}", shard(at)));
            }
            let shown = &view.shards[at];
            let counted = (shown.holders as usize, shown.waiters as usize);
            ensure(
                counted == (one.holders.len(), one.waiters.len()),
                "the view counts holders and waiters of each shard",
            )?;
        }
        let places: usize = self.model.queues.iter().map(Vec::len).sum();
        let counts = self.machine.counts();
        ensure(counts.locks_held + counts.waiters == places as u64, "all entries belong to shards")
    }
}

fn run(steps: &[Step]) -> Result<usize, String> {
    let machine = Machine::new();
    let mut trial = Trial { machine, model: Model::default(), waited: 0 };
    for step in steps {
        trial.step(step).map_err(|what| format!("at {step:?}: {what}"))?;
    }
    Ok(trial.waited)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_owner_has_one_shard_and_queues_only_if_none_is_free(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        prop_assert_eq!(run(&steps).err(), None);
    }
}

/// The same histories in each run (`mutations.toml`).
#[test]
fn seeded_owners_have_one_shard() {
    let mut runner = seeded_runner();
    let steps = prop::collection::vec(step(), 60);
    let waited: usize =
        (0..50).map(|_| run(&steps.new_tree(&mut runner).unwrap().current()).unwrap()).sum();
    assert!(waited > 50, "only {waited} waits in all histories");
}

/// A line of a history of attempts in three shards, of which some have a limit.
fn attempt_line() -> impl Strategy<Value = String> {
    let (session, shard, number) = (0..4_usize, 0..3_usize, 1..4_u32);
    let request = ["", "", "", "mode=shared", "mode=shared", "permits=2", "permits=3"];
    let request = prop::sample::select(request.to_vec());
    let any = (session.clone(), request, 0..2_u8, prop::option::weighted(0.2, shard.clone()));
    prop_oneof![
        6 => any.prop_map(|(session, request, priority, shard)| {
            let shard = shard.map_or(String::new(), |shard| format!("shard={shard}"));
            format!("acquire s s{session} shards=3 attempt=N {request} priority={priority} {shard}")
        }),
        1 => (session.clone(), shard.clone())
            .prop_map(|(session, shard)| format!("acquire s/{shard} s{session} attempt=N")),
        3 => session.clone().prop_map(|session| format!("release s s{session}")),
        1 => session.prop_map(|session| format!("close s{session}")),
        1 => (shard.clone(), number).prop_map(|(shard, limit)| format!("policy s/{shard} limit={limit}")),
        1 => shard.clone().prop_map(|shard| format!("policy s/{shard} limit=none")),
        1 => shard.prop_map(|shard| format!("delete /locks/s/{shard} recursive")),
    ]
}

/// After each command: no owner has entries in two shards, and no shard is free for the first waiter for any shard.
fn run_attempts(lines: &[String]) -> Result<(), String> {
    let mut machine = Machine::new();
    let names = [0, 1, 2].map(|at| lock_name(&format!("s/{at}")));
    let setting = ["policy s shards=3", "policy s/0 limit=1", "policy s/1 limit=3"];
    let lines = setting.iter().map(|line| (*line).to_owned()).chain(lines.iter().cloned());
    for (at, line) in lines.enumerate() {
        run_line(&mut machine, &line.replace('N', &at.to_string())).ok();
        let shards = names.each_ref().map(|name| machine.locks.get(name));
        let mut owners = BTreeMap::new();
        let mut first = None;
        for (shard, lock) in shards.iter().enumerate() {
            let waiters = || lock.iter().flat_map(|lock| lock.waiters.values());
            let holders = lock.iter().flat_map(|lock| lock.holders.iter());
            for entry in waiters().chain(holders) {
                let of_owner = *owners.entry(entry.session).or_insert(shard);
                ensure(of_owner == shard, &format!("{line}: one shard of {}", entry.session_name))?;
            }
            let any = waiters().filter(|waiter| waiter.any_shard).map(|waiter| (shard, waiter));
            first = first.into_iter().chain(any).min_by_key(|(_, waiter)| waiter.precedence());
        }
        let Some((own, waiter)) = first else { continue };
        for (shard, lock) in shards.iter().enumerate().filter(|(shard, _)| *shard != own) {
            let is_free = match lock {
                Some(lock) => {
                    lock.waiters.is_empty()
                        && check_servable(lock.policy(), waiter.request()).is_ok()
                        && lock.has_room_for(waiter.request())
                }
                None => true,
            };
            ensure(!is_free, &format!("{line}: s/{shard} is not free for {waiter:?}"))?;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_owner_has_two_shards_and_no_shard_is_free_for_the_first_waiter(
        lines in prop::collection::vec(attempt_line(), 1..60),
    ) {
        prop_assert_eq!(run_attempts(&lines).err(), None);
    }
}
