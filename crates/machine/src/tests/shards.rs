//! A resource cut into segments, in random histories: a naive model of one queue to each segment says who stands where,
//! and with that at most one holder to each, one place to each caller, and nobody waiting who came while one was free.

use holdfast_types::LockRejection;
use holdfast_types::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::script_commands::{lock_name, open, session_name};
use crate::Machine;

const SESSIONS: usize = 6;

#[derive(Clone, Debug)]
enum Step {
    Acquire {
        session: usize,
        count: Option<u32>,
        choice: SegmentChoice,
        wait: bool,
    },
    /// The whole, as if it were one lock.
    AcquireWhole(usize),
    /// Of the whole, or of one segment.
    Release {
        session: usize,
        segment: Option<u32>,
    },
    Cancel(usize),
    Close(usize),
    Cut(Option<u32>),
    Reload,
}

fn step() -> impl Strategy<Value = Step> {
    let session = 0..SESSIONS;
    let count = prop::sample::select(vec![Some(3), Some(3), Some(3), Some(4), None]);
    let choice = prop_oneof![
        3 => Just(SegmentChoice::Any),
        1 => (0..5_u32).prop_map(SegmentChoice::At),
    ];
    prop_oneof![
        8 => (session.clone(), count, choice, prop::bool::weighted(0.7))
            .prop_map(|(session, count, choice, wait)| Step::Acquire { session, count, choice, wait }),
        1 => session.clone().prop_map(Step::AcquireWhole),
        4 => (session.clone(), prop::option::weighted(0.3, 0..4_u32))
            .prop_map(|(session, segment)| Step::Release { session, segment }),
        1 => session.clone().prop_map(Step::Cancel),
        1 => session.prop_map(Step::Close),
        1 => prop::option::weighted(0.8, 2..5_u32).prop_map(Step::Cut),
        1 => Just(Step::Reload),
    ]
}

/// What is expected of an acquire.
#[derive(Debug, PartialEq)]
enum Fate {
    Granted(LockName),
    Queued(LockName),
    Refused,
    Busy,
}

/// Into how many it is cut, and a queue to each segment: who is first holds.
#[derive(Clone, Debug, Default)]
struct Model {
    count: Option<u32>,
    queues: Vec<Vec<usize>>,
}

impl Model {
    fn place_of(&self, session: usize) -> Option<usize> {
        self.queues.iter().position(|queue| queue.contains(&session))
    }

    fn leave(&mut self, session: usize) {
        self.queues.iter_mut().for_each(|queue| queue.retain(|one| *one != session));
    }

    fn fate_in(&self, session: usize, at: usize, wait: bool) -> Fate {
        match self.queues[at].iter().position(|one| *one == session) {
            Some(0) => Fate::Granted(segment(at)),
            _ if !wait => Fate::Busy,
            _ => Fate::Queued(segment(at)),
        }
    }

    fn acquire(
        &mut self,
        session: usize,
        said: Option<u32>,
        choice: SegmentChoice,
        wait: bool,
    ) -> Fate {
        let count = match (self.count, said) {
            (Some(count), said) if said.is_none_or(|said| said == count) => count,
            (None, Some(said)) => said,
            _ => return Fate::Refused,
        };
        let before = self.clone();
        self.queues.resize(count as usize, Vec::new());
        let own = self.place_of(session);
        let at = match choice {
            SegmentChoice::At(at) if at >= count || own.is_some_and(|own| own != at as usize) => {
                *self = before;
                return Fate::Refused;
            }
            SegmentChoice::At(at) => at as usize,
            // The first of the shortest queues: a free one if there is one.
            SegmentChoice::Any => own.unwrap_or_else(|| {
                let shortest = self.queues.iter().map(Vec::len).min().unwrap();
                self.queues.iter().position(|queue| queue.len() == shortest).unwrap()
            }),
        };
        if own.is_none() {
            self.queues[at].push(session);
        }
        let fate = self.fate_in(session, at, wait);
        if fate == Fate::Busy {
            *self = before;
        } else {
            self.count = Some(count);
        }
        fate
    }
}

