//! Breaks, release requests and hand-overs in random histories: each keeps its guarantees.

use holdfast_types::LockEvent;
use std::collections::BTreeMap;

use holdfast_types::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::guarantees::ensure;
use super::model::named_by;
use super::random::{config, seeded_runner};
use super::script_commands::{self, lock_name, multi, of_session, session_name};
use crate::Machine;

/// `r` has readers, `s` is a semaphore, `d` has a lock-delay, `z` has ZooKeeper clients too.
const LOCKS: [&str; 4] = ["r", "s", "d", "z"];

#[derive(Clone, Debug)]
enum Step {
    Acquire { lock: usize, session: usize, kind: u8 },
    CreateEphemeral(usize),
    Release { lock: usize, session: usize },
    Close(usize),
    ForceRelease { lock: usize, ticket: Option<u64> },
    RequestRelease { lock: usize, session: Option<usize>, deadline_ms: u64, revoke: bool },
    HandOver { lock: usize, from: usize, to: usize },
    Due(usize),
    Wait(u64),
    Reload,
}

fn step() -> impl Strategy<Value = Step> {
    let (lock, session) = (0..4_usize, 0..5_usize);
    let entry = (lock.clone(), session.clone());
    prop_oneof![
        8 => (lock.clone(), session.clone(), 0..6_u8)
            .prop_map(|(lock, session, kind)| Step::Acquire { lock, session, kind }),
        2 => session.clone().prop_map(Step::CreateEphemeral),
        2 => entry.prop_map(|(lock, session)| Step::Release { lock, session }),
        1 => session.clone().prop_map(Step::Close),
        1 => (lock.clone(), prop::option::of(0..60_u64))
            .prop_map(|(lock, ticket)| Step::ForceRelease { lock, ticket }),
        2 => (lock.clone(), prop::option::of(session.clone()), 1..30_u64, prop::bool::ANY).prop_map(
            |(lock, session, deadline_ms, revoke)| {
                Step::RequestRelease { lock, session, deadline_ms, revoke }
            }
        ),
        6 => (lock.clone(), session.clone(), session)
            .prop_map(|(lock, from, to)| Step::HandOver { lock, from, to }),
        2 => lock.prop_map(Step::Due),
        1 => (1..20_u64).prop_map(Step::Wait),
        1 => Just(Step::Reload),
    ]
}

fn session_and_owner(n: usize) -> (SessionName, Owner) {
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
            Self::CreateEphemeral(session) => {
                let at = "/locks/z/lock-";
                let (directory, name) = ZnodePath::for_create(at, true).unwrap();
                let (kind, data, acl) = (CreateKind::Ephemeral, Data::default(), None);
                let (sequential, parents) = (true, true);
                let create = Create { directory, name, data, kind, sequential, acl, parents };
                multi(of_session(&format!("s{session}")), vec![Op::Create(create)])
            }
            Self::Release { lock: n, session } => {
                let (session, owner) = session_and_owner(session);
                Command::Release(Release {
                    locks: lock(n).into(),
                    session,
                    owner,
                    target: ReleaseTarget::AnyEntry,
                })
            }
            Self::Close(n) => Command::CloseSession {
                session: session_and_owner(n).0,
                attachment: None,
                incarnation: None,
            },
            Self::ForceRelease { lock: n, ticket } => {
                let what = ticket.map_or(ForceReleaseTarget::Holders, |ticket| {
                    ForceReleaseTarget::Ticket(Ticket(ticket))
                });
                Command::ForceRelease(ForceRelease { lock: lock(n), what, reason: reason() })
            }
            Self::RequestRelease { lock: n, session, deadline_ms, revoke } => {
                let (lock, holder) = (lock(n), session.map(session_and_owner));
                let reason = Some(reason());
                Command::RequestRelease(RequestRelease {
                    lock,
                    holder,
                    token: None,
                    reason,
                    deadline_ms,
                    revoke,
                })
            }
            Self::HandOver { lock: n, from, to } => Command::HandOver(HandOver {
                lock: lock(n),
                from: session_and_owner(from),
                to: session_and_owner(to),
                token: None,
            }),
            Self::Due(n) => Command::RunTimers { lock: lock(n) },
            Self::Wait(_) | Self::Reload => return None,
        })
    }
}

