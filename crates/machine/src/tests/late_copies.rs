//! Late copies of calls, delivered by a network or a resumed node after the client received a reply and continued. As
//! in our clients, every acquire, change and open names its attempt, every release and hand-over its token or attempt,
//! and every close its incarnation. A client that gives up after a rejection cancels its attempt. A late copy then
//! changes no entry, no mode, no value, no TTL and no label.

use holdfast_types::LockRejection;
use holdfast_types::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::random::seeded_runner;
use super::script_commands::{lock_name, lock_set, session_name};
use crate::session::attempts::EndedAttempts;
use crate::{LockFilter, Machine};

const LOCKS: [&str; 3] = ["a", "b", "c"];
const SESSIONS: usize = 3;

/// The next step of a client. Numbers pick among the sessions and locks.
#[derive(Clone, Debug)]
enum Step {
    /// Begins a new attempt.
    Acquire { session: usize, lock: usize, shard: bool, mode: Mode },
    /// Acquires the current lock with another attempt.
    Nest { session: usize, mode: Mode, value: u8 },
    /// Changes the n-th claim of the session.
    Change { session: usize, n: usize, mode: Option<Mode>, value: Option<u8> },
    /// Sets the TTL and a label of the session.
    Open { session: usize, ttl: u64 },
    /// Releases the n-th claim of the session, or its hold by token.
    Release { session: usize, n: usize, by_token: bool },
    /// Hands the newest hold of the session to another session.
    HandOver { session: usize, to: usize },
    /// Acquires or releases the multi-lock of `d` and `e`.
    MultiLock { session: usize, release: bool },
    /// Closes and reopens the session.
    Reopen { session: usize },
    /// Repeats a call that was answered before.
    LateCopy(usize),
}

/// An answered call. Its attempt decides whether a copy may still have an effect.
struct Call {
    command: Command,
    session: usize,
    attempt: Option<Attempt>,
}

/// The attempts of an entry, its locks and the token of its hold.
type Current = (Vec<Attempt>, Vec<LockName>, Option<FencingToken>);

struct Clients {
    machine: Machine,
    calls: Vec<Call>,
    /// The current attempt of each session.
    current: Vec<Option<Current>>,
    incarnations: Vec<SessionId>,
    attempts: u64,
}

fn step() -> impl Strategy<Value = Step> {
    let session = 0..SESSIONS;
    let mode = || prop::sample::select(Mode::ALL.to_vec());
    let (some_mode, some_value) = (prop::option::of(mode()), prop::option::of(0..3_u8));
    prop_oneof![
        6 => (session.clone(), 0..LOCKS.len(), prop::bool::weighted(0.2), mode())
            .prop_map(|(session, lock, shard, mode)| Step::Acquire { session, lock, shard, mode }),
        6 => (session.clone(), mode(), 0..3_u8)
            .prop_map(|(session, mode, value)| Step::Nest { session, mode, value }),
        8 => (session.clone(), any::<usize>(), some_mode, some_value)
            .prop_map(|(session, n, mode, value)| Step::Change { session, n, mode, value }),
        3 => (session.clone(), 2..60_u64)
            .prop_map(|(session, ttl)| Step::Open { session, ttl }),
        5 => (session.clone(), any::<usize>(), any::<bool>())
            .prop_map(|(session, n, by_token)| Step::Release { session, n, by_token }),
        2 => (session.clone(), session.clone())
            .prop_map(|(session, to)| Step::HandOver { session, to }),
        2 => (session.clone(), any::<bool>())
            .prop_map(|(session, release)| Step::MultiLock { session, release }),
        1 => session.prop_map(|session| Step::Reopen { session }),
        8 => any::<usize>().prop_map(Step::LateCopy),
    ]
}

fn name(session: usize) -> SessionName {
    session_name(&format!("s{session}"))
}

/// All holders, waiters and open sessions, as text. Renewals change only the generations of leases.
fn entries(machine: &Machine) -> String {
    let locks = machine.locks(&LockFilter::default(), None, 100, |_| true);
    let sessions = machine.sessions(None, 100, |_| true).items;
    let settings = |view: SessionView| (view.session, view.id, view.ttl, view.labels);
    let sessions: Vec<_> = sessions.into_iter().map(settings).collect();
    let entry = |lock: &LockView| (lock.lock.clone(), lock.holders.clone(), lock.waiters.clone());
    let entries: Vec<_> = locks.items.iter().map(entry).collect();
    format!("{entries:?} {sessions:?}")
}

