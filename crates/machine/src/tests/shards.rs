//! Sharded locks in random histories, against a naive model of one queue for each shard. Each shard has at most one
//! holder, each owner one entry, and no owner queues while a shard is free.

use std::collections::BTreeMap;

use holdfast_types::LockRejection;
use holdfast_types::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::guarantees::ensure;
use super::random::{config, seeded_runner};
use super::script_commands::{Words, lock_name, open, session_name};
use crate::Machine;
use crate::session::attempts::EndedAttempts;

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

fn name(n: usize) -> SessionName {
    session_name(&format!("s{n}"))
}

fn resource() -> LockName {
    lock_name("stock")
}

fn shard(n: usize) -> LockName {
    ShardRequest::shard_name(&resource(), n as u32).unwrap()
}

fn acquire(session: usize, shards: Option<ShardRequest>, wait: bool) -> Command {
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

/// A waiter for any shard stands in the queue of one. A call that waits finds the entry by its ticket, wherever it is.
#[test]
fn a_waiter_for_any_shard_gets_the_first_that_becomes_free() {
    let mut machine = Machine::new();
    let any = |n, wait| {
        let shards = ShardRequest { count: Some(2), choice: ShardChoice::Any };
        acquire(n, Some(shards), wait)
    };
    let apply = |machine: &mut Machine, command| {
        let applied = machine.apply(Entry { stamped_at: Stamp(0), commands: vec![command] });
        machine.check_invariants().unwrap();
        let loaded = Machine::load(machine.dump()).unwrap();
        assert_eq!(loaded.state_digest(), machine.state_digest());
        applied.outcomes.into_iter().next().unwrap()
    };
    apply(&mut machine, any(0, false)).unwrap();
    apply(&mut machine, any(1, false)).unwrap();
    let Ok(Reply::Acquired(EntryState::Waiting(queued))) = apply(&mut machine, any(2, true)) else {
        panic!("it waits")
    };
    let Queued { lock, ticket, requested_in, .. } = queued[0].clone();
    assert_eq!(lock, shard(0));
    let (owner, target) = (Owner::unnamed(), ReleaseTarget::AnyEntry);
    let locks = shard(1).into();
    let release = Release { locks, session: name(1), owner: owner.clone(), target };
    apply(&mut machine, Command::Release(release)).unwrap();
    let state = machine.entry_state(&shard(0).into(), &name(2), &owner, Some(ticket));
    let grant = state.and_then(EntryState::into_single_grant).unwrap();
    assert_eq!((&grant.lock, grant.ticket, grant.token.0), (&shard(1), ticket, 3));
    let cancel = Cancel { lock, session: name(2), owner, ticket, requested_in };
    let outcome = apply(&mut machine, Command::Cancel(cancel));
    assert!(matches!(outcome, Ok(Reply::Acquired(EntryState::Holding(_)))), "{outcome:?}");
    assert_eq!(machine.lock(&shard(0), 9).waiters_total, 0);
}

/// At the maximum number of shards each acquire gets another shard, and the next one queues at the first.
#[test]
fn shards_are_independent_locks_up_to_their_maximum() {
    let mut machine = Machine::new();
    let count = LockPolicy::SHARDS_MAX;
    let shards = Some(ShardRequest { count: Some(count), choice: ShardChoice::Any });
    for n in 0..=count as usize {
        let commands = vec![acquire(n, shards, true)];
        let applied = machine.apply(Entry { stamped_at: Stamp(0), commands });
        match applied.outcomes.into_iter().next() {
            Some(Ok(Reply::Acquired(EntryState::Holding(grant)))) => {
                assert_eq!(grant[0].lock, shard(n));
            }
            Some(Ok(Reply::Acquired(EntryState::Waiting(queued)))) => {
                assert_eq!((n as u32, &queued[0].lock), (count, &shard(0)));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(machine.lock(&resource(), 1).shards.len() as u32, count);
}

/// Runs the line of a golden script.
pub(super) fn run_line(machine: &mut Machine, line: &str) -> Outcome {
    let commands = vec![Words::of(line).command(machine)];
    let outcome = machine.apply(Entry { stamped_at: Stamp(0), commands }).outcomes.remove(0);
    machine.check_invariants().unwrap();
    outcome
}

#[test]
fn a_late_copy_acquires_nothing_after_the_shards_were_introduced_or_dropped() {
    let over = Err(Rejection::Lock(LockRejection::AttemptOver { newest: Attempt(5) }));
    for (before, after) in [("none", "2"), ("2", "none"), ("2", "4")] {
        for release in ["release stock/1 a attempt=5", "release stock/1 a token=1"] {
            let mut machine = Machine::new();
            let copied = "acquire stock/1 a attempt=5";
            for line in [format!("policy stock shards={before}").as_str(), copied, release] {
                run_line(&mut machine, line).unwrap();
            }
            run_line(&mut machine, &format!("policy stock shards={after}")).unwrap();
            assert_eq!(run_line(&mut machine, copied), over, "{before} to {after}, {release}");
        }
    }
}

#[test]
fn a_session_has_one_record_of_a_sharded_lock_and_none_of_its_shards() {
    let mut machine = Machine::new();
    let mut run = |line: String| run_line(&mut machine, &line);
    for n in 0..EndedAttempts::COUNT_MAX {
        run(format!("acquire stock{n} a shards=2 attempt=9")).unwrap();
        run(format!("release stock{n} a attempt=9")).unwrap();
    }
    run("acquire other a attempt=1".into()).unwrap();
}

#[test]
fn a_plain_lock_is_no_shard_of_the_plain_lock_above_it() {
    let mut machine = Machine::new();
    for line in ["acquire x a attempt=2", "release x a attempt=2", "acquire x/1 a attempt=1"] {
        run_line(&mut machine, line).unwrap();
    }
}

#[test]
fn a_waiter_gets_another_shard_when_its_request_or_the_room_there_changes() {
    let permits = [
        "acquire s a shards=2 limit=2 permits=2",
        "acquire s b shards=2 limit=2",
        "acquire s c shards=2 limit=2 permits=2",
    ];
    let modes = [
        "acquire s a shards=2 attempt=1",
        "acquire s b shards=2 attempt=1",
        "acquire s c shards=2 mode=shared",
    ];
    for (lines, change) in [
        (permits, "release s c permits=1"),
        (permits, "release s b permits=1"),
        (permits, "policy s/1 limit=3"),
        (modes, "acquire s b change=1 attempt=2 mode=shared shards=2"),
        (modes, "release s b"),
    ] {
        let mut machine = Machine::new();
        for line in lines.into_iter().chain([change]) {
            run_line(&mut machine, line).unwrap();
        }
        let holders = machine.lock(&lock_name("s/1"), 9).holders;
        let c = session_name("c");
        assert!(holders.iter().any(|holder| holder.session == c), "{change}: {holders:?}");
    }
}

#[test]
fn no_acquire_and_no_hand_over_gives_an_owner_a_second_shard() {
    let mut machine = Machine::new();
    let mut run = |line| run_line(&mut machine, line);
    let queued = |lock| LockRejection::AlreadyQueued { lock: lock_name(lock) };
    let rejected = |lock| Err(Rejection::Lock(queued(lock)));
    for line in ["acquire stock a shards=3", "acquire stock b shards=3"] {
        run(line).unwrap();
    }
    assert_eq!(run("acquire stock/2 a"), rejected("stock/0"));
    assert_eq!(run("hand_over stock/1 b a"), rejected("stock/0"));
    let why = Box::new(queued("stock/2").into());
    let of_multi_lock = LockRejection::OfMultiLock { lock: lock_name("stock/1"), why };
    assert_eq!(run("acquire stock/1,stock/2 c"), Err(of_multi_lock.into()));
    // Its own shard, another owner, a lock that is no shard, and a receiver without a shard.
    for line in [
        "acquire stock/0 a",
        "acquire stock/2 a owner=t",
        "acquire stock/3 a",
        "acquire other c",
        "hand_over stock/1 b c",
    ] {
        run(line).unwrap();
    }
}

#[test]
fn a_waiter_for_any_shard_is_deadlocked_only_if_all_shards_are_blocked() {
    let waits = |outcome: Outcome| match outcome {
        Ok(Reply::Acquired(EntryState::Waiting(_))) => Ok(()),
        Err(Rejection::Lock(LockRejection::Deadlock { cycle })) => {
            let named = |(session, _, lock): &Blocked| format!("{session} {lock}");
            Err(cycle.iter().map(named).collect::<Vec<_>>())
        }
        other => panic!("{other:?}"),
    };
    let start = || {
        let mut machine = Machine::new();
        for line in ["acquire s a shards=2", "acquire s b shards=2", "acquire x c"] {
            run_line(&mut machine, line).unwrap();
        }
        machine
    };
    let mut machine = start();
    waits(run_line(&mut machine, "acquire x a")).unwrap();
    // The shard with the fewest entries is the one of a, which waits for c.
    waits(run_line(&mut machine, "acquire s c shards=2")).unwrap();
    run_line(&mut machine, "release s b").unwrap();
    let view = machine.lock(&lock_name("s/1"), 9);
    assert_eq!(view.holders[0].session, session_name("c"));
    // All shards are blocked before.
    let mut machine = start();
    waits(run_line(&mut machine, "acquire x a")).unwrap();
    waits(run_line(&mut machine, "acquire x b")).unwrap();
    let cycle = waits(run_line(&mut machine, "acquire s c shards=2")).unwrap_err();
    assert_eq!(cycle, ["c s/1", "b x"]);
    // A waiter for a named shard waits for that one alone.
    waits(run_line(&mut machine, "acquire s d shards=2")).unwrap();
    let mut machine = start();
    waits(run_line(&mut machine, "acquire x a")).unwrap();
    waits(run_line(&mut machine, "acquire s c shards=2 shard=0")).unwrap_err();
}

/// In a semaphore, each attempt has an entry.
#[test]
fn all_attempts_of_an_owner_wait_for_one_shard() {
    let holders = |machine: &Machine, at| {
        let holders = machine.lock(&lock_name(&format!("s/{at}")), 9).holders;
        holders.iter().map(|holder| holder.session.to_string()).collect::<Vec<_>>()
    };
    // The owner holds a shard, or waits in the queue of one.
    for (lines, release, first) in [
        (&["acquire s a shards=2 limit=1 attempt=1"][..], "release s/0 a attempt=1", "a"),
        (
            &[
                "acquire s x shards=2 limit=1",
                "acquire s/1 b limit=1",
                "acquire s a shards=2 attempt=1",
            ],
            "release s/0 x",
            "a",
        ),
    ] {
        for second in ["acquire s a shards=2 attempt=2", "acquire s/0 a attempt=2"] {
            let mut machine = Machine::new();
            for line in lines.iter().chain(&["acquire s/1 b limit=1", second, "release s/1 b"]) {
                run_line(&mut machine, line).unwrap();
            }
            assert!(holders(&machine, 1).is_empty(), "{second}");
            run_line(&mut machine, release).unwrap();
            assert_eq!((holders(&machine, 0), holders(&machine, 1)), (vec![first.into()], vec![]));
        }
    }
    // The waiter behind one that stays gets the room in another shard at once.
    let mut machine = Machine::new();
    for line in [
        "acquire s a shards=2 limit=3 permits=2",
        "acquire s b shards=2 limit=3",
        "acquire s e shards=2 limit=3 permits=2",
        "acquire s c shards=2 limit=3 permits=3 attempt=1",
        "acquire s d shards=2 limit=3 permits=2",
        "release s e",
        "acquire s c shards=2 limit=3 permits=2 attempt=2",
    ] {
        run_line(&mut machine, line).unwrap();
    }
    assert_eq!(holders(&machine, 1), ["b", "d"]);
}

/// A shard without a directory has no limit. `g` waits for a shard with one, `f` for a shard without one.
#[test]
fn a_shard_that_only_the_next_waiter_can_hold_is_offered_when_the_first_one_leaves() {
    for leaves in ["release s g", "release s y"] {
        let mut machine = Machine::new();
        for line in [
            "policy s shards=4",
            "policy s/0 limit=1",
            "acquire s a shard=0",
            "acquire s b shard=1",
            "acquire s x shard=2",
            "acquire s y shard=3",
            "acquire s g shards=4",
            "acquire s f shards=4",
            "delete /locks/s/2 recursive",
            leaves,
        ] {
            run_line(&mut machine, line).unwrap();
        }
        let holders = machine.lock(&lock_name("s/2"), 9).holders;
        assert!(holders.iter().any(|holder| holder.session == session_name("f")), "{leaves}");
    }
}

/// A line of a history of attempts in three shards, of which some have a limit.
fn attempt_line() -> impl Strategy<Value = String> {
    let (session, shard, number) = (0..4_usize, 0..3_usize, 1..4_u32);
    let any =
        (session.clone(), number.clone(), 0..2_u8, prop::option::weighted(0.2, shard.clone()));
    prop_oneof![
        6 => any.prop_map(|(session, permits, priority, shard)| {
            let shard = shard.map_or(String::new(), |shard| format!("shard={shard}"));
            let permits = if permits > 1 { format!("permits={permits}") } else { String::new() };
            format!("acquire s s{session} shards=3 attempt=N {permits} priority={priority} {shard}")
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
                Some(lock) => lock.waiters.is_empty() && lock.has_room_for(waiter.request()),
                None => shards[own].is_none_or(|own| own.policy().limit.is_none()),
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
