//! What holds of every history of recipes.

use holdfast_types::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::history::{Move, SESSIONS, history};
use super::model::Model;
use crate::tests::script_commands::session_name;
use crate::{Arrival, Machine};

/// `PROPTEST_CASES` makes a campaign of it.
fn config() -> Config {
    Config { failure_persistence: None, ..Config::default() }
}

/// How somebody passed: where and as which.
type Opening = (BarrierKind, RecipeName, Tripped);

/// A machine, its model, and what both were told.
struct Trial {
    machine: Machine,
    model: Model,
    sent: Vec<Recipe>,
    gave_up: Vec<CancelArrival>,
    /// Who was told to have passed, with which session and owner.
    passed: Vec<(Opening, (SessionId, Owner))>,
}

impl Trial {
    fn run(history: &[Move]) -> Result<(), String> {
        let (machine, model) = (Machine::new(), Model::new());
        let (sent, gave_up, passed) = (Vec::new(), Vec::new(), Vec::new());
        let mut trial = Self { machine, model, sent, gave_up, passed };
        for one in history {
            trial.step(one).map_err(|what| format!("{what}\nat {one:?} of {history:#?}"))?;
        }
        Ok(())
    }

    fn step(&mut self, one: &Move) -> Result<(), String> {
        match one {
            Move::Do(recipe) => self.tell(recipe.clone())?,
            Move::End(n) => {
                let waits: Vec<_> = self.model.waits().into_iter().map(|(wait, _)| wait).collect();
                self.gave_up.extend(waits.clone());
                let known = if n % 2 == 0 { &waits } else { &self.gave_up };
                if let Some(wait) = known.get(n / 2) {
                    self.tell(Recipe::CancelArrival(wait.clone()))?;
                }
            }
            Move::Again(n) => {
                if let Some(recipe) = self.sent.iter().rev().nth(*n) {
                    self.tell(recipe.clone())?;
                }
            }
            Move::AgainFrom(from, count) => {
                let again = self.sent.iter().skip(from % self.sent.len().max(1));
                let again: Vec<_> = again.take(*count).cloned().collect();
                again.into_iter().try_for_each(|recipe| self.tell(recipe))?;
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
                same(&loaded.state_digest(), &self.machine.state_digest())?;
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

    fn tell(&mut self, recipe: Recipe) -> Result<(), String> {
        self.sent.push(recipe.clone());
        let expected = self.model.apply(recipe.clone());
        let actual = self.apply(Command::Recipe(recipe.clone()));
        if let (Recipe::Arrive(arrive), Ok(Reply::Recipe(RecipeReply::Tripped(passed)))) =
            (&recipe, &actual)
        {
            let id = self.model.live(&arrive.open.session).unwrap_or(SessionId(0));
            let place = (arrive.gate, arrive.name.clone(), passed.clone());
            self.passed.push((place, (id, arrive.owner.clone())));
        }
        same(&actual, &expected)
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
        self.nobody_passes_twice()
    }

    /// No spurious pass: each place in a generation is one session's and owner's, and there are no more places than parties.
    fn nobody_passes_twice(&self) -> Result<(), String> {
        for (number, (place, who)) in self.passed.iter().enumerate() {
            let (gate, name, passed) = place;
            let others = self.passed.iter().take(number);
            let mut same = others.filter(|(other, _)| {
                (&other.0, &other.1) == (gate, name) && other.2.generation == passed.generation
            });
            let twice =
                same.any(|((.., other), them)| (other.index == passed.index) != (them == who));
            if passed.index >= passed.parties || twice {
                return Err(format!(
                    "{gate:?} {name}: {who:?} has passed without the others: {passed:?}"
                ));
            }
        }
        Ok(())
    }
}

/// What can be seen of recipes is what the model says.
pub(in crate::tests) fn compare(machine: &Machine, model: &Model) -> Result<(), String> {
    for name in ["a", "b"].map(|name| RecipeName::new(name).unwrap()) {
        same(&machine.latch(&name), &model.latch(&name))?;
        same(&machine.counter(&name), &model.counter(&name))?;
        for gate in [BarrierKind::Barrier, BarrierKind::Double] {
            same(&machine.gate(gate, &name), &model.gate(gate, &name))?;
        }
    }
    let waits = machine.arrival_waits_after(Revision(0), 1_000);
    let waits: Vec<_> = waits.into_iter().map(|wait| (wait.give_up, wait.wait_ms)).collect();
    same(&waits, &model.waits())?;
    same(&machine.arrival_waits(), &model.waits().len())?;
    for (wait, _) in model.waits() {
        let who = (&wait.session, &wait.owner);
        let found = machine.arrival_asked_in(wait.asked).map(|found| found.give_up);
        same(&found.as_ref(), &Some(&wait))?;
        let at = machine.arrival(wait.gate, &wait.name, who, Revision(0), None);
        same(&at, &Arrival::Gone)?;
    }
    Ok(())
}

fn same<T: PartialEq + std::fmt::Debug>(actual: &T, expected: &T) -> Result<(), String> {
    if actual == expected { Ok(()) } else { Err(format!("{actual:?}\nexpected {expected:?}")) }
}

proptest! {
    #![proptest_config(config())]

    /// Recipes do what the naive model does, whatever happens, retries, expiries and snapshots at any point included, and
    /// every invariant holds after every command.
    #[test]
    fn recipes_do_what_the_model_does(history in history(120)) {
        if let Err(what) = Trial::run(&history) {
            prop_assert!(false, "{what}");
        }
    }
}

/// The same histories in each run (`mutations.toml`).
#[test]
fn seeded_recipes_do_what_the_model_does() {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config(), rng);
    for number in 0..400 {
        let history = history(120).new_tree(&mut runner).unwrap().current();
        if let Err(what) = Trial::run(&history) {
            panic!("history {number}: {what}");
        }
    }
}

/// The simulator has no model, so the invariants alone must catch a broken recipe (`mutations.toml`).
#[test]
fn the_invariants_of_recipes_hold_without_the_model() {
    let mut machine = Machine::new();
    let arrive = |gate, session: &str| {
        Recipe::Arrive(Arrive {
            gate,
            name: RecipeName::new("a").unwrap(),
            parties: 3,
            open: crate::tests::script_commands::open(session),
            owner: Owner::unnamed(),
            request: None,
            wait_ms: Some(5),
        })
    };
    let depart = Recipe::LeaveBarrier(LeaveBarrier {
        gate: BarrierKind::Double,
        name: RecipeName::new("a").unwrap(),
        session: session_name("s1"),
        owner: Owner::unnamed(),
    });
    let twice = [arrive(BarrierKind::Barrier, "s1"), arrive(BarrierKind::Barrier, "s1")];
    let enter = ["s1", "s2", "s3"].map(|session| arrive(BarrierKind::Double, session));
    for recipe in twice.into_iter().chain(enter).chain([depart]) {
        let commands = vec![Command::Recipe(recipe)];
        drop(machine.apply(Entry { stamped_at: Stamp(0), commands }));
        machine.check_invariants().unwrap();
    }
}