impl Clients {
    fn new() -> Self {
        let machine = Machine::new();
        let none = (0..SESSIONS).map(|_| None).collect();
        let incarnations = vec![SessionId(0); SESSIONS];
        let mut new = Self { machine, calls: Vec::new(), current: none, incarnations, attempts: 0 };
        (0..SESSIONS).for_each(|session| new.open(session));
        new
    }

    fn apply(&mut self, command: Command) -> Outcome {
        let entry = Entry { stamped_at: Stamp(0), commands: vec![command] };
        let outcome = self.machine.apply(entry).outcomes.remove(0);
        self.machine.check_invariants().unwrap();
        outcome
    }

    fn call(&mut self, session: usize, attempt: Option<Attempt>, command: Command) -> Outcome {
        self.calls.push(Call { command: command.clone(), session, attempt });
        self.apply(command)
    }

    fn open(&mut self, session: usize) {
        self.set_ttl(session, 30);
    }

    fn set_ttl(&mut self, session: usize, seconds: u64) {
        let attempt = Some(self.next_attempt());
        let labels = [("ttl".to_owned(), seconds.to_string())].into_iter().collect();
        let open = OpenSession {
            ttl: Some(Ttl::from_millis(seconds * 1_000).unwrap()),
            labels: Labels::new(labels).unwrap(),
            ..super::script_commands::open(name(session).as_str())
        };
        let opened = self.call(session, None, Command::OpenSession { open, attempt });
        let Ok(Reply::SessionOpened(SessionOpenedReply { id, ttl, .. })) = opened else {
            panic!("{opened:?}")
        };
        assert_eq!(u64::from(ttl.as_millis()), seconds * 1_000, "a newer attempt sets the TTL");
        self.incarnations[session] = id;
    }

    fn next_attempt(&mut self) -> Attempt {
        self.attempts += 1;
        Attempt(self.attempts)
    }

    fn acquire(&mut self, session: usize, lock: &str, shard: bool, mode: Mode) {
        let attempt = self.next_attempt();
        let (count, choice) = (Some(2), ShardChoice::Any);
        let lock = if shard { lock_name("cut") } else { lock_name(lock) };
        let open = super::script_commands::open(name(session).as_str());
        let plain = Acquire::new(lock.clone(), open, Owner::unnamed());
        let shards = shard.then_some(ShardRequest { count, choice });
        let acquire = Acquire { attempt: Some(attempt), shards, mode: Some(mode), ..plain };
        let (lock, token) = match self.call(session, Some(attempt), Command::Acquire(acquire)) {
            Ok(Reply::Acquired(EntryState::Holding(grants))) => {
                (grants[0].lock.clone(), Some(grants[0].token))
            }
            Ok(Reply::Acquired(EntryState::Waiting(queued))) => (queued[0].lock.clone(), None),
            // A deadlock, or an entry of a multi-lock.
            Ok(_) | Err(_) => return self.cancel(session, attempt, lock.into()),
        };
        self.current[session] = Some((vec![attempt], vec![lock], token));
    }

    /// Acquires the current lock again, or changes one of its claims.
    fn again(
        &mut self,
        session: usize,
        change: Option<usize>,
        mode: Option<Mode>,
        value: Option<u8>,
    ) {
        let Some((attempts, locks, _)) = self.current[session].clone() else { return };
        let [lock] = locks.as_slice() else { return };
        let change = change.map(|n| attempts[n % attempts.len()]);
        let attempt = self.next_attempt();
        let open = super::script_commands::open(name(session).as_str());
        let plain = Acquire::new(lock.clone(), open, Owner::unnamed());
        let value = value.map(|value| Data::from(vec![value]));
        let options = AcquireOptions { value, ..AcquireOptions::PLAIN };
        let again = Acquire { attempt: Some(attempt), change, mode, options, ..plain };
        let is_new = change.is_none();
        let outcome = self.call(session, is_new.then_some(attempt), Command::Acquire(again));
        match outcome {
            Ok(Reply::Acquired(state)) => {
                let current = self.current[session].as_mut().unwrap();
                current.0.extend(is_new.then_some(attempt));
                if let EntryState::Holding(grants) = state {
                    current.2 = Some(grants[0].token);
                }
            }
            Ok(_) | Err(_) => self.cancel(session, attempt, lock.clone().into()),
        }
    }

    /// Gives up an attempt that was rejected.
    fn cancel(&mut self, session: usize, attempt: Attempt, locks: LockSet) {
        let (session_name, owner) = (name(session), Owner::unnamed());
        let target = ReleaseTarget::Attempt(attempt);
        let cancel = Release { locks, session: session_name, owner, target };
        self.call(session, None, Command::Release(cancel)).unwrap();
    }