/// A machine and the expected state.
struct Trial {
    machine: Machine,
    now: u64,
    token: FencingToken,
    /// The release request of each hold: its deadline, and whether it revokes.
    requests: BTreeMap<FencingToken, (u64, bool)>,
    hand_overs: usize,
}

impl Trial {
    fn new() -> Self {
        let mut machine = Machine::new();
        let change = PolicyChange { lock_delay_ms: Some(50), ..PolicyChange::default() };
        let commands = vec![Command::SetPolicy { lock: lock_name("d"), change }];
        machine.apply(Entry { stamped_at: Stamp(0), commands });
        Self { machine, now: 0, token: FencingToken(0), requests: BTreeMap::new(), hand_overs: 0 }
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
        // Expired timers of these locks run before the command, as if the leader had just sent `Due`.
        let mut before = self.machine.clone();
        let stamped_at = Stamp(self.now);
        let mut due =
            |lock| before.apply(Entry { stamped_at, commands: vec![Command::RunTimers { lock }] });
        let timers: usize = named_by(&command).into_iter().map(|lock| due(lock).events.len()).sum();
        let commands = vec![command.clone()];
        let mut applied = self.machine.apply(Entry { stamped_at, commands });
        let outcome = applied.outcomes.remove(0);
        let events: Vec<Event> = applied.events.into_iter().map(|(_, event)| event).collect();
        self.machine.check_invariants()?;
        self.check_tokens(&events)?;
        let events = &events[timers..];
        match (&command, &outcome) {
            (Command::HandOver(hand), Ok(Reply::HandedOver(grant))) => {
                self.check_hand_over(&before, hand, grant, events)?;
            }
            (Command::ForceRelease(release), Ok(_)) => {
                self.check_force_released(&before, release)?;
            }
            (Command::RequestRelease(request), Ok(_)) => self.add_requests(request),
            (Command::RunTimers { lock }, _) => self.check_revoked(lock)?,
            // A rejected release may acknowledge a loss, which may end a cooldown.
            (Command::Release(_), _) => {}
            _ => ensure(outcome.is_ok() || events.is_empty(), "a rejection changes nothing")?,
        }
        self.check_first_tree_entry()?;
        self.check_requests()
    }

    fn check_tokens(&mut self, events: &[Event]) -> Result<(), String> {
        for event in events {
            if let Event::Lock(LockEvent::Granted(grant)) = event {
                ensure(grant.token > self.token, "tokens strictly increase")?;
                self.token = grant.token;
            }
        }
        Ok(())
    }

    /// The giver no longer holds, the receiver holds with the next token, and no other waiter was granted before.
    fn check_hand_over(
        &mut self,
        before: &Machine,
        hand: &HandOver,
        grant: &Grant,
        events: &[Event],
    ) -> Result<(), String> {
        if hand.from == hand.to {
            return ensure(events.is_empty(), "a hand-over to oneself changes nothing");
        }
        self.hand_overs += 1;
        let holds = |machine: &Machine, (session, owner): &(SessionName, Owner)| {
            let state = machine.entry_state(&hand.lock.clone().into(), session, owner, None);
            matches!(state, Some(EntryState::Holding(_)))
        };
        ensure(
            holds(before, &hand.from) && !holds(before, &hand.to),
            "the giver held, and the receiver did not",
        )?;
        ensure(holds(&self.machine, &hand.to), "the receiver holds after a hand-over")?;
        let mut granted = events.iter().filter_map(|event| match event {
            Event::Lock(LockEvent::Granted(grant)) => Some(grant),
            _ => None,
        });
        let first = granted.next().map(|first| (&first.session, first.token));
        ensure(first == Some((&hand.to.0, grant.token)), "the hand-over is the first grant")
    }

