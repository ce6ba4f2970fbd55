//! The `holdfast` binary: `serve` is one node, `dev` a cluster of them on this machine, the rest are clients.
//!
//! Owns the command line, the configuration, telemetry, signals and exit codes. Refuses to know how locks work:
//! `serve` wires raft, service and HTTP together, the client commands speak HTTP like anybody else.
//!
//! Exit codes: 0 done, 1 failed (the message says what to change), 2 wrong usage, 70 the node stopped itself because
//! it cannot trust its disk, 75 the lock was not acquired, 76 the lock was lost; of `run`, else the command's own.

mod bench;
mod cli;
mod commands;
mod completions;
mod config;
mod dev;
mod exit;
mod explain;
mod exposition;
mod output;
mod serve;
mod telemetry;

use std::process::ExitCode;

use clap::Parser;

/// Steady memory under the churn of many small requests.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return cli::not_parsed(error),
    };
    match run(cli.command).and_then(|()| output::check()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            if !stop.is_silent() {
                output::complain(&format!("holdfast: {stop}"));
            }
            stop.code()
        }
    }
}

fn run(command: cli::Command) -> Result<(), exit::Stop> {
    match command {
        cli::Command::Serve(args) => serve::run(&args),
        cli::Command::Dev(args) => dev::run(&args),
        cli::Command::Bench(args) => bench::run(&args),
        cli::Command::Explain(args) => explain::run(&args),
        cli::Command::Completions(args) => {
            completions::run(&args);
            Ok(())
        }
        cli::Command::Client(command) => commands::run(command),
    }
}
