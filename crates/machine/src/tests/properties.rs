//! Properties of every history.

use holdfast_types::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::history::{HistorySubject, Move, history, history_about};
use super::model_check::Trial;
use super::random::{config, seeded_runner};
use super::script_commands::{self, multi, numbered, of_session, path, session_name};
use crate::Machine;

/// The maximum length of a history.
const STEPS: usize = 130;

proptest! {
    #![proptest_config(config())]

    /// Guarantees 1, 2, 4, 6 and 8: the machine and the naive model agree on every history, with retries and snapshots
    /// at any point. Every invariant holds after every command.
    #[test]
    fn the_machine_follows_the_model(history in history(STEPS)) {
        prop_assert_eq!(Trial::run(&history).err(), None);
    }

    /// The state and the digests depend on the commands and their stamps, not on the batches.
    #[test]
    fn batching_does_not_change_the_state(history in history(60), sizes in prop::collection::vec(1..9_usize, 60)) {
        let Ok(trial) = Trial::run(&history) else { return Ok(()) };
        let mut batched = Machine::new();
        let mut rest = &trial.commands[..];
        for size in sizes {
            let Some(((stamp, _), _)) = rest.split_first() else { break };
            let same_stamp = rest.iter().take_while(|(other, _)| other == stamp).count();
            let (batch, later) = rest.split_at(size.min(same_stamp));
            let commands: Vec<_> = batch.iter().map(|(_, command)| command.clone()).collect();
            let applied = batched.apply(Entry { stamped_at: Stamp(*stamp), commands });
            prop_assert_eq!(applied.outcomes.len(), batch.len());
            rest = later;
        }
        if rest.is_empty() {
            prop_assert_eq!(batched.state_digest(), trial.machine.state_digest());
            prop_assert_eq!(batched.digest(), trial.machine.digest());
        }
    }

    /// P12, exactly once: every call has a number. Sending any command again at any later time does not change the
    /// tree, and every retry returns the first reply.
    #[test]
    fn a_retry_of_any_prefix_has_no_effect(
        steps in prop::collection::vec((0..6_usize, 0..4_usize, prop::option::of(0..40_usize)), 1..40),
    ) {
        let (mut once, mut retried) = (opened(), opened());
        let mut firsts: Vec<(Command, Outcome)> = Vec::new();
        for (number, (kind, at, again)) in steps.into_iter().enumerate() {
            let command = change(number, kind, at);
            let first = outcome(&mut retried, command.clone());
            prop_assert_eq!(strip(&first), strip(&outcome(&mut once, command.clone())));
            firsts.push((command, first));
            let retry = again.and_then(|n| firsts.len().checked_sub(1 + n)).unwrap_or(firsts.len());
            for (command, first) in firsts.iter().skip(retry) {
                let again = outcome(&mut retried, command.clone());
                prop_assert_eq!(&again.map(|reply| reply.into_first().0), first);
            }
        }
        prop_assert_eq!(contents(&once), contents(&retried));
    }
}

/// `s2` holds `a/c`, and its multi-lock waits for `a`, so `s4` waits behind it.
#[test]
fn the_locks_of_an_ended_session_are_granted_in_the_order_of_their_names() {
    let mut trial = Trial::new();
    for line in [
        "acquire a s1",
        "acquire a/c s2",
        "acquire a,s s2",
        "acquire a/c s3",
        "acquire s s4",
        "close s2",
    ] {
        let command = script_commands::Words::of(line).command(&trial.machine);
        trial.step(&Move::Command(command)).unwrap();
    }
    let token = |lock| trial.machine.lock(&script_commands::lock_name(lock), 9).holders[0].token;
    assert!(token("a/c") < token("s"));
}

/// The claim without a number has the same number as a change without one.
#[test]
fn an_unnamed_change_belongs_to_the_claim_that_it_names() {
    let mut trial = Trial::new();
    for line in [
        "acquire a s1 mode=shared",
        "acquire a s2 mode=upgradable",
        "acquire a s2 attempt=1 mode=shared",
        "acquire a s2 change=1 mode=exclusive",
        "cancel a s2 ticket=2 asked=4",
    ] {
        let command = script_commands::Words::of(line).command(&trial.machine);
        trial.step(&Move::Command(command)).unwrap();
    }
    let view = trial.machine.lock(&script_commands::lock_name("a"), 9);
    assert!(view.holders.iter().all(|holder| !holder.upgrading));
}

/// A machine with an open session.
fn opened() -> Machine {
    let mut machine = Machine::new();
    outcome(
        &mut machine,
        Command::OpenSession { open: script_commands::open("s1"), attempt: None },
    )
    .unwrap();
    machine
}

fn outcome(machine: &mut Machine, command: Command) -> Outcome {
    machine.apply(Entry { stamped_at: Stamp(0), commands: vec![command] }).outcomes.remove(0)
}

