//! Holds that are broken, asked for and handed over, in random histories: what was promised of each is so afterwards.

use holdfast_types::LockEvent;
use std::collections::BTreeMap;

use holdfast_types::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::model::named_by;
use super::script_commands::{self, lock_name, multi, of_session, session_name};
use crate::Machine;

/// `r` for readers, `s` a semaphore, `d` with a lock-delay, `z` for clients of the tree too.
const LOCKS: [&str; 4] = ["r", "s", "d", "z"];

#[derive(Clone, Debug)]
enum Step {
    Acquire { lock: usize, session: usize, kind: u8 },
    Enter(usize),
    Release { lock: usize, session: usize },
    Close(usize),
    Break { lock: usize, ticket: Option<u64> },
    Ask { lock: usize, session: Option<usize>, deadline_ms: u64, revoke: bool },
    Hand { lock: usize, from: usize, to: usize },
    Due(usize),
    Wait(u64),
    Reload,
}

fn step() -> impl Strategy<Value = Step> {
    let (lock, session) = (0..4_usize, 0..5_usize);
    let place = (lock.clone(), session.clone());
    prop_oneof![
        8 => (lock.clone(), session.clone(), 0..6_u8)
            .prop_map(|(lock, session, kind)| Step::Acquire { lock, session, kind }),
        2 => session.clone().prop_map(Step::Enter),
        2 => place.prop_map(|(lock, session)| Step::Release { lock, session }),
        1 => session.clone().prop_map(Step::Close),
        1 => (lock.clone(), prop::option::of(0..60_u64))
            .prop_map(|(lock, ticket)| Step::Break { lock, ticket }),
        2 => (lock.clone(), prop::option::of(session.clone()), 1..30_u64, prop::bool::ANY).prop_map(
            |(lock, session, deadline_ms, revoke)| Step::Ask { lock, session, deadline_ms, revoke }
        ),
        6 => (lock.clone(), session.clone(), session)
            .prop_map(|(lock, from, to)| Step::Hand { lock, from, to }),
        2 => lock.prop_map(Step::Due),
        1 => (1..20_u64).prop_map(Step::Wait),
        1 => Just(Step::Reload),
    ]
}

fn who(n: usize) -> (SessionName, Owner) {
    (session_name(&format!("s{n}")), Owner::unnamed())
}

impl Step {
    fn command(&self) -> Option<Command> {
        let reason = || Reason::new("because").unwrap();
        let lock = |n: usize| lock_name(LOCKS[n]);
        Some(match *self {
            Self::Acquire { lock: n, session, kind } => {
                let open = script_commands::open(&format!("s{session}"));
                let plain = Acquire::new(lock(n), open, Owner::unnamed());
                let shared = LOCKS[n] == "r" && kind < 4;
                let semaphore = LOCKS[n] == "s";
                Command::Acquire(Acquire {
                    mode: shared.then_some(Mode::Shared),
                    limit: semaphore.then_some(3),
                    permits: semaphore.then_some(u32::from(kind % 2) + 1),
                    options: AcquireOptions {
                        max_hold_ms: (kind == 5).then_some(15),
                        ..AcquireOptions::PLAIN
                    },
                    ..plain
                })
            }
            Self::Enter(session) => {
                let at = "/locks/z/lock-";
                let (directory, name) = ZnodePath::for_create(at, true).unwrap();
                let (kind, data, acl) = (CreateKind::Ephemeral, Data::default(), None);
                let (sequential, parents) = (true, true);
                let create = Create { directory, name, data, kind, sequential, acl, parents };
                multi(of_session(&format!("s{session}")), vec![Op::Create(create)])
            }
            Self::Release { lock: n, session } => {
                let (session, owner) = who(session);
                Command::Release(Release {
                    locks: lock(n).into(),
                    session,
                    owner,
                    target: ReleaseTarget::AnyPlace,
                })
            }
            Self::Close(n) => {
                Command::CloseSession { session: who(n).0, attachment: None, incarnation: None }
            }
            Self::Break { lock: n, ticket } => {
                let what = ticket
                    .map_or(BreakTarget::Holders, |ticket| BreakTarget::Ticket(Ticket(ticket)));
                Command::Break(Break { lock: lock(n), what, reason: reason() })
            }
            Self::Ask { lock: n, session, deadline_ms, revoke } => {
                let (lock, holder) = (lock(n), session.map(who));
                let reason = Some(reason());
                Command::RequestRelease(RequestRelease {
                    lock,
                    holder,
                    reason,
                    deadline_ms,
                    revoke,
                })
            }
            Self::Hand { lock: n, from, to } => Command::HandOver(HandOver {
                lock: lock(n),
                from: who(from),
                to: who(to),
                token: None,
            }),
            Self::Due(n) => Command::Due { lock: lock(n) },
            Self::Wait(_) | Self::Reload => return None,
        })
    }
}

