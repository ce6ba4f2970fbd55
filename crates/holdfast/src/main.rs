//! The `holdfast` binary: `serve` runs one node, `dev` runs a cluster on this machine, and the other commands are
//! clients.
//!
//! Exit codes: 0 success, 1 failure (the message names the fix), 2 wrong usage, 70 the node stopped because it cannot
//! trust its disk, 75 the lock was not acquired, 76 the lock was lost, 77 a deadlock. `run` otherwise returns the code of the
//! command.

mod audit_sink;
mod certificates;
mod cli;
mod cli_advice;
mod commands;
mod config;
mod diagnosis;
mod front_ends;
mod process;
mod scheduled_backup;
mod serve;
mod systemd_and_probes;
mod telemetry;
mod traces;

use std::process::ExitCode;

use holdfast_cli::exit::CommandFailure;
use holdfast_cli::{output, signals};

/// `mimalloc` limits the growth of memory under many small requests.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let result = match holdfast_cli::internal_command() {
        Some(result) => result,
        None => match cli::parse_arguments() {
            Ok(cli) => cli.command.run(),
            Err(error) => return cli::not_parsed(error),
        },
    };
    match result.and_then(|()| output::check()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            let stop = diagnosis::explain(stop);
            if !stop.is_silent() {
                output::write_stderr(&format!("holdfast: {stop}"));
            }
            if let CommandFailure::Signalled(signal, _) = &stop {
                signals::end_by(*signal);
            }
            stop.code()
        }
    }
}