    fn check_force_released(&self, before: &Machine, release: &ForceRelease) -> Result<(), String> {
        let (was, is) = (before.lock(&release.lock, 100), self.machine.lock(&release.lock, 100));
        let meant = release.what == ForceReleaseTarget::Holders;
        for holder in was.holders.iter().filter(|_| meant) {
            ensure(is.holders.iter().all(|h| h.token != holder.token), "a broken hold is gone")?;
        }
        let delays = meant && was.holders_total > 0 && was.policy.lock_delay_ms > 0;
        ensure(!delays || is.cooldown.is_some(), "a break starts the lock-delay")
    }

    fn add_requests(&mut self, request: &RequestRelease) {
        let deadline = self.now + request.deadline_ms;
        let view = self.machine.lock(&request.lock, 100);
        let meant = |holder: &&HolderView| {
            request.holder.as_ref().is_none_or(|(session, _)| *session == holder.session)
        };
        // A request to one session only reaches its first entry: a ZooKeeper client may have several.
        let count = if request.holder.is_some() { 1 } else { usize::MAX };
        for holder in view.holders.iter().filter(meant).take(count) {
            let pending = self.requests.entry(holder.token).or_insert((deadline, request.revoke));
            let (sooner, revoke) = (deadline < pending.0, pending.1);
            if (request.revoke && !revoke) || (request.revoke == revoke && sooner) {
                *pending = (deadline, request.revoke);
            }
        }
    }

    fn check_revoked(&self, lock: &LockName) -> Result<(), String> {
        let late = self.machine.lock(lock, 100).holders.into_iter().any(|holder| {
            self.requests.get(&holder.token).is_some_and(|(at, revoke)| *revoke && *at <= self.now)
        });
        ensure(!late, "a hold is revoked at its deadline")
    }

    fn check_requests(&self) -> Result<(), String> {
        for view in LOCKS.map(|lock| self.machine.lock(&lock_name(lock), 100)) {
            for holder in &view.holders {
                let note = view.note(holder).and_then(|note| note.release_request.as_ref());
                let seen = note.map(|request| (request.deadline.0, request.revoke));
                ensure(
                    seen == self.requests.get(&holder.token).copied(),
                    "pending release requests match",
                )?;
            }
        }
        Ok(())
    }

    /// A ZooKeeper client whose znode is the first of its lock believes that it holds.
    fn check_first_tree_entry(&self) -> Result<(), String> {
        let Some(lock) = self.machine.locks.get(&lock_name("z")) else { return Ok(()) };
        let entries = lock.holders.iter().chain(lock.waiters.values());
        let first =
            entries.min_by_key(|entry| entry.sequence()).filter(|first| first.never_overtaken);
        let holds = first.is_none_or(|first| first.hold.is_some());
        ensure(holds, "the first tree entry of a lock holds")
    }
}

fn run(steps: &[Step]) -> Result<usize, String> {
    let mut trial = Trial::new();
    for step in steps {
        trial.step(step).map_err(|what| format!("at {step:?}: {what}"))?;
    }
    Ok(trial.hand_overs)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn breaks_release_requests_and_hand_overs_keep_their_guarantees(
        steps in prop::collection::vec(step(), 1..80),
    ) {
        prop_assert_eq!(run(&steps).err(), None);
    }
}

/// The same histories in each run (`mutations.toml`).
#[test]
fn seeded_breaks_release_requests_and_hand_overs_keep_their_guarantees() {
    let mut runner = seeded_runner();
    let steps = prop::collection::vec(step(), 80);
    let hand_overs: usize =
        (0..200).map(|_| run(&steps.new_tree(&mut runner).unwrap().current()).unwrap()).sum();
    assert!(hand_overs > 200, "only {hand_overs} hand-overs in all histories");
}