fn change(number: usize, kind: usize, at: usize) -> Command {
    let at = ["/a", "/a/b", "/a/c", "/d"][at];
    let (data, version) = (vec![number as u8], None);
    let op = match kind {
        0 => Op::Delete { path: path(at), version, recursive: false },
        1 => Op::SetData { path: path(at), data: data.into(), version },
        _ => script_commands::create(at, CreateKind::Persistent, at == "/a/b", data),
    };
    multi(of_session("s1"), vec![op]).once(Some(numbered("s1", number as u64 + 1)))
}

/// An outcome without its revisions, which differ between the two machines.
fn strip(outcome: &Outcome) -> String {
    let Ok(Reply::Multi(MultiReply { results, .. })) = outcome else {
        return format!("{outcome:?}");
    };
    match results.as_slice() {
        [OpReply::Created { path, stat }] => format!("created {path} {}", stat.version),
        [OpReply::DataSet { stat }] => format!("set {}", stat.version),
        other => format!("{other:?}"),
    }
}

/// Every node with its data and version.
fn contents(machine: &Machine) -> Vec<(String, Vec<u8>, i32)> {
    let mut found = Vec::new();
    let mut rest = vec![ZnodePath::root()];
    while let Some(path) = rest.pop() {
        let (stat, data) = machine.get(&path, &[]).unwrap();
        found.push((path.to_string(), data.to_vec(), stat.version));
        let (_, children) = machine.list(&path, &[]).unwrap();
        rest.extend(children.iter().map(|name| path.child(name).unwrap()));
    }
    found.sort();
    found
}

/// The number of seeded histories of each subject. Each mutation that lists one of these tests in `mutations.toml`
/// fails within the first 60.
const SEEDED: usize = 100;

/// Lowering the limit of a semaphore first runs its expired timers: they grant waiters under the old limit.
#[test]
fn expired_timers_grant_under_the_limit_before_the_command() {
    let lock = script_commands::lock_name("s");
    let open = |name| script_commands::open(name);
    let plain = |name| Acquire::new(lock.clone(), open(name), Owner::unnamed());
    let options = AcquireOptions { min_hold_ms: Some(5), ..AcquireOptions::PLAIN };
    let first = Acquire { permits: Some(3), limit: Some(3), options, ..plain("s2") };
    let reason = Reason::new("because").unwrap();
    let change = PolicyChange { limit: Some(Some(1)), ..PolicyChange::default() };
    let history = vec![
        Move::Command(Command::Acquire(first)),
        Move::Command(Command::Acquire(plain("s3"))),
        Move::Command(Command::Acquire(plain("s1"))),
        Move::Command(Command::ForceRelease(ForceRelease {
            lock: lock.clone(),
            what: ForceReleaseTarget::Holders,
            reason,
        })),
        Move::AdvanceToTimer(0),
        Move::Command(Command::SetPolicy { lock, change }),
    ];
    let trial = Trial::run(&history).unwrap();
    let view = trial.machine.lock(&script_commands::lock_name("s"), 10);
    assert_eq!((view.permits_held, view.policy.limit), (2, Some(1)));
}

/// Runs the same histories of one subject every time.
fn seeded_histories_follow_the_model(subject: HistorySubject) {
    let mut runner = seeded_runner();
    for number in 0..SEEDED {
        let history = history_about(subject, STEPS).new_tree(&mut runner).unwrap().current();
        if let Err(what) = Trial::run(&history) {
            panic!("history {number}: {what}");
        }
    }
}

#[test]
fn seeded_histories_of_the_tree_follow_the_model() {
    seeded_histories_follow_the_model(HistorySubject::Tree);
}

#[test]
fn seeded_histories_of_timers_and_modes_follow_the_model() {
    seeded_histories_follow_the_model(HistorySubject::Time);
}

#[test]
fn seeded_histories_of_operators_and_multi_locks_follow_the_model() {
    seeded_histories_follow_the_model(HistorySubject::Operators);
}

#[test]
fn seeded_histories_of_recipes_follow_the_model() {
    seeded_histories_follow_the_model(HistorySubject::Recipes);
}

/// The simulator has no model, so the invariants alone must catch these bugs (`mutations.toml`).
#[test]
fn the_invariants_hold_without_the_model() {
    let mut machine = opened();
    let commands = ["s1", "s2", "s3", "s4"]
        .into_iter()
        .flat_map(|name| [acquire(name, "a"), acquire(name, "b"), ephemeral(name)])
        .chain(["s1", "s2"].into_iter().map(|name| Command::CloseSession {
            session: session_name(name),
            attachment: None,
            incarnation: None,
        }));
    for command in commands {
        drop(machine.apply(Entry { stamped_at: Stamp(0), commands: vec![command] }));
        machine.check_invariants().unwrap();
    }
}

fn acquire(name: &str, lock: &str) -> Command {
    let (lock, owner) = (script_commands::lock_name(lock), Owner::unnamed());
    Command::Acquire(Acquire::new(lock, script_commands::open(name), owner))
}

fn ephemeral(name: &str) -> Command {
    let at = format!("/of-{name}");
    multi(
        of_session(name),
        vec![script_commands::create(&at, CreateKind::Ephemeral, false, Vec::new())],
    )
}