    fn release(&mut self, session: usize, n: usize, by_token: bool) {
        let Some((mut attempts, locks, token)) = self.current[session].take() else { return };
        let attempt = attempts.remove(n % attempts.len());
        let target = match token.filter(|_| by_token) {
            Some(token) => ReleaseTarget::Hold(token),
            None => ReleaseTarget::Attempt(attempt),
        };
        for lock in &locks {
            let (session_name, owner) = (name(session), Owner::unnamed());
            let locks = lock.clone().into();
            let release = Release { locks, session: session_name, owner, target };
            drop(self.call(session, None, Command::Release(release)));
        }
        let is_by_attempt = matches!(target, ReleaseTarget::Attempt(_));
        if is_by_attempt && !attempts.is_empty() {
            self.current[session] = Some((attempts, locks, token));
        }
    }

    fn hand_over(&mut self, session: usize, to: usize) {
        let Some((_, locks, Some(token))) = self.current[session].clone() else { return };
        let [lock] = locks.as_slice() else { return };
        let (from, to) = ((name(session), Owner::unnamed()), (name(to), Owner::unnamed()));
        let hand_over = HandOver { lock: lock.clone(), from, to, token: Some(token) };
        let first = self.call(session, None, Command::HandOver(hand_over.clone()));
        if first.is_ok() {
            self.current[session] = None;
            let again = self.apply(Command::HandOver(hand_over));
            let first = first.map(|reply| reply.into_first().0);
            let again = again.map(|reply| reply.into_first().0);
            assert_eq!(first, again, "a copy returns the first reply");
        } else {
            // The hold keeps its token, so a copy of a rejected transfer is another try.
            self.calls.pop();
        }
    }

    fn multi_lock(&mut self, session: usize, release: bool) {
        let locks: Vec<_> = ["d", "e"].map(lock_name).to_vec();
        let (open, owner) =
            (super::script_commands::open(name(session).as_str()), Owner::unnamed());
        match (&self.current[session], release) {
            (Some((attempts, held, _)), true) if *held == locks => {
                let (locks, target) = (lock_set(&["d", "e"]), ReleaseTarget::Attempt(attempts[0]));
                let release = Release { locks, session: name(session), owner, target };
                drop(self.call(session, None, Command::Release(release)));
                self.current[session] = None;
            }
            (None, false) => {
                let attempt = self.next_attempt();
                let plain = Acquire::new(lock_set(&["d", "e"]), open, owner);
                let all = Acquire { attempt: Some(attempt), ..plain };
                match self.call(session, Some(attempt), Command::Acquire(all)) {
                    Ok(_) => self.current[session] = Some((vec![attempt], locks, None)),
                    Err(_) => self.cancel(session, attempt, lock_set(&["d", "e"])),
                }
            }
            (Some(_) | None, _) => {}
        }
    }

    fn reopen(&mut self, session: usize) {
        let incarnation = Some(self.incarnations[session]);
        let close = Command::CloseSession { session: name(session), attachment: None, incarnation };
        self.call(session, None, close).unwrap();
        self.current[session] = None;
        self.open(session);
    }

    /// Repeats an answered call. Fails if an entry or a session changes.
    fn late_copy(&mut self, n: usize) -> Result<(), TestCaseError> {
        let is_over = |call: &Call| {
            let current = self.current[call.session].as_ref();
            let is_current = |n| current.is_some_and(|(attempts, ..)| attempts.contains(&n));
            !call.attempt.is_some_and(is_current)
        };
        let over: Vec<_> = self.calls.iter().filter(|call| is_over(call)).collect();
        let Some(call) = over.get(n % over.len().max(1)) else { return Ok(()) };
        let (command, before) = (call.command.clone(), entries(&self.machine));
        let outcome = self.apply(command.clone());
        let after = entries(&self.machine);
        prop_assert_eq!(before, after, "a late {:?} had an effect: {:?}", command, outcome);
        Ok(())
    }

    fn run(&mut self, steps: Vec<Step>) -> Result<(), TestCaseError> {
        for step in steps {
            match step {
                Step::Acquire { session, lock, shard, mode } if self.current[session].is_none() => {
                    self.acquire(session, LOCKS[lock], shard, mode);
                }
                Step::Acquire { .. } => {}
                Step::Nest { session, mode, value } => {
                    self.again(session, None, Some(mode), Some(value));
                }
                Step::Change { session, n, mode, value } => {
                    self.again(session, Some(n), mode, value);
                }
                Step::Open { session, ttl } => self.set_ttl(session, ttl),
                Step::Release { session, n, by_token } => self.release(session, n, by_token),
                Step::HandOver { session, to } => self.hand_over(session, to),
                Step::MultiLock { session, release } => self.multi_lock(session, release),
                Step::Reopen { session } => self.reopen(session),
                Step::LateCopy(n) => self.late_copy(n)?,
            }
        }
        Ok(())
    }
}

