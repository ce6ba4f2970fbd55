//! Every system that can be compared: its name, its servers, how its waiters learn of the lock, and when it is measured.
//!
//! Owns the names of reports and command lines, which are unique where those of the adapters are not: the same lock on
//! a Redis that syncs is another system. Refuses to speak to a server; `connect` does that.

use crate::servers::ServerKind;

/// How a waiter learns that it may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It asks again after a pause.
    Polls,
    /// A server tells it, and then it asks.
    Told,
    /// Its first request is answered when the lock is its own: the answer is the wake-up.
    Answered,
}

/// Which runs measure it, unless `--systems` names others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Chosen {
    /// Every run.
    Always,
    /// Full runs.
    Full,
    /// Only if it is named.
    Named,
}

/// One system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name here.
    pub name: &'static str,
    /// Its servers.
    pub kind: ServerKind,
    /// The name of its adapter.
    pub adapter: &'static str,
    /// How its waiters learn that they may go on.
    pub waiting: Waiting,
    /// Which runs measure it.
    pub chosen: Chosen,
}

/// What everything is compared with.
pub const OURS: &str = "holdfast-http";

use Chosen::{Always, Full, Named};
use ServerKind::{Etcd, Holdfast, MariaDb, Postgres, Redis, RedisSynced, ZooKeeper};
use Waiting::{Answered, Polls, Told};

const fn of(
    name: &'static str,
    adapter: &'static str,
    kind: ServerKind,
    waiting: Waiting,
    chosen: Chosen,
) -> Listed {
    Listed { name, kind, adapter, waiting, chosen }
}

/// All of them, in the order of reports.
pub static ALL: [Listed; 37] = [
    of(OURS, OURS, Holdfast, Answered, Always),
    of("holdfast-sdk", "holdfast-sdk", Holdfast, Answered, Full),
    of("holdfast-zookeeper", "holdfast-zookeeper", Holdfast, Told, Full),
    of("redis-set-nx-px", "redis-set-nx-px", Redis, Polls, Always),
    of("redisson-lock", "redisson-lock", Redis, Told, Full),
    of("redisson-fair", "redisson-fair", Redis, Told, Full),
    of("redlock", "redlock", Redis, Polls, Always),
    of("redis-setnx-expire", "redis-setnx-expire", Redis, Polls, Named),
    of("redis-reentrant-lua", "redis-reentrant-lua", Redis, Polls, Named),
    of("redis-timeout-repair", "redis-timeout-repair", Redis, Polls, Named),
    of("redis-getset", "redis-getset", Redis, Polls, Named),
    of("redisson-write", "redisson-write", Redis, Told, Named),
    of("redisson-semaphore", "redisson-semaphore", Redis, Told, Named),
    of("redisson-permits", "redisson-permits", Redis, Told, Named),
    of("redis-set-nx-px-always", "redis-set-nx-px", RedisSynced, Polls, Always),
    of("redisson-lock-always", "redisson-lock", RedisSynced, Told, Named),
    of("redisson-fair-always", "redisson-fair", RedisSynced, Told, Named),
    of("redlock-always", "redlock", RedisSynced, Polls, Full),
    of("redis-setnx-expire-always", "redis-setnx-expire", RedisSynced, Polls, Named),
    of("redis-reentrant-lua-always", "redis-reentrant-lua", RedisSynced, Polls, Named),
    of("redis-timeout-repair-always", "redis-timeout-repair", RedisSynced, Polls, Named),
    of("redis-getset-always", "redis-getset", RedisSynced, Polls, Named),
    of("redisson-semaphore-always", "redisson-semaphore", RedisSynced, Told, Named),
    of("redisson-permits-always", "redisson-permits", RedisSynced, Told, Named),
    of("postgres-advisory", "postgres-advisory", Postgres, Answered, Always),
    of("postgres-for-update", "postgres-for-update", Postgres, Answered, Full),
    of("postgres-nowait", "postgres-nowait", Postgres, Polls, Named),
    of("postgres-skip-locked", "postgres-skip-locked", Postgres, Polls, Named),
    of("postgres-lock-table", "postgres-lock-table", Postgres, Polls, Named),
    of("mariadb-get-lock", "mariadb-get-lock", MariaDb, Answered, Full),
    of("mariadb-for-update", "mariadb-for-update", MariaDb, Answered, Full),
    of("mariadb-nowait", "mariadb-nowait", MariaDb, Polls, Named),
    of("mariadb-skip-locked", "mariadb-skip-locked", MariaDb, Polls, Named),
    of("mariadb-lock-table", "mariadb-lock-table", MariaDb, Polls, Named),
    of("zookeeper-curator", "zookeeper-curator", ZooKeeper, Told, Always),
    of("zookeeper-ephemeral", "zookeeper-ephemeral", ZooKeeper, Told, Full),
    of("etcd-lock", "etcd-lock", Etcd, Answered, Always),
];

/// The one of this name.
pub fn named(name: &str) -> Option<&'static Listed> {
    ALL.iter().find(|listed| listed.name == name)
}

/// Those that a run measures which names none.
pub fn chosen(at_most: Chosen) -> Vec<&'static Listed> {
    ALL.iter().filter(|listed| listed.chosen <= at_most).collect()
}

/// Where a system stands in reports; unknown ones come last.
pub fn place(name: &str) -> usize {
    ALL.iter().position(|listed| listed.name == name).unwrap_or(ALL.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_there_once() {
        let mut names: Vec<_> = ALL.iter().map(|listed| listed.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }

    #[test]
    fn a_quick_run_has_one_of_every_server_but_mariadb_and_begins_with_ours() {
        let quick = chosen(Always);
        assert_eq!(quick.first().unwrap().name, OURS);
        let left_out = ServerKind::ALL
            .into_iter()
            .filter(|kind| !quick.iter().any(|listed| listed.kind == *kind))
            .collect::<Vec<_>>();
        assert_eq!(left_out, [MariaDb]);
    }

    #[test]
    fn a_full_run_has_one_of_every_server() {
        let full = chosen(Full);
        assert!(ServerKind::ALL.iter().all(|kind| full.iter().any(|listed| listed.kind == *kind)));
    }
}
