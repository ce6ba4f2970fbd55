//! The end of a command whose `holdfast run` was killed: the leash ends the group, and then releases the lock.
//!
//! Owns the order: nothing is released while a process of the group lives, or one that inherited the session (a nested
//! `holdfast run` has a group and a leash of its own). Each process is killed by itself, so that the leash, which leads the group,
//! survives. If that takes until the moment of the kill, the leash kills the group at once and releases nothing. Bounds: one
//! call at a time; as many lines as locks are held, 16.

use std::time::Duration;

use holdfast_client::Moment;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use reqwest::Method;

use crate::cli::{Format, Target};
use crate::commands::asking::{Ask, Asking};
use crate::exit::Stop;

/// Between two looks at the processes.
const STEP: Duration = Duration::from_millis(20);

/// What to release: a line each.
#[derive(Debug, Default)]
pub(super) struct Orphan {
    releases: Vec<Release>,
}

/// `ADDRESSES TARGET SESSION`
#[derive(Debug)]
struct Release {
    addresses: Vec<String>,
    /// Path and query of a `DELETE`.
    target: String,
    /// What processes that inherited the session have in their environment.
    mark: String,
}

/// The line that tells a leash what to release, and whose session holds it.
pub(super) fn release_line(addresses: &[String], target: &str, session: &str) -> String {
    format!("{} {target} {session}", addresses.join(","))
}

impl Orphan {
    /// A command whose `run` is gone is asked to end, and has this time, or what is left of the lease.
    pub(super) const GRACE: Duration = Duration::from_secs(5);

    /// Takes in a line.
    pub(super) fn add(&mut self, line: &str) {
        let mut words = line.splitn(3, ' ');
        let words = (words.next(), words.next(), words.next());
        let (Some(addresses), Some(target), Some(session)) = words else { return };
        let addresses = addresses.split(',').map(str::to_owned).collect();
        let mark = format!("HOLDFAST_SESSION={session}");
        self.releases.push(Release { addresses, target: target.to_owned(), mark });
    }

    /// Ends the group, and releases what its command held once nobody of it is left. Returns early, and the caller kills
    /// the group, if the processes cannot be listed.
    pub(super) async fn end(&self, group: Pid) {
        let _gone = killpg(group, Signal::SIGTERM);
        let asked_until = Moment::now().plus(Self::GRACE);
        loop {
            let others = others_of(group);
            match others {
                Ok(others) if others.is_empty() => break,
                Ok(others) if Moment::now() >= asked_until => {
                    for other in others {
                        let _gone = kill(other, Signal::SIGKILL);
                    }
                }
                Err(_) if Moment::now() >= asked_until => return,
                Ok(_) | Err(_) => {}
            }
            tokio::time::sleep(STEP).await;
        }
        while self.releases.iter().any(Release::is_inherited) {
            tokio::time::sleep(STEP).await;
        }
        for release in &self.releases {
            // If no node takes it, the lock is free when its time-to-live has passed.
            drop(release.send().await);
        }
    }
}

impl Release {
    async fn send(&self) -> Result<Vec<u8>, Stop> {
        let target = Target { addr: self.addresses.clone(), output: Format::Value };
        let ask = Ask { method: Method::DELETE, ..Ask::get(self.target.clone()) };
        Asking::new(&target, None)?.bytes(&ask).await
    }

    /// Whether another process has the session in its environment.
    fn is_inherited(&self) -> bool {
        let us = std::process::id();
        let marked = |id: u32| {
            let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == self.mark.as_bytes())
        };
        processes().is_ok_and(|mut all| all.any(|id| id != us && marked(id)))
    }
}

/// The living processes of a group, this one apart.
fn others_of(group: Pid) -> std::io::Result<Vec<Pid>> {
    let us = std::process::id();
    let is_other = |id: &u32| *id != us && group_of(*id) == Some(group);
    let to_pid = |id: u32| i32::try_from(id).ok().map(Pid::from_raw);
    Ok(processes()?.filter(is_other).filter_map(to_pid).collect())
}

fn processes() -> std::io::Result<impl Iterator<Item = u32>> {
    let number =
        |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Ok(std::fs::read_dir("/proc")?.filter_map(number))
}

/// The group of a process that lives: one that is dead and not reaped yet is none.
fn group_of(process: u32) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Behind the name, which may contain anything: state, parent, group.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X");
    let group = fields.nth(1)?.parse().ok()?;
    (!is_dead).then_some(Pid::from_raw(group))
}