fn name(n: usize) -> SessionName {
    session_name(&format!("s{n}"))
}

fn whole() -> LockName {
    lock_name("stock")
}

fn segment(n: usize) -> LockName {
    Segments::name_of(&whole(), n as u32).unwrap()
}

fn acquire(session: usize, segments: Option<Segments>, wait: bool) -> Command {
    let plain = Acquire::new(whole(), open(name(session).as_str()), Owner::unnamed());
    Command::Acquire(Acquire { segments, wait, ..plain })
}

struct Trial {
    machine: Machine,
    model: Model,
    waited: usize,
}

fn ensure(holds: bool, sentence: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("not so: {sentence}")) }
}

impl Trial {
    fn apply(&mut self, command: Command) -> Result<Outcome, String> {
        let before = self.machine.counts();
        let entry = Entry { stamped_at: Stamp(0), commands: vec![command] };
        let outcome = self.machine.apply(entry).outcomes.remove(0);
        self.machine.check_invariants()?;
        ensure(
            outcome.is_ok() || before == self.machine.counts(),
            "what is refused leaves nothing",
        )?;
        Ok(outcome)
    }

    fn acquire(&mut self, session: usize, segments: Segments, wait: bool) -> Result<(), String> {
        let fate = match self.apply(acquire(session, Some(segments), wait))? {
            Ok(Reply::Granted(grant)) => Fate::Granted(grant[0].lock.clone()),
            Ok(Reply::Queued(queued)) => Fate::Queued(queued[0].lock.clone()),
            Err(Rejection::Lock(
                LockRejection::ShardsMismatch { .. } | LockRejection::AlreadyQueued { .. },
            )) => Fate::Refused,
            Err(Rejection::Lock(LockRejection::Busy { .. })) => Fate::Busy,
            other => return Err(format!("{other:?}")),
        };
        let expected = self.model.acquire(session, segments.count, segments.choice, wait);
        self.waited += usize::from(matches!(fate, Fate::Queued(_)));
        if fate != expected {
            return Err(format!("{fate:?}\nexpected {expected:?}"));
        }
        let (who, owner) = (name(session), Owner::unnamed());
        let found = self.machine.segment_held(&whole(), segments, &who, &owner);
        let told = match fate {
            Fate::Granted(lock) | Fate::Queued(lock) => found == Some(lock),
            Fate::Refused | Fate::Busy => true,
        };
        ensure(told, "who has a segment finds it")
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Acquire { session, count, choice, wait } => {
                self.acquire(session, Segments { count, choice }, wait)?;
            }
            Step::AcquireWhole(session) => {
                if self.model.count.is_some() {
                    let segments = self.model.count;
                    let outcome = self.apply(acquire(session, None, true))?;
                    let refused =
                        outcome == Err(Rejection::Lock(LockRejection::ShardsMismatch { segments }));
                    ensure(refused, "what is cut is not one lock")?;
                }
            }
            Step::Release { session, segment: at } => {
                let lock = at.map_or_else(whole, |at| segment(at as usize));
                let (who, owner) = (name(session), Owner::unnamed());
                let release = Release {
                    locks: lock.into(),
                    session: who,
                    owner,
                    target: ReleaseTarget::AnyPlace,
                };
                self.apply(Command::Release(release))?.ok();
                let place = self.model.place_of(session);
                if at.is_none_or(|at| place == Some(at as usize)) {
                    self.model.leave(session);
                }
            }
            Step::Cancel(session) => self.cancel(session)?,
            Step::Close(n) => {
                let (session, attachment) = (name(n), None);
                self.apply(Command::CloseSession { session, attachment, incarnation: None })?.ok();
                self.model.leave(n);
            }
            Step::Cut(segments) => self.cut(segments)?,
            Step::Reload => {
                self.machine = Machine::load(self.machine.dump()).map_err(|e| e.to_string())?;
            }
        }
        self.compare()
    }

    fn cancel(&mut self, session: usize) -> Result<(), String> {
        let Some(at) = self.model.place_of(session) else { return Ok(()) };
        let (lock, who, owner) = (segment(at), name(session), Owner::unnamed());
        let state = self.machine.entry_state(&lock.clone().into(), &who, &owner);
        let Some(EntryState::Waiting(queued)) = state else {
            return Ok(());
        };
        let Queued { lock, ticket, asked, .. } = queued[0].clone();
        let cancel = Cancel { lock, session: who, owner, ticket, asked };
        let outcome = self.apply(Command::Cancel(cancel))?;
        ensure(outcome == Ok(Reply::Cancelled), "who waits can cancel")?;
        self.model.leave(session);
        Ok(())
    }

    fn cut(&mut self, segments: Option<u32>) -> Result<(), String> {
        let change = PolicyChange { segments: Some(segments), ..PolicyChange::default() };
        let outcome = self.apply(Command::SetPolicy { lock: whole(), change })?;
        let used = self.model.queues.iter().any(|queue| !queue.is_empty());
        if used && segments != self.model.count {
            return ensure(
                matches!(outcome, Err(Rejection::Lock(LockRejection::InUse { .. }))),
                "what is used is not cut anew",
            );
        }
        ensure(outcome.is_ok(), "what nobody uses is cut as wanted")?;
        self.model.count = segments;
        let count = segments.unwrap_or(0) as usize;
        if !used {
            self.model.queues = vec![Vec::new(); count];
        }
        Ok(())
    }

    fn compare(&self) -> Result<(), String> {
        let view = self.machine.lock(&whole(), 100);
        ensure(view.policy.segments == self.model.count, "the number is remembered")?;
        ensure(view.segments.len() as u32 == self.model.count.unwrap_or(0), "all are shown")?;
        for (at, queue) in self.model.queues.iter().enumerate() {
            let one = self.machine.lock(&segment(at), 100);
            let holders = one.holders.iter().map(|holder| holder.session.clone());
            let found: Vec<_> =
                holders.chain(one.waiters.iter().map(|w| w.session.clone())).collect();
            let expected: Vec<_> = queue.iter().map(|session| name(*session)).collect();
            if found != expected || one.holders.len() != queue.len().min(1) {
                return Err(format!("{}: {found:?}\nexpected {expected:?}", segment(at)));
            }
            let shown = &view.segments[at];
            let counted = (shown.holders as usize, shown.waiters as usize);
            ensure(counted == (one.holders.len(), one.waiters.len()), "all are counted")?;
        }
        let places: usize = self.model.queues.iter().map(Vec::len).sum();
        let counts = self.machine.counts();
        ensure(counts.locks_held + counts.waiters == places as u64, "no place beside them")
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

fn config() -> Config {
    Config { failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_caller_has_one_segment_and_waits_for_none_while_one_is_free(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        if let Err(what) = run(&steps) {
            prop_assert!(false, "{what}");
        }
    }
}

/// The same histories in each run (`mutations.toml`).
#[test]
fn seeded_callers_have_one_segment() {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config(), rng);
    let steps = prop::collection::vec(step(), 60);
    let waited: usize =
        (0..50).map(|_| run(&steps.new_tree(&mut runner).unwrap().current()).unwrap()).sum();
    assert!(waited > 50, "only {waited} waits in all histories");
}

/// The largest number of segments: every one is another, and the next caller queues at the first.
#[test]
fn a_thousand_segments_are_a_thousand_locks() {
    let mut machine = Machine::new();
    let count = LockPolicy::SEGMENTS_MAX;
    let segments = Some(Segments { count: Some(count), choice: SegmentChoice::Any });
    for n in 0..=count as usize {
        let commands = vec![acquire(n, segments, true)];
        let applied = machine.apply(Entry { stamped_at: Stamp(0), commands });
        match applied.outcomes.into_iter().next() {
            Some(Ok(Reply::Granted(grant))) => assert_eq!(grant[0].lock, segment(n)),
            Some(Ok(Reply::Queued(queued))) => {
                assert_eq!((n as u32, &queued[0].lock), (count, &segment(0)));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(machine.lock(&whole(), 1).segments.len() as u32, count);
}
