//! Rejections of latches, barriers and counters.

use std::time::Duration;

use holdfast_api::{ErrorCode, Facts, Problem, RecipeFacts};
use holdfast_service::NotYet;
use holdfast_types::{Breach, RecipeRejection};

use super::HttpError;

pub(super) fn of_rejection(rejection: RecipeRejection) -> HttpError {
    let none = RecipeFacts::default();
    match rejection {
        RecipeRejection::CountMismatch { count } => {
            let detail = format!("there is a latch of this name with count {count}");
            let facts = RecipeFacts { count: Some(count), ..none };
            about(ErrorCode::CountMismatch, detail, "DELETE it first, then create it again", facts)
        }
        RecipeRejection::NoLatch => {
            let hint = "a PUT with ?count=N makes one";
            about(ErrorCode::NotFound, "there is no such latch".to_owned(), hint, none)
        }
        RecipeRejection::OutOfBounds { max } => {
            let detail = format!("a count and a number of parties is from 1 to {max}");
            about(ErrorCode::InvalidArgument, detail, "choose a smaller one", none)
        }
        RecipeRejection::PartiesMismatch { parties } => {
            let detail = format!("the barrier is for {parties} parties");
            let facts = RecipeFacts { parties: Some(parties), ..none };
            about(ErrorCode::CountMismatch, detail, "name the same number in every call", facts)
        }
        RecipeRejection::NotYet { arrived, parties } => {
            not_yet(NotYet::Arrivals { arrived, parties }, Duration::ZERO)
        }
        RecipeRejection::Broken(breach) => broken(&breach),
        RecipeRejection::Overflow { value } => {
            let detail = format!("the counter is {value}");
            let facts = RecipeFacts { value: Some(value), ..none };
            about(ErrorCode::CounterOverflow, detail, "PUT another value first", facts)
        }
        RecipeRejection::CounterVersion { actual } => {
            let detail = format!("the counter has version {actual}");
            let hint = "read it again, and send the change with that version";
            let mut problem = about(ErrorCode::VersionMismatch, detail, hint, none);
            problem.facts.version = Some(actual);
            problem
        }
    }
}

fn broken(breach: &Breach) -> HttpError {
    let detail = format!("'{}' left before all had arrived", breach.session);
    let hint = "to try again, all members arrive again under new request ids";
    let mut problem = about(ErrorCode::BarrierBroken, detail, hint, RecipeFacts::of_breach(breach));
    problem.facts.session = Some(breach.session.clone());
    problem
}

/// The error of a wait that timed out.
pub(super) fn not_yet(what: NotYet, waited: Duration) -> HttpError {
    let none = RecipeFacts::default();
    let (detail, hint, facts) = match what {
        NotYet::Latch(view) => {
            let detail = format!("{} of {} counts are left", view.left, view.count);
            let facts = RecipeFacts { count: Some(view.count), left: Some(view.left), ..none };
            (detail, "add ?wait=30s to wait for it", facts)
        }
        NotYet::Arrivals { arrived, parties } => {
            let detail = format!("{arrived} of {parties} have arrived; you are not among them");
            let facts = RecipeFacts { arrived: Some(arrived), parties: Some(parties), ..none };
            (detail, "send the call again with &wait=60s to arrive and wait", facts)
        }
        NotYet::Inside { round, inside } => {
            let detail = format!("you have left, {inside} are still inside");
            let (generation, inside) = (Some(round), Some(inside));
            let facts = RecipeFacts { generation, inside, ..none };
            (detail, "send the call again with &wait=60s to wait until all are out", facts)
        }
    };
    let mut problem = about(ErrorCode::NotYet, detail, hint, facts);
    problem.facts.waited_ms =
        Some(waited).filter(|waited| !waited.is_zero()).map(holdfast_types::millis);
    problem
}

fn about(code: ErrorCode, detail: String, hint: &'static str, recipe: RecipeFacts) -> HttpError {
    let facts = Facts { recipe, ..Facts::default() };
    Box::new(Problem::new(code, detail).hint(hint).facts(facts))
}
