//! `measure servers`: starts real servers and keeps them running, lists them, stops them.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use crate::catalogue::ALL;
use crate::lock::{LockSettings, ServerAddresses};
use crate::record::WarmUp;
use crate::workload::{SpeedPlan, warm_up};

use super::{Lifetime, RunningServer, RunningServers, Server, ServerError, ServerKind};

/// The default directory of the servers' files.
const DIRECTORY: &str = "holdfast-measure";

#[derive(Debug, Subcommand)]
pub enum ServersCommand {
    /// Start servers and leave them running.
    Up {
        /// redis, redis-always, postgres, mariadb, zookeeper, etcd, holdfast; all if none is named.
        kinds: Vec<String>,
        /// Put load on each kind until its rate is flat, at most 3 minutes. A Java virtual machine compiles meanwhile.
        #[arg(long)]
        warm: bool,
        #[command(flatten)]
        place: ServerPlace,
    },
    /// Stop the servers and remove their files.
    Down(ServerPlace),
    /// List the servers with address, process, version and durability.
    Status(ServerPlace),
    /// Print the packages of the servers that are missing on this machine.
    Missing,
}

#[derive(Debug, Args)]
pub struct ServerPlace {
    /// Where the servers keep their files.
    #[arg(long)]
    directory: Option<PathBuf>,
}

impl ServerPlace {
    /// Returns the absolute path: servers change their directory before they read their files.
    fn path(&self) -> PathBuf {
        let path = self.directory.clone().unwrap_or_else(|| std::env::temp_dir().join(DIRECTORY));
        std::path::absolute(&path).unwrap_or(path)
    }
}

/// Runs the command and returns the lines to print.
///
/// # Errors
/// An error text; after an error of `up`, the started servers keep running.
pub async fn run(command: &ServersCommand) -> Result<Vec<String>, String> {
    match command {
        ServersCommand::Up { kinds, warm, place } => up(kinds, *warm, &place.path()).await,
        ServersCommand::Down(place) => {
            let directory = place.path();
            let stopped =
                RunningServers::down(&directory).await.map_err(|error| error.to_string())?;
            let count = stopped.servers.len();
            Ok(vec![format!(
                "stopped {count} processes and removed their files below {}",
                directory.display()
            )])
        }
        ServersCommand::Status(place) => {
            let directory = place.path();
            let running = RunningServers::read(&directory).map_err(|error| error.to_string())?;
            let lines = status(&directory, &running);
            if running.servers.iter().all(RunningServer::runs) {
                Ok(lines)
            } else {
                Err(lines.join("\n"))
            }
        }
        ServersCommand::Missing => {
            Ok(ServerKind::packages_missing().into_iter().map(str::to_owned).collect())
        }
    }
}

/// Starts one kind after the other; a failed kind does not prevent the next one.
async fn up(names: &[String], warm: bool, directory: &Path) -> Result<Vec<String>, String> {
    let kinds = kinds(names)?;
    let mut running = RunningServers::read(directory).map_err(|error| error.to_string())?;
    let (mut warmed, mut failures) = (Vec::new(), Vec::new());
    for kind in kinds {
        let mut started =
            start(kind, &mut running, directory).await.map_err(|error| error.to_string());
        if warm && started.is_ok() {
            started = warm_up_kind(kind, &running).await.map(|line| warmed.push(line));
        }
        if let Err(error) = started {
            failures.push(format!("{}: {error}", kind.name()));
        }
    }
    let lines = [status(directory, &running), warmed].concat();
    if failures.is_empty() { Ok(lines) } else { Err([lines, failures].concat().join("\n")) }
}

/// Puts load on the running servers of a kind until its rate is flat, and returns a line about it.
async fn warm_up_kind(kind: ServerKind, running: &RunningServers) -> Result<String, String> {
    let system = ALL.iter().find(|system| system.kind == kind).ok_or("no lock uses them")?;
    let servers = running.servers.iter().filter(|server| server.kind == kind.name());
    let addresses = ServerAddresses::of(servers.map(|server| server.address).collect());
    system.prepare(&addresses).await.map_err(|error| error.to_string())?;
    let connector = system.connector(addresses, LockSettings::default());
    let WarmUp { seconds, is_flat, rates, .. } =
        warm_up(&connector, system, &SpeedPlan::full(), 1).await?;
    let (name, flat) = (kind.name(), if is_flat { "flat" } else { "not flat" });
    let rate = rates.last().copied().unwrap_or_default();
    Ok(format!("{name}: {seconds:.0} s of load, {flat} at {rate:.0} cycles/s of {}", system.name))
}

async fn start(
    kind: ServerKind,
    running: &mut RunningServers,
    directory: &Path,
) -> Result<(), ServerError> {
    if running.servers.iter().any(|server| server.kind == kind.name() && server.runs()) {
        return Ok(());
    }
    running.forget(kind, directory)?;
    let servers = kind.start(directory, Lifetime::Detached).await?;
    for server in &servers {
        running.servers.push(RunningServer::of(kind, server)?);
    }
    running.write(directory)?;
    servers.into_iter().for_each(Server::leave);
    Ok(())
}

fn kinds(names: &[String]) -> Result<Vec<ServerKind>, String> {
    if names.is_empty() {
        return Ok(ServerKind::ALL.to_vec());
    }
    let known = || ServerKind::ALL.map(ServerKind::name).join(", ");
    let kind = |name: &String| {
        ServerKind::named(name)
            .ok_or_else(|| format!("unknown server `{name}`; the servers are: {}", known()))
    };
    names.iter().map(kind).collect()
}

fn status(directory: &Path, running: &RunningServers) -> Vec<String> {
    let mut lines = vec![format!("in {}:", directory.display())];
    let mut last = "";
    for server in &running.servers {
        if server.kind != last {
            lines.push(format!("{}: {}; {}", server.kind, server.version, server.durability));
            last = &server.kind;
        }
        let state = if server.runs() { "running" } else { "ended" };
        lines.push(format!("  {} pid {} {state}", server.address, server.pid));
    }
    lines
}