#[test]
fn a_late_copy_of_a_call_changes_no_entry_and_no_session() {
    let config = ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let steps = prop::collection::vec(step(), 1..60);
    runner.run(&steps, |steps| Clients::new().run(steps)).unwrap();
}

/// The same histories in each run (`mutations.toml`).
#[test]
fn seeded_late_copies_change_no_entry_and_no_session() {
    let (mut runner, steps) = (seeded_runner(), prop::collection::vec(step(), 60));
    for _ in 0..300 {
        Clients::new().run(steps.new_tree(&mut runner).unwrap().current()).unwrap();
    }
}

/// The receiver had the lock when the first copy arrived.
#[test]
fn a_copy_of_a_rejected_transfer_is_another_try() {
    let mut clients = Clients::new();
    for session in [0, 1] {
        clients.acquire(session, LOCKS[1], false, Mode::Shared);
    }
    let token = clients.current[0].as_ref().unwrap().2;
    let (from, to) = ((name(0), Owner::unnamed()), (name(1), Owner::unnamed()));
    let hand_over = HandOver { lock: lock_name(LOCKS[1]), from, to, token };
    let copy = |clients: &mut Clients| clients.apply(Command::HandOver(hand_over.clone()));
    assert!(matches!(copy(&mut clients), Err(Rejection::Lock(LockRejection::AlreadyHolds { .. }))));
    clients.release(1, 0, true);
    assert!(copy(&mut clients).is_ok());
}

/// The acquire is rejected because it would close a deadlock cycle. Then the cycle is gone, and a copy arrives.
#[test]
fn a_late_copy_of_a_cancelled_attempt_has_no_effect_after_its_deadlock_is_gone() {
    let mode = Mode::Exclusive;
    let acquire = |session, lock| Step::Acquire { session, lock, shard: false, mode };
    let steps = vec![
        acquire(0, 0),
        Step::HandOver { session: 0, to: 1 },
        acquire(2, 1),
        Step::HandOver { session: 2, to: 0 },
        acquire(0, 0),
        acquire(1, 1),
        Step::Reopen { session: 0 },
    ];
    let mut clients = Clients::new();
    clients.run(steps).unwrap();
    assert_eq!(clients.current[1], None, "the acquire was rejected");
    for n in 0..clients.calls.len() {
        clients.late_copy(n).unwrap();
    }
}

#[test]
fn an_attempt_stays_ended_after_its_record_is_dropped() {
    let records = check_dropped_records("lock", EndedAttempts::COUNT_MAX as u64 + 10);
    assert_eq!(records, EndedAttempts::COUNT_MAX);
}

#[test]
fn long_names_have_fewer_records() {
    let long = "l".repeat(500);
    let records = check_dropped_records(&long, 100);
    assert_eq!(records, EndedAttempts::BYTES_MAX / (long.len() + 3));
}

/// Ends the attempts of `count` locks, and checks that no late copy of them has an effect. Returns the number of records.
fn check_dropped_records(names: &str, count: u64) -> usize {
    let mut machine = Machine::new();
    let mut apply = |command| {
        let entry = Entry { stamped_at: Stamp(0), commands: vec![command] };
        machine.apply(entry).outcomes.remove(0)
    };
    let lock = |n: u64| lock_name(&format!("{names}{n:03}"));
    let owner = Owner::unnamed;
    let acquire = |n: u64| {
        let open = super::script_commands::open("s");
        let plain = Acquire::new(lock(n), open, owner());
        Command::Acquire(Acquire { attempt: Some(Attempt(n)), ..plain })
    };
    let release = |n: u64| {
        let (locks, session) = (lock(n).into(), session_name("s"));
        let target = ReleaseTarget::Attempt(Attempt(n));
        Command::Release(Release { locks, session, owner: owner(), target })
    };
    let held = 1;
    apply(acquire(held)).unwrap();
    for n in held + 1..=count {
        apply(acquire(n)).unwrap();
        apply(release(n)).unwrap();
    }
    for n in held + 1..=count {
        let late = apply(acquire(n));
        assert!(
            matches!(late, Err(Rejection::Lock(LockRejection::AttemptOver { newest })) if newest.0 >= n),
            "{n}"
        );
    }
    let renewed = apply(acquire(held));
    assert!(
        matches!(renewed, Ok(Reply::Acquired(EntryState::Holding(grants))) if grants[0].renewed),
        "a current attempt keeps its hold"
    );
    apply(acquire(count + 1)).unwrap();
    let session = machine.sessions.iter().next().unwrap();
    session.ended_attempts.records.len()
}
