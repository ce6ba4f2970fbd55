//! The servers of one kind, started for a measurement in a separate directory.
//!
//! Dropping a group stops its servers and removes their files.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::unistd::{SysconfVar, sysconf};
use tempfile::TempDir;

use super::process::{process_stat, process_tree};
use super::{
    Lifetime, Server, ServerError, ServerKind, holdfast, system_error, zookeeper_addresses,
};
use crate::catalogue::System;
use crate::lock::{Connector, LockSettings, ServerAddresses};
use crate::statistics::number;

#[derive(Debug)]
pub struct ServerGroup {
    // This field precedes the directory, so that the servers stop first.
    pub servers: Vec<Server>,
    pub addresses: ServerAddresses,
    /// Whether the servers have had load until their rate was flat.
    pub is_warm: bool,
    directory: TempDir,
}

impl ServerGroup {
    /// Starts the servers of a kind below this directory.
    pub async fn start(kind: ServerKind, below: &Path) -> Result<Self, ServerError> {
        let directory = server_directory(below)?;
        let servers = kind.start(directory.path(), Lifetime::WithParent).await?;
        let mut group = Self::of(servers, directory);
        if kind == ServerKind::Holdfast {
            group.addresses.zookeeper = zookeeper_addresses(&group.servers)?;
        }
        Ok(group)
    }

    /// Starts so many nodes of holdfast below this directory.
    pub async fn holdfast(nodes: usize, below: &Path) -> Result<Self, ServerError> {
        let directory = server_directory(below)?;
        let servers = holdfast::cluster(directory.path(), nodes, Lifetime::WithParent).await?;
        Ok(Self::of(servers, directory))
    }

    /// Creates a group without own servers, for Redis servers that somebody else runs.
    fn given(redis: &[String], below: &Path) -> Result<Self, ServerError> {
        let mut group = Self::of(Vec::new(), server_directory(below)?);
        group.addresses.redis = redis.to_vec();
        Ok(group)
    }

    /// Creates a group of servers started in this directory.
    pub(crate) fn of(servers: Vec<Server>, directory: TempDir) -> Self {
        let addresses = ServerAddresses::of(servers.iter().map(Server::address).collect());
        Self { servers, addresses, is_warm: false, directory }
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Prepares the servers for a lock.
    pub async fn connector(
        &self,
        system: &System,
        settings: LockSettings,
    ) -> Result<Connector, String> {
        let prepared = system.prepare(&self.addresses).await;
        prepared.map_err(|error| format!("{}: {error}", system.name))?;
        Ok(system.connector(self.addresses.clone(), settings))
    }

    /// Describes a server that has ended unexpectedly, with the end of its log.
    pub fn crashed(&mut self) -> Option<String> {
        let server = self.servers.iter_mut().find_map(|one| one.has_ended().then_some(one))?;
        let (name, log) = (server.name(), server.log_tail());
        Some(format!("{name} ended during the run; the end of its log: {log}"))
    }

    /// Returns the processor seconds of the servers and their descendants, in steps of the kernel's tick (10 ms).
    pub fn processor_seconds(&self) -> Option<f64> {
        let processes = self.servers.iter().flat_map(|server| process_tree(server.pid()));
        let ticks: u64 = processes.filter_map(processor_ticks).sum();
        let per_second = u64::try_from(sysconf(SysconfVar::CLK_TCK).ok()??).ok()?;
        Some(number(ticks) / number(per_second.max(1)))
    }
}

/// Returns the user and system time of a process and of its ended children.
fn processor_ticks(pid: u32) -> Option<u64> {
    let stat = process_stat(pid)?;
    Some(stat.get(11..15)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum())
}

/// Creates a directory accessible to other users, because PostgreSQL does not run as root.
pub(crate) fn server_directory(below: &Path) -> Result<TempDir, ServerError> {
    let permissions = std::fs::Permissions::from_mode(0o755);
    let mut builder = tempfile::Builder::new();
    let made = builder.prefix("holdfast-measure-").permissions(permissions).tempdir_in(below);
    made.map_err(system_error(format!("make a directory in {}", below.display())))
}

/// A group that starts at its first use, and again after a crash of one of its servers.
#[derive(Debug)]
pub struct LazyGroup {
    kind: ServerKind,
    /// The Redis servers that somebody else runs; empty to start own ones.
    given: Vec<String>,
    group: Option<ServerGroup>,
    /// The reason for the failed start, which is final.
    failure: Option<String>,
}

impl LazyGroup {
    pub fn new(kind: ServerKind) -> Self {
        Self { kind, given: Vec::new(), group: None, failure: None }
    }

    /// Returns a group that uses these Redis servers, if it is one of Redis.
    #[must_use]
    pub fn with_redis(mut self, given: &[String]) -> Self {
        if self.kind == ServerKind::Redis {
            self.given = given.to_vec();
        }
        self
    }

    pub async fn get(&mut self, below: &Path) -> Result<&mut ServerGroup, String> {
        if self.group.is_none() && self.failure.is_none() {
            let started = if self.given.is_empty() {
                ServerGroup::start(self.kind, below).await
            } else {
                ServerGroup::given(&self.given, below)
            };
            match started {
                Ok(group) => self.group = Some(group),
                Err(error) => self.failure = Some(error.to_string()),
            }
        }
        self.group.as_mut().ok_or_else(|| self.failure.clone().unwrap_or_default())
    }

    /// Like [`ServerGroup::crashed`]; the next use starts a new group.
    pub fn crashed(&mut self) -> Option<String> {
        let crashed = self.group.as_mut()?.crashed()?;
        self.group = None;
        Some(crashed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_processor_time_and_a_missing_one_has_none() {
        assert!(processor_ticks(std::process::id()).is_some());
        assert_eq!(processor_ticks(0), None);
    }
}
