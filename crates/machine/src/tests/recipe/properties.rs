//! Properties of every history of recipes.

use holdfast_types::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::super::random::{config, seeded_runner};
use super::history::{Move, SESSIONS, history};
use super::model::Model;
use crate::tests::script_commands::session_name;
use crate::{ArrivalState, Machine};

/// `PROPTEST_CASES` sets the number of cases.
/// The barrier that tripped, and the generation and index.
type Trip = (BarrierKind, RecipeName, Tripped);

/// A machine, its model, and the commands and results so far.
struct Trial {
    machine: Machine,
    model: Model,
    sent: Vec<(Option<NumberedCall>, Recipe)>,
    cancelled: Vec<CancelArrival>,
    /// The reported trips, each with its session and owner.
    trips: Vec<(Trip, (SessionId, Owner))>,
}

impl Trial {
    fn run(history: &[Move]) -> Result<(), String> {
        let (machine, model) = (Machine::new(), Model::new());
        let (sent, cancelled, trips) = (Vec::new(), Vec::new(), Vec::new());
        let mut trial = Self { machine, model, sent, cancelled, trips };
        for step in history {
            trial.step(step).map_err(|what| format!("{what}\nat {step:?} of {history:#?}"))?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Move) -> Result<(), String> {
        match step {
            Move::Command(call, recipe) => self.send(call.clone(), recipe.clone())?,
            Move::LeavePresent(n) => self.leave_present(*n)?,
            Move::Cancel(n) => {
                let waits: Vec<_> = self.model.waits().into_iter().map(|(wait, _)| wait).collect();
                self.cancelled.extend(waits.clone());
                let known = if n % 2 == 0 { &waits } else { &self.cancelled };
                if let Some(wait) = known.get(n / 2) {
                    self.send(None, Recipe::CancelArrival(wait.clone()))?;
                }
            }
            Move::Repeat(n) => {
                if let Some((call, recipe)) = self.sent.iter().rev().nth(*n).cloned() {
                    self.send(call, recipe)?;
                }
            }
            Move::RepeatFrom(from, count) => {
                let repeated = self.sent.iter().skip(from % self.sent.len().max(1));
                let repeated: Vec<_> = repeated.take(*count).cloned().collect();
                repeated.into_iter().try_for_each(|(call, recipe)| self.send(call, recipe))?;
            }
            Move::Close(n) => self.close(&session_name(SESSIONS[*n])),
            Move::Expire(n) => self.expire(&session_name(SESSIONS[*n])),
            Move::Limits(recipes, memo) => {
                let limits = Limits {
                    recipes_max: *recipes,
                    memo_per_session_max: *memo,
                    ..Limits::default()
                };
                self.model.limits = limits;
                self.model.tick();
                drop(self.apply(Command::SetLimits(limits)));
            }
            Move::Reload => {
                let loaded = Machine::load(self.machine.dump()).map_err(|e| e.to_string())?;
                check_equal(&loaded.state_digest(), &self.machine.state_digest())?;
                self.machine = loaded;
            }
        }
        self.machine.check_invariants()?;
        self.compare()
    }

    fn apply(&mut self, command: Command) -> Outcome {
        self.machine
            .apply(Entry { stamped_at: Stamp(0), commands: vec![command] })
            .outcomes
            .remove(0)
    }

    /// A member leaves the present generation or round of its barrier, by its name.
    fn leave_present(&mut self, n: usize) -> Result<(), String> {
        let members = self.model.participants.iter().filter(|member| !member.left);
        let members: Vec<_> = members.collect();
        let Some(member) = members.get(n % members.len().max(1)) else { return Ok(()) };
        let view = self.model.barrier(member.barrier_kind, &member.name);
        let leave = member.leave(view.generation.or(view.round), &self.model);
        self.send(None, Recipe::LeaveBarrier(leave))
    }

    fn send(&mut self, call: Option<NumberedCall>, recipe: Recipe) -> Result<(), String> {
        self.sent.push((call.clone(), recipe.clone()));
        let expected = self.model.apply_once(call.clone(), recipe.clone());
        let actual = self.apply(Command::Recipe(recipe.clone()).once(call));
        let first = actual.clone().map(|reply| reply.into_first().0);
        if let (Recipe::Arrive(arrive), Ok(Reply::Recipe(RecipeReply::Tripped(tripped)))) =
            (&recipe, &first)
        {
            let id = self.model.live(&arrive.open.session).unwrap_or(SessionId(0));
            let barrier = (arrive.barrier_kind, arrive.name.clone(), tripped.clone());
            self.trips.push((barrier, (id, arrive.owner.clone())));
        }
        check_equal(&actual, &expected)
    }

    fn close(&mut self, session: &SessionName) {
        self.model.tick();
        match self.model.live(session) {
            Some(_) => self.model.end(session, SessionEnd::Closed),
            None => self.model.acknowledge(session),
        }
        let (session, attachment) = (session.clone(), None);
        drop(self.apply(Command::CloseSession { session, attachment, incarnation: None }));
    }

    fn expire(&mut self, session: &SessionName) {
        let Some(id) = self.model.live(session) else { return };
        self.model.tick();
        self.model.end(session, SessionEnd::Expired);
        let generation = self.machine.lease(id).map_or(0, |(_, generation)| generation);
        drop(self.apply(Command::ExpireSession { session: id, generation }));
    }

    fn compare(&self) -> Result<(), String> {
        compare(&self.machine, &self.model)?;
        self.check_no_spurious_trip()
    }

    /// No spurious trip: each index of a generation belongs to one session and owner, and is below the number of
    /// parties.
    fn check_no_spurious_trip(&self) -> Result<(), String> {
        for (number, (barrier, owner)) in self.trips.iter().enumerate() {
            let (barrier_kind, name, tripped) = barrier;
            let others = self.trips.iter().take(number);
            let mut same = others.filter(|(other, _)| {
                (&other.0, &other.1) == (barrier_kind, name)
                    && other.2.generation == tripped.generation
            });
            let twice = same.any(|((.., other), other_owner)| {
                (other.index == tripped.index) != (other_owner == owner)
            });
            if tripped.index >= tripped.parties || twice {
                return Err(format!(
                    "{barrier_kind:?} {name}: {owner:?} tripped without the others: {tripped:?}"
                ));
            }
        }
        Ok(())
    }
}

/// Compares all views of recipes with the model.
pub(in crate::tests) fn compare(machine: &Machine, model: &Model) -> Result<(), String> {
    for name in ["a", "b"].map(|name| RecipeName::new(name).unwrap()) {
        check_equal(&machine.latch(&name), &model.latch(&name))?;
        check_equal(&machine.counter(&name), &model.counter(&name))?;
        for barrier_kind in [BarrierKind::Barrier, BarrierKind::Double] {
            check_equal(
                &machine.barrier(barrier_kind, &name),
                &model.barrier(barrier_kind, &name),
            )?;
        }
    }
    let waits = machine.arrival_waits_after(Revision(0), 1_000);
    let waits: Vec<_> = waits.into_iter().map(|wait| (wait.cancel, wait.wait_ms)).collect();
    check_equal(&waits, &model.waits())?;
    check_equal(&machine.arrival_waits(), &model.waits().len())?;
    for (wait, _) in model.waits() {
        let owner = (&wait.session, &wait.owner);
        let found = machine.arrival_requested_in(wait.requested_in).map(|found| found.cancel);
        check_equal(&found.as_ref(), &Some(&wait))?;
        let at = machine.arrival(wait.barrier_kind, &wait.name, owner, Revision(0));
        check_equal(&at, &ArrivalState::Gone)?;
    }
    Ok(())
}

fn check_equal<T: PartialEq + std::fmt::Debug>(actual: &T, expected: &T) -> Result<(), String> {
    if actual == expected { Ok(()) } else { Err(format!("{actual:?}\nexpected {expected:?}")) }
}

proptest! {
    #![proptest_config(config())]

    /// The machine and the naive model agree on every history, with retries, expiries and snapshots at any point. Every
    /// invariant holds after every command.
    #[test]
    fn recipes_follow_the_model(history in history(120)) {
        prop_assert_eq!(Trial::run(&history).err(), None);
    }
}

/// The same histories in each run (`mutations.toml`).
#[test]
fn seeded_recipes_follow_the_model() {
    let mut runner = seeded_runner();
    for number in 0..400 {
        let history = history(120).new_tree(&mut runner).unwrap().current();
        if let Err(what) = Trial::run(&history) {
            panic!("history {number}: {what}");
        }
    }
}

/// The simulator has no model, so the invariants alone must catch these bugs (`mutations.toml`).
#[test]
fn the_invariants_of_recipes_hold_without_the_model() {
    let mut machine = Machine::new();
    let arrive = |barrier_kind, session: &str| {
        Recipe::Arrive(Arrive {
            barrier_kind,
            name: RecipeName::new("a").unwrap(),
            parties: 3,
            open: crate::tests::script_commands::open(session),
            owner: Owner::unnamed(),
            request: None,
            wait_ms: Some(5),
        })
    };
    let leave_barrier = Recipe::LeaveBarrier(LeaveBarrier {
        barrier_kind: BarrierKind::Double,
        name: RecipeName::new("a").unwrap(),
        session: session_name("s1"),
        owner: Owner::unnamed(),
        generation: None,
        request: None,
    });
    let twice = [arrive(BarrierKind::Barrier, "s1"), arrive(BarrierKind::Barrier, "s1")];
    let enter = ["s1", "s2", "s3"].map(|session| arrive(BarrierKind::Double, session));
    for recipe in twice.into_iter().chain(enter).chain([leave_barrier]) {
        let commands = vec![Command::Recipe(recipe)];
        drop(machine.apply(Entry { stamped_at: Stamp(0), commands }));
        machine.check_invariants().unwrap();
    }
}
