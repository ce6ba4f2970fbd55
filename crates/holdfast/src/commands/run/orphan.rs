//! Ends a command whose `holdfast run` was killed: the watchdog ends the process group and then releases the locks.
//!
//! The watchdog releases no lock while a process of the group lives, or a process that inherited the session. A nested
//! `holdfast run` has its own group and watchdog. The watchdog leads the group, so it kills each process individually
//! and survives. At the kill deadline it kills the group at once and releases no lock. Bounds: one call at a time, one
//! line for each of at most 16 locks.

use std::time::Duration;

use holdfast_client::http::Method;
use holdfast_client::{Call, Moment};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::arguments::{CredentialArgs, NodesArgs};
use crate::exit::CommandFailure;

/// The time between two scans of the processes.
const INTERVAL: Duration = Duration::from_millis(20);

/// A process group without `holdfast run`, and the locks to release after its end.
#[derive(Debug, Default)]
pub(super) struct OrphanedGroup {
    releases: Vec<ReleaseCall>,
}

/// A release call, parsed from a line `ADDRESSES TARGET SESSION`.
#[derive(Debug)]
struct ReleaseCall {
    nodes: NodesArgs,
    /// The path and query of a `DELETE`.
    target: String,
    /// The environment variable of processes that inherited the session.
    variable: String,
}

/// Formats the line that describes a release call and the session of the hold for the watchdog.
pub(super) fn release_line(addresses: &[String], target: &str, session: &str) -> String {
    format!("{} {target} {session}", addresses.join(","))
}

impl OrphanedGroup {
    /// The time between SIGTERM and SIGKILL, within the lease.
    pub(super) const GRACE: Duration = Duration::from_secs(5);

    /// Parses a line of [`release_line`].
    pub(super) fn add(&mut self, line: &str, credentials: &CredentialArgs) {
        let mut words = line.splitn(3, ' ');
        let words = (words.next(), words.next(), words.next());
        let (Some(addresses), Some(target), Some(session)) = words else { return };
        let addr = addresses.split(',').map(str::to_owned).collect();
        let nodes = NodesArgs { addr, credentials: credentials.clone() };
        let variable = format!("HOLDFAST_SESSION={session}");
        self.releases.push(ReleaseCall { nodes, target: target.to_owned(), variable });
    }

    /// Ends the group, and releases its locks after the last process of the group has ended. Returns early if it
    /// cannot list the processes; then the caller kills the group.
    pub(super) async fn end(&self, group: Pid) {
        let _ended = killpg(group, Signal::SIGTERM);
        let kill_after = Moment::now().plus(Self::GRACE);
        loop {
            match others_of(group) {
                Ok(others) if others.is_empty() => break,
                Ok(others) if Moment::now() >= kill_after => {
                    for other in others {
                        let _ended = kill(other, Signal::SIGKILL);
                    }
                }
                Err(_) if Moment::now() >= kill_after => return,
                Ok(_) | Err(_) => {}
            }
            tokio::time::sleep(INTERVAL).await;
        }
        while self.releases.iter().any(ReleaseCall::is_inherited) {
            tokio::time::sleep(INTERVAL).await;
        }
        for release in &self.releases {
            // If no node accepts the release, the lock is free when the TTL expires.
            drop(release.send().await);
        }
    }
}

impl ReleaseCall {
    async fn send(&self) -> Result<(), CommandFailure> {
        let call = Call::new(Method::DELETE, self.target.clone());
        self.nodes.client()?.call_raw(&call).await?;
        Ok(())
    }

    /// Returns `true` if another process has the session in its environment.
    fn is_inherited(&self) -> bool {
        let own = std::process::id();
        let inherits = |id: u32| {
            let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == self.variable.as_bytes())
        };
        processes().is_ok_and(|mut all| all.any(|id| id != own && inherits(id)))
    }
}

/// The live processes of a group, except this process.
fn others_of(group: Pid) -> std::io::Result<Vec<Pid>> {
    let own = std::process::id();
    let is_other = |id: &u32| *id != own && group_of(*id) == Some(group);
    let to_pid = |id: u32| i32::try_from(id).ok().map(Pid::from_raw);
    Ok(processes()?.filter(is_other).filter_map(to_pid).collect())
}

fn processes() -> std::io::Result<impl Iterator<Item = u32>> {
    let number =
        |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Ok(std::fs::read_dir("/proc")?.filter_map(number))
}

/// The group of a live process; `None` for a zombie process.
fn group_of(process: u32) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The fields after the name are state, parent and group. The name may contain any character.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X");
    let group = fields.nth(1)?.parse().ok()?;
    (!is_dead).then_some(Pid::from_raw(group))
}
