//! The adapter of the Rust client: it uses the public API of `holdfast-client`, and nothing else.
//!
//! `--mutation NAME` turns the client into a wrong one, so that a test can see which scenario finds it. Each request is a
//! task; a `cancel` drops the task's future.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "calls that a function does not handle are those of another function"
)]

mod calls;
mod describe;
mod groups;
mod guards;
mod mutation;
mod recipes;
mod state;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use holdfast_tests_clients::protocol::{Call, Request};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::mutation::Mutation;
use crate::state::{AdapterState, Answered, invalid};

/// The adapter of the Rust client.
#[derive(Debug, Parser)]
struct Arguments {
    /// A defect of the client.
    #[arg(long)]
    mutation: Option<Mutation>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let state = Arc::new(AdapterState::new(Arguments::parse().mutation));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match Request::parse(&line) {
            Ok(Request { id, call: Call::Shutdown {} }) => {
                state.close_all().await;
                state.answer(id, Ok(serde_json::json!({})));
                return ExitCode::SUCCESS;
            }
            Ok(Request { id, call }) => begin(&state, id, call),
            Err((id, reason)) => state.answer(id, Err(invalid(reason))),
        }
    }
    state.close_all().await;
    ExitCode::SUCCESS
}

/// Executes a request in a task of its own.
fn begin(state: &Arc<AdapterState>, id: u64, call: Call) {
    let state = state.clone();
    let cancelled = state.pend(id);
    tokio::spawn(async move {
        let result: Answered = tokio::select! {
            biased;
            result = calls::execute(&state, call) => result,
            () = cancelled.cancelled() => Err(state::cancelled()),
        };
        state.finish(id);
        state.answer(id, result);
    });
}
