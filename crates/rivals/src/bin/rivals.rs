//! Starts, lists and stops the rivals' servers: what `scripts/rivals` calls.
//!
//! Owns the command line. A server that is missing or does not start is reported, and the others go on.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use holdfast_rivals::servers::{Cause, Entry, Kind, Leash, Roster};

/// Where the servers are, unless it is said otherwise.
const DIRECTORY: &str = "holdfast-rivals";

/// The rivals' real servers on free loopback ports, for comparison.
#[derive(Debug, Parser)]
#[command(name = "rivals")]
struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start servers, and leave them running.
    Up {
        /// Which: redis, redis-always, postgres, mariadb, zookeeper, etcd, holdfast; all if none is named.
        kinds: Vec<String>,
        /// Where they keep their files.
        #[arg(long)]
        directory: Option<PathBuf>,
    },
    /// Stop them, and remove their files.
    Down {
        /// Where they keep their files.
        #[arg(long)]
        directory: Option<PathBuf>,
    },
    /// Say which run, where, in which version, and how durable they are.
    Status {
        /// Where they keep their files.
        #[arg(long)]
        directory: Option<PathBuf>,
    },
    /// Print the packages of what is missing on this machine.
    Missing,
}

#[tokio::main]
async fn main() -> ExitCode {
    match act(Arguments::parse().action).await {
        Ok(code) => code,
        Err(cause) => {
            warn(&cause.to_string());
            ExitCode::FAILURE
        }
    }
}

async fn act(action: Action) -> Result<ExitCode, Cause> {
    match action {
        Action::Up { kinds, directory } => up(&kinds, &directory_or_default(directory)).await,
        Action::Down { directory } => {
            let directory = directory_or_default(directory);
            let stopped = Roster::down(&directory).await?;
            say(&format!(
                "{} processes stopped, files below {} removed",
                stopped.servers.len(),
                directory.display()
            ));
            Ok(ExitCode::SUCCESS)
        }
        Action::Status { directory } => {
            let directory = directory_or_default(directory);
            Ok(status(&directory, &Roster::read(&directory)?))
        }
        Action::Missing => {
            Kind::packages_missing().into_iter().for_each(say);
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn directory_or_default(directory: Option<PathBuf>) -> PathBuf {
    let directory = directory.unwrap_or_else(|| std::env::temp_dir().join(DIRECTORY));
    // Servers change their directory before they read their files.
    std::path::absolute(&directory).unwrap_or(directory)
}

/// Starts one kind after the other; success if all of them run.
async fn up(names: &[String], directory: &Path) -> Result<ExitCode, Cause> {
    let Some(kinds) = kinds(names) else { return Ok(ExitCode::FAILURE) };
    let mut roster = Roster::read(directory)?;
    let mut code = ExitCode::SUCCESS;
    for kind in kinds {
        if roster.servers.iter().any(|entry| entry.kind == kind.name() && entry.runs()) {
            continue;
        }
        roster.forget(kind, directory)?;
        match kind.start(directory, Leash::Loose).await {
            Ok(servers) => {
                for server in &servers {
                    roster.servers.push(Entry::of(kind, server)?);
                }
                roster.write(directory)?;
                servers.into_iter().for_each(holdfast_rivals::servers::Server::leave);
            }
            Err(cause) => {
                warn(&format!("{}: {cause}", kind.name()));
                code = ExitCode::FAILURE;
            }
        }
    }
    status(directory, &roster);
    Ok(code)
}

fn kinds(names: &[String]) -> Option<Vec<Kind>> {
    if names.is_empty() {
        return Some(Kind::ALL.to_vec());
    }
    let mut kinds = Vec::new();
    for name in names {
        let Some(kind) = Kind::named(name) else {
            let known = Kind::ALL.map(Kind::name).join(", ");
            warn(&format!("there is no rival `{name}`; there are: {known}"));
            return None;
        };
        kinds.push(kind);
    }
    Some(kinds)
}

/// Prints the table; success if everything in it runs.
fn status(directory: &Path, roster: &Roster) -> ExitCode {
    say(&format!("in {}:", directory.display()));
    let mut last = "";
    for entry in &roster.servers {
        if entry.kind != last {
            say(&format!("{}: {}; {}", entry.kind, entry.version, entry.durability));
            last = &entry.kind;
        }
        let state = if entry.runs() { "runs" } else { "has ended" };
        say(&format!("  {} pid {} {state}", entry.address, entry.pid));
    }
    if roster.servers.iter().all(Entry::runs) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[expect(clippy::print_stdout, reason = "what the program is asked for")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "what went wrong")]
fn warn(text: &str) {
    eprintln!("rivals: {text}");
}
