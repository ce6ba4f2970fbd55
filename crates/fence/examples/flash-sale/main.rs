//! The fencing demonstration: a flash sale whose lock holder is stopped in mid-sale, past its session's TTL.
//!
//! Owns the command line: without arguments it is the narrator, who starts a holdfast cluster, a `PostgreSQL` and
//! the worker processes (itself again, with `worker`) and judges the books. It exits with 0 only if both
//! observations were made: without the fence the books are wrong, with it the stale write is refused and they
//! are exact. Refuses to know how a lock works: it speaks plain HTTP to the cluster, as any shop would.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the story is the output")]

mod cluster;
mod crew;
mod judge;
mod lock;
mod message;
#[path = "../../tests/scratch/mod.rs"]
mod scratch;
mod seller;
mod shop;
mod story;
mod worker;

use std::error::Error;
use std::process::ExitCode;

/// The demonstration's steps fail with a sentence for the person watching.
type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.as_slice() {
        [role, plan] if role == "worker" => worker::run(plan).await.map(|()| true),
        [] => tell(None).await,
        [flag, path] if flag == "--holdfast" => tell(Some(path)).await,
        _ => Err("usage: flash-sale [--holdfast PATH-OF-THE-BINARY]".into()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("flash-sale: {error}");
            ExitCode::from(2)
        }
    }
}

/// Tells the story; ^C ends it early, and everything it started.
async fn tell(holdfast: Option<&str>) -> Fallible<bool> {
    tokio::select! {
        outcome = story::tell(holdfast) => outcome,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            Err("interrupted".into())
        }
    }
}
