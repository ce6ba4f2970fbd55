//! The commands, queries and output of recipes in golden scripts.

use holdfast_types::*;

use crate::Machine;
use crate::tests::script_commands::{Words, session_name};

/// The recipe command of a line, if it is one.
pub(in crate::tests) fn recipe(words: &Words<'_>) -> Option<Recipe> {
    let barrier_kind =
        if words.flag("double") { BarrierKind::Double } else { BarrierKind::Barrier };
    let number = |at: usize| words.at(at).parse().unwrap();
    let key = || RequestId::new(words.value("key").unwrap()).unwrap();
    Some(match words.at(0) {
        "latch" => {
            let count = words.at(2).parse().unwrap();
            Recipe::MakeLatch { latch: name(words), count }
        }
        "down" => Recipe::CountDown { latch: name(words), key: key() },
        "promise" => {
            Recipe::Promise { latch: name(words), key: key(), session: session_name(words.at(2)) }
        }
        "unlatch" => Recipe::DeleteLatch { latch: name(words) },
        "arrive" => Recipe::Arrive(Arrive {
            barrier_kind,
            name: name(words),
            parties: words.number("parties").unwrap(),
            open: words.open(words.at(2)),
            owner: words.owner(),
            request: request(words),
            wait_ms: (!words.flag("nowait")).then(|| words.number("wait_ms").unwrap_or(5_000)),
        }),
        "leave_barrier" => Recipe::LeaveBarrier(LeaveBarrier {
            barrier_kind,
            name: name(words),
            session: session_name(words.at(2)),
            owner: words.owner(),
            generation: words.number("generation").map(Revision),
            request: request(words),
        }),
        "cancel_arrival" => Recipe::CancelArrival(CancelArrival {
            barrier_kind,
            name: name(words),
            session: session_name(words.at(2)),
            owner: words.owner(),
            requested_in: Revision(words.number("asked").unwrap()),
            ticket: Ticket(words.number("ticket").or(words.number("asked")).unwrap()),
        }),
        "add" => count(words, CounterChange::Add { amount: number(2) }),
        "put" => {
            count(words, CounterChange::Set { value: number(2), version: words.number("version") })
        }
        "drop" => count(words, CounterChange::Delete),
        _ => return None,
    })
}

fn count(words: &Words<'_>, change: CounterChange) -> Recipe {
    Recipe::ChangeCounter(ChangeCounter { counter: name(words), change })
}

fn name(words: &Words<'_>) -> RecipeName {
    RecipeName::new(words.at(1)).unwrap()
}

fn request(words: &Words<'_>) -> Option<RequestNumber> {
    words.number("request").map(RequestNumber)
}

/// The answer to a query about recipes.
pub(in crate::tests) fn show(words: &Words<'_>, machine: &Machine) -> Vec<String> {
    if words.at(1) == "arrivals" {
        let waits = machine.arrival_waits_after(Revision(0), 100);
        return waits.iter().map(|wait| format!("{:?} {}", wait.cancel, wait.wait_ms)).collect();
    }
    let name = RecipeName::new(words.at(2)).unwrap();
    vec![match words.at(1) {
        "latch" => machine.latch(&name).map_or("none".to_owned(), |view| latch(&view)),
        "barrier" => format!("{:?}", machine.barrier(BarrierKind::Barrier, &name)),
        "double" => format!("{:?}", machine.barrier(BarrierKind::Double, &name)),
        _ => counter(machine.counter(&name)),
    }]
}

fn latch(view: &LatchView) -> String {
    let LatchView { count, left, promised, created_in } = view;
    format!("{left} of {count} left, {promised} promised, made in r{created_in}")
}

fn counter(CounterView { value, version }: CounterView) -> String {
    format!("{value} version={version}")
}

pub(in crate::tests) fn reply(reply: &RecipeReply) -> String {
    match reply {
        RecipeReply::Latch { view, created } => format!("{} created={created}", latch(view)),
        RecipeReply::Counted { left, counted } => format!("left={left} counted={counted}"),
        RecipeReply::Promised { left } => format!("promised left={left}"),
        RecipeReply::Deleted { existed } => format!("deleted existed={existed}"),
        RecipeReply::Arrived(Arrived {
            ticket,
            requested_in,
            generation,
            arrived,
            parties,
            session,
            ..
        }) => format!(
            "arrived #{session} {arrived}/{parties} ticket={ticket} asked={requested_in} generation={generation}"
        ),
        RecipeReply::Tripped(Tripped { generation, index, parties }) => {
            format!("tripped generation={generation} index={index} parties={parties}")
        }
        RecipeReply::LeftBarrier(LeaveBarrierReply { leaving, changed }) => match leaving {
            Some((round, inside)) => {
                format!("left round {round}: {inside} inside changed={changed}")
            }
            None => format!("out changed={changed}"),
        },
        RecipeReply::ArrivalCancelled => "arrival cancelled".to_owned(),
        RecipeReply::Counter(view) => counter(*view),
    }
}

pub(in crate::tests) fn rejection(rejection: &RecipeRejection) -> String {
    match rejection {
        RecipeRejection::Broken(breach) => format!("Broken {}", self::breach(breach)),
        other => format!("{other:?}"),
    }
}

fn breach(Breach { generation, session, cause }: &Breach) -> String {
    format!("generation={generation} by {session}: {cause:?}")
}

pub(in crate::tests) fn event(event: &RecipeEvent) -> String {
    match event {
        RecipeEvent::LatchOpened { latch } => format!("latch {latch} open"),
        RecipeEvent::LatchDeleted { latch } => format!("latch {latch} deleted"),
        RecipeEvent::Opened { barrier_kind, name, generation } => {
            format!("{barrier_kind:?} {name} open generation={generation}")
        }
        RecipeEvent::Broken { name, breach } => {
            format!("barrier {name} broken {}", self::breach(breach))
        }
        RecipeEvent::SpaceFreed { name } => format!("space at {name}"),
        RecipeEvent::RoundLeft { name, generation } => {
            format!("all left {name} round={generation}")
        }
    }
}
