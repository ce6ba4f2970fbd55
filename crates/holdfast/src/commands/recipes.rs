//! `holdfast latch`, `holdfast barrier` and `holdfast counter`.
//!
//! What is not there yet when the wait has passed is exit code 75, as for a lock that was not acquired.

use std::time::Duration;

use holdfast_api::CounterBody;
use holdfast_client::{Client, Error};

use super::{WAIT_LONGER, connect, stop};
use crate::cli::{BarrierArgs, CounterCommand, LatchCommand, RecipeArgs, Target};
use crate::exit::Stop;
use crate::output::answer;
use crate::serve::Signals;

/// What is left behind is given up in this time.
const FAREWELL: Duration = Duration::from_secs(2);

pub(super) async fn latch(command: LatchCommand) -> Result<(), Stop> {
    match command {
        LatchCommand::Create(args) => {
            let (client, target) = (connect(&args.latch.target)?, &args.latch.target);
            let made = client.latch(args.latch.name).create(args.count).await;
            let body = made.map_err(|error| ended(target, &error))?;
            show(target, &body, &body.left.to_string());
        }
        LatchCommand::Down(args) => {
            let (client, target) = (connect(&args.latch.target)?, &args.latch.target);
            let left = client.latch(args.latch.name).count_down(args.key).await;
            let left = left.map_err(|error| ended(target, &error))?;
            show(target, &serde_json::json!({ "left": left }), &left.to_string());
        }
        LatchCommand::Wait(args) => {
            let (client, target) = (connect(&args.latch.target)?, &args.latch.target);
            let open = client.latch(args.latch.name).wait(args.wait).await;
            let body = open.map_err(|error| ended(target, &error))?;
            show(target, &body, "open");
        }
        LatchCommand::Rm(RecipeArgs { name, target }) => {
            let gone = connect(&target)?.latch(name).delete().await;
            gone.map_err(|error| ended(&target, &error))?;
        }
    }
    Ok(())
}

pub(super) async fn barrier(args: BarrierArgs) -> Result<(), Stop> {
    let mut signals = Signals::install().map_err(Stop::failed)?;
    let target = &args.barrier.target;
    let client = Client::builder(&target.addr).ttl(args.ttl).session_prefix("cli").build();
    let client = client.map_err(Stop::usage)?;
    let barrier = client.barrier(args.barrier.name.as_str(), args.parties);
    let passed = tokio::select! {
        passed = barrier.arrive(args.wait) => passed.map_err(|error| ended(target, &error)),
        signal = signals.next() => {
            Err(Stop::NotAcquired(format!("{signal} while waiting at {}", args.barrier.name)))
        }
    };
    // A session that ends breaks the barrier at once for those who still wait at it.
    let _told_in_time = tokio::time::timeout(FAREWELL, client.close()).await;
    let passed = passed?;
    show(target, &passed, &passed.index.to_string());
    Ok(())
}

pub(super) async fn counter(command: CounterCommand) -> Result<(), Stop> {
    let (target, counted, client) = match command {
        CounterCommand::Get(RecipeArgs { name, target }) => {
            let client = connect(&target)?;
            let counted = client.counter(name).get().await;
            (target, counted, client)
        }
        CounterCommand::Add(args) => {
            let client = connect(&args.counter.target)?;
            let counted = client.counter(args.counter.name).add(args.number).await;
            (args.counter.target, counted, client)
        }
        CounterCommand::Set(args) => {
            let RecipeArgs { name, target } = args.change.counter;
            let client = connect(&target)?;
            let counter = client.counter(name);
            let set = match args.version {
                Some(version) => counter.set_if(args.change.number, version).await,
                None => counter.set(args.change.number).await,
            };
            (target, set, client)
        }
        CounterCommand::Rm(RecipeArgs { name, target }) => {
            let gone = connect(&target)?.counter(name).delete().await;
            return gone.map_err(|error| ended(&target, &error));
        }
    };
    let _told_in_time = tokio::time::timeout(FAREWELL, client.close()).await;
    let body: CounterBody = counted.map_err(|error| ended(&target, &error))?;
    show(&target, &body, &body.value.to_string());
    Ok(())
}

fn show(target: &Target, body: &impl serde::Serialize, value: &str) {
    let value = || value.to_owned();
    answer(target.output, body, value, value);
}

fn ended(target: &Target, error: &Error) -> Stop {
    match error {
        Error::Busy(_) => Stop::NotAcquired(format!("{error} ({WAIT_LONGER})")),
        Error::Lost(_)
        | Error::Retry(_)
        | Error::Unknown(_)
        | Error::Refused(_)
        | Error::Foreign(_)
        | Error::Argument(_) => stop(target, error),
    }
}
