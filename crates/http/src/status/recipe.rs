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
            let detail = format!("the latch exists with count {count}");
            let facts = RecipeFacts { count: Some(count), ..none };
            about(ErrorCode::CountMismatch, detail, "DELETE it first, then create it again", facts)
        }
        RecipeRejection::NoLatch => {
            let hint = "create it: PUT /v1/latches/{name}?count=N, or holdfast latch create NAME --count N";
            about(ErrorCode::NotFound, "the latch does not exist".to_owned(), hint, none)
        }
        RecipeRejection::OutOfBounds { max } => {
            let detail =
                format!("the count of a latch or the parties of a barrier must be from 1 to {max}");
            about(ErrorCode::InvalidArgument, detail, "send a number in this range", none)
        }
        RecipeRejection::PartiesMismatch { parties } => {
            let detail = format!("the barrier exists with {parties} parties");
            let facts = RecipeFacts { parties: Some(parties), ..none };
            about(ErrorCode::CountMismatch, detail, "send the same number in every call", facts)
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
            let hint = "read it again, then send the change with the new version";
            let mut problem = about(ErrorCode::VersionMismatch, detail, hint, none);
            problem.facts.version = Some(actual);
            problem
        }
    }
}

fn broken(breach: &Breach) -> HttpError {
    let detail = format!("'{}' left before all members had arrived", breach.session);
    let hint = "to try again, every member must arrive again with a new request id";
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
            (detail, "add ?wait=30s to wait for the latch", facts)
        }
        NotYet::Arrivals { arrived, parties } => {
            let detail = format!(
                "{arrived} of {parties} members have arrived; this caller is not among them"
            );
            let facts = RecipeFacts { arrived: Some(arrived), parties: Some(parties), ..none };
            (detail, "send the call again with the parameter wait=60s to arrive and wait", facts)
        }
        NotYet::Inside { round, inside } => {
            let detail = format!("this caller has left; {inside} members are still inside");
            let (generation, inside) = (Some(round), Some(inside));
            let facts = RecipeFacts { generation, inside, ..none };
            (
                detail,
                "send the call again with the parameter wait=60s to wait until all members have left",
                facts,
            )
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
