//! The real servers of one kind, started for a while, in a directory of their own.
//!
//! Owns starting them, their addresses, what they cost the processor, and noticing that one has fallen. Everything stops
//! and is removed when a stage is dropped, however the tool ends.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::System;
use crate::servers::{Lifetime, Server, ServerError, ServerKind, zookeeper_doors};
use nix::unistd::{SysconfVar, sysconf};
use tempfile::TempDir;

use crate::catalogue::Listed;
use crate::connect::Addresses;
use crate::record::About;

/// Leases of what is measured without faults: longer than any case.
pub const TTL: Duration = Duration::from_secs(30);

/// Servers that run.
#[derive(Debug)]
pub struct ServerGroup {
    /// Their kind.
    pub kind: ServerKind,
    /// The servers; those that end are noticed by [`ServerGroup::fallen`]. Before the directory: they stop first.
    pub servers: Vec<Server>,
    /// Their files.
    directory: TempDir,
    addresses: Addresses,
}

impl ServerGroup {
    /// Starts the servers of a kind, below this directory.
    ///
    /// # Errors
    /// [`ServerError`]: they are missing or do not serve.
    pub async fn open(kind: ServerKind, below: &Path) -> Result<Self, ServerError> {
        let directory = directory(below)?;
        let servers = kind.start(directory.path(), Lifetime::WithParent).await?;
        let nodes = servers.iter().map(Server::address).collect();
        let zookeeper =
            if kind == ServerKind::Holdfast { zookeeper_doors(&servers)? } else { Vec::new() };
        Ok(Self { kind, servers, directory, addresses: Addresses { nodes, zookeeper } })
    }

    /// Where the servers are.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Where their files are.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A system of this kind, ready for clients.
    ///
    /// # Errors
    /// In words, if the servers refuse.
    pub async fn system(&self, listed: &Listed, ttl: Duration) -> Result<Arc<dyn System>, String> {
        let refused = |trouble| format!("{}: {trouble}", listed.name);
        listed.prepare(&self.addresses).await.map_err(refused)?;
        listed.system(&self.addresses, ttl).map_err(refused)
    }

    /// Which of the servers has ended without being asked to, with the end of its log.
    pub fn fallen(&mut self) -> Option<String> {
        let fallen = self.servers.iter_mut().find_map(|server| server.ended().then_some(server))?;
        Some(format!(
            "{} has ended in mid-run; the end of its log: {}",
            fallen.name(),
            fallen.tail()
        ))
    }

    /// Processor seconds that the servers and all processes that they started have used so far, in steps of the kernel's tick
    /// (10 ms); none if that cannot be read.
    pub fn processor_seconds(&self) -> Option<f64> {
        let processes = processes();
        let mut tree: BTreeSet<u32> = self.servers.iter().map(Server::pid).collect();
        loop {
            let born = processes.iter().filter(|(_, process)| tree.contains(&process.parent));
            let born: Vec<u32> =
                born.map(|(pid, _)| *pid).filter(|pid| !tree.contains(pid)).collect();
            if born.is_empty() {
                break;
            }
            tree.extend(born);
        }
        let ticks: u64 =
            tree.iter().filter_map(|pid| processes.get(pid)).map(|process| process.ticks).sum();
        let a_second = sysconf(SysconfVar::CLK_TCK).ok().flatten()?;
        let a_second = u64::try_from(a_second).ok().filter(|ticks| *ticks > 0)?;
        Some(crate::statistics::number(ticks) / crate::statistics::number(a_second))
    }
}

/// A row about a system, whether its servers are here or not.
pub fn about(listed: &Listed) -> About {
    let limitations = listed.system(&Addresses::nowhere(), TTL).map(|system| system.limitations());
    let limitations =
        limitations.unwrap_or_default().iter().map(|limitation| limitation.text().to_owned());
    let (kind, missing) = (listed.kind, listed.kind.missing());
    About {
        system: listed.name.to_owned(),
        servers: kind.name().to_owned(),
        nodes: nodes(listed),
        version: missing.map_or_else(|| kind.version(), |_| "not installed".to_owned()),
        durability: kind.durability().to_owned(),
        limitations: limitations.collect(),
    }
}

/// How many servers a lock of this system asks.
fn nodes(listed: &Listed) -> u32 {
    match listed.kind {
        ServerKind::Redis | ServerKind::RedisSynced if listed.adapter == "redlock" => 5,
        ServerKind::Redis
        | ServerKind::RedisSynced
        | ServerKind::Postgres
        | ServerKind::MariaDb => 1,
        ServerKind::ZooKeeper | ServerKind::Etcd | ServerKind::Holdfast => 3,
    }
}

/// A directory that other users may pass: `PostgreSQL` does not run as root.
fn directory(below: &Path) -> Result<TempDir, ServerError> {
    let open = std::fs::Permissions::from_mode(0o755);
    let made =
        tempfile::Builder::new().prefix("holdfast-compare-").permissions(open).tempdir_in(below);
    made.map_err(|error| ServerError::System {
        what: format!("make a directory in {}", below.display()),
        error,
    })
}

struct Process {
    parent: u32,
    /// Its own time and that of its children that have ended.
    ticks: u64,
}

fn processes() -> BTreeMap<u32, Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, process(pid)?))).collect()
}

/// See `man 5 proc`: after the name in parentheses come state, parent, …, utime, stime, cutime, cstime.
fn process(pid: u32) -> Option<Process> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let parent = fields.get(1)?.parse().ok()?;
    let ticks = fields.get(11..15)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(Process { parent, ticks })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_parent_and_has_used_time() {
        let this = process(std::process::id()).unwrap();
        assert!(processes().contains_key(&this.parent));
    }

    #[test]
    fn what_is_said_about_a_system_has_its_caveats() {
        let about = about(crate::catalogue::named("redlock").unwrap());
        assert_eq!((about.nodes, about.servers.as_str()), (5, "redis"));
        assert!(!about.limitations.is_empty());
    }
}