/// A machine, and what is to be so.
struct Trial {
    machine: Machine,
    now: u64,
    token: FencingToken,
    /// What was asked of each hold: deadline and whether it is taken away.
    asked: BTreeMap<FencingToken, (u64, bool)>,
    handed: usize,
}

fn ensure(holds: bool, sentence: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("not so: {sentence}")) }
}

impl Trial {
    fn new() -> Self {
        let mut machine = Machine::new();
        let change = PolicyChange { lock_delay_ms: Some(50), ..PolicyChange::default() };
        let commands = vec![Command::SetPolicy { lock: lock_name("d"), change }];
        machine.apply(Entry { stamped_at: Stamp(0), commands });
        Self { machine, now: 0, token: FencingToken(0), asked: BTreeMap::new(), handed: 0 }
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Wait(ms) => self.now += ms,
            Step::Reload => {
                self.machine = Machine::load(self.machine.dump()).map_err(|e| e.to_string())?;
            }
            _ => {}
        }
        let Some(command) = step.command() else { return Ok(()) };
        // Expired timers of the locks that the command names run first: as if the leader had just come for them.
        let mut before = self.machine.clone();
        let stamped_at = Stamp(self.now);
        let mut due =
            |lock| before.apply(Entry { stamped_at, commands: vec![Command::Due { lock }] });
        let timers: usize = named_by(&command).into_iter().map(|lock| due(lock).events.len()).sum();
        let commands = vec![command.clone()];
        let mut applied = self.machine.apply(Entry { stamped_at, commands });
        let outcome = applied.outcomes.remove(0);
        let events: Vec<Event> = applied.events.into_iter().map(|(_, event)| event).collect();
        self.machine.check_invariants()?;
        self.tokens_grow(&events)?;
        let events = &events[timers..];
        match (&command, &outcome) {
            (Command::HandOver(hand), Ok(Reply::HandedOver(grant))) => {
                self.handed(&before, hand, grant, events)?;
            }
            (Command::Break(breaking), Ok(_)) => self.broken(&before, breaking)?,
            (Command::RequestRelease(ask), Ok(_)) => self.ask(ask),
            (Command::Due { lock }, _) => self.done(lock)?,
            // Whoever lost a lock and gives it back takes note of the loss, which may open it, and is refused all the same.
            (Command::Release(_), _) => {}
            _ => ensure(outcome.is_ok() || events.is_empty(), "what is refused changes nothing")?,
        }
        self.first_of_the_tree_holds()?;
        self.requests_are_as_asked()
    }

    fn tokens_grow(&mut self, events: &[Event]) -> Result<(), String> {
        for event in events {
            if let Event::Lock(LockEvent::Granted(grant)) = event {
                ensure(grant.token > self.token, "tokens strictly increase")?;
                self.token = grant.token;
            }
        }
        Ok(())
    }

    /// Who gave it holds no more, who takes it does, under the next token, and nobody else was granted it before.
    fn handed(
        &mut self,
        before: &Machine,
        hand: &HandOver,
        grant: &Grant,
        events: &[Event],
    ) -> Result<(), String> {
        if hand.from == hand.to {
            return ensure(events.is_empty(), "handing it to oneself changes nothing");
        }
        self.handed += 1;
        let holds = |machine: &Machine, (session, owner): &(SessionName, Owner)| {
            let state = machine.entry_state(&hand.lock.clone().into(), session, owner);
            matches!(state, Some(EntryState::Holding(_)))
        };
        ensure(holds(before, &hand.from) && !holds(before, &hand.to), "one held, one did not")?;
        ensure(holds(&self.machine, &hand.to), "it was handed over")?;
        let mut granted = events.iter().filter_map(|event| match event {
            Event::Lock(LockEvent::Granted(grant)) => Some(grant),
            _ => None,
        });
        let first = granted.next().map(|first| (&first.session, first.token));
        ensure(first == Some((&hand.to.0, grant.token)), "nobody gets in between")
    }

    fn broken(&self, before: &Machine, breaking: &Break) -> Result<(), String> {
        let (was, is) = (before.lock(&breaking.lock, 100), self.machine.lock(&breaking.lock, 100));
        let meant = breaking.what == BreakTarget::Holders;
        for holder in was.holders.iter().filter(|_| meant) {
            ensure(is.holders.iter().all(|h| h.token != holder.token), "it was taken away")?;
        }
        let delays = meant && was.holders_total > 0 && was.policy.lock_delay_ms > 0;
        ensure(!delays || is.cooldown.is_some(), "what is broken may be in use still")
    }

    fn ask(&mut self, ask: &RequestRelease) {
        let deadline = self.now + ask.deadline_ms;
        let view = self.machine.lock(&ask.lock, 100);
        let meant = |holder: &&HolderView| {
            ask.holder.as_ref().is_none_or(|(session, _)| *session == holder.session)
        };
        // Of one session only the first place is asked: clients of the tree may have several.
        let count = if ask.holder.is_some() { 1 } else { usize::MAX };
        for holder in view.holders.iter().filter(meant).take(count) {
            let asked = self.asked.entry(holder.token).or_insert((deadline, ask.revoke));
            let (sooner, revoke) = (deadline < asked.0, asked.1);
            if (ask.revoke && !revoke) || (ask.revoke == revoke && sooner) {
                *asked = (deadline, ask.revoke);
            }
        }
    }

    fn done(&self, lock: &LockName) -> Result<(), String> {
        let late = self.machine.lock(lock, 100).holders.into_iter().any(|holder| {
            self.asked.get(&holder.token).is_some_and(|(at, revoke)| *revoke && *at <= self.now)
        });
        ensure(!late, "what was asked for in vain is taken away")
    }

    fn requests_are_as_asked(&self) -> Result<(), String> {
        for view in LOCKS.map(|lock| self.machine.lock(&lock_name(lock), 100)) {
            for holder in &view.holders {
                let note = view.note(holder).and_then(|note| note.release_request.as_ref());
                let seen = note.map(|request| (request.deadline.0, request.revoke));
                ensure(
                    seen == self.asked.get(&holder.token).copied(),
                    "requests stay as they are",
                )?;
            }
        }
        Ok(())
    }

    /// A client of the tree that sees no znode before its own believes that it holds.
    fn first_of_the_tree_holds(&self) -> Result<(), String> {
        let Some(lock) = self.machine.locks.get(&lock_name("z")) else { return Ok(()) };
        let places = lock.holders.iter().chain(lock.waiters.values());
        let first = places.min_by_key(|place| place.sequence()).filter(|first| first.fixed);
        let believes_it = first.is_none_or(|first| first.hold.is_some());
        ensure(believes_it, "who is first in the tree holds")
    }
}

fn run(steps: &[Step]) -> Result<usize, String> {
    let mut trial = Trial::new();
    for step in steps {
        trial.step(step).map_err(|what| format!("at {step:?}: {what}"))?;
    }
    Ok(trial.handed)
}

fn config() -> Config {
    Config { failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_broken_asked_for_and_handed_over_is_as_promised(
        steps in prop::collection::vec(step(), 1..80),
    ) {
        if let Err(what) = run(&steps) {
            prop_assert!(false, "{what}");
        }
    }
}

/// The same histories in each run (`mutations.toml`).
#[test]
fn seeded_holds_are_broken_requested_and_handed_over_as_promised() {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config(), rng);
    let steps = prop::collection::vec(step(), 80);
    let handed: usize =
        (0..200).map(|_| run(&steps.new_tree(&mut runner).unwrap().current()).unwrap()).sum();
    assert!(handed > 200, "only {handed} hand-overs in all histories");
}
