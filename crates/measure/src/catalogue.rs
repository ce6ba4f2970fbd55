//! Every lock of the comparison: its name, its servers, the wake-up of its waiters, and the runs that measure it.
//!
//! The same lock on a synced Redis is a separate system with its own name.

use crate::adapters::redis::{
    getset, list, redisson, redlock, reentrant, set_nx_px, setnx_expire, spin, timeout_repair,
    watch,
};
use crate::adapters::sql::{self, Database, advisory, for_update, lock_table, optimistic};
use crate::adapters::zookeeper::{curator, ephemeral};
use crate::adapters::{etcd, holdfast};
use crate::lock::{Connector, LockError, LockKind, LockSettings, ServerAddresses, Target, first};
use crate::servers::{ServerKind, url};

/// The wake-up of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeUpKind {
    /// The waiter attempts again after a pause.
    Polling,
    /// A server sends an event, and the waiter attempts again.
    Event,
    /// The reply to the waiter's first request is the grant.
    Reply,
}

/// The runs that measure a system, unless `--systems` names others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selection {
    Always,
    FullRuns,
    OnlyIfNamed,
}

/// One lock on one kind of servers.
#[derive(Clone, Copy, Debug)]
pub struct System {
    pub name: &'static str,
    pub kind: ServerKind,
    pub lock: LockKind,
    pub wake_up: WakeUpKind,
    pub selection: Selection,
}

impl PartialEq for System {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for System {}

/// The system that all others are compared with.
pub const BASELINE: &str = "holdfast-http";

use Selection::{Always, FullRuns, OnlyIfNamed};
use ServerKind::{Etcd, Holdfast, MariaDb, Postgres, Redis, RedisSynced, ZooKeeper};
use WakeUpKind::{Event, Polling, Reply};

const fn system(
    name: &'static str,
    kind: ServerKind,
    lock: LockKind,
    wake_up: WakeUpKind,
    selection: Selection,
) -> System {
    System { name, kind, lock, wake_up, selection }
}

/// In the order of reports.
#[rustfmt::skip]
pub static ALL: [System; 39] = [
    system(BASELINE, Holdfast, holdfast::http::LOCK, Reply, Always),
    system("holdfast-sdk", Holdfast, holdfast::rust_client::LOCK, Reply, FullRuns),
    system("holdfast-zookeeper", Holdfast, curator::HOLDFAST, Event, FullRuns),
    system("redis-set-nx-px", Redis, set_nx_px::LOCK, Polling, Always),
    system("redisson-lock", Redis, redisson::reentrant::LOCK, Event, FullRuns),
    system("redisson-fair", Redis, redisson::fair::LOCK, Event, FullRuns),
    system("redlock", Redis, redlock::LOCK, Polling, Always),
    system("redis-setnx-expire", Redis, setnx_expire::LOCK, Polling, OnlyIfNamed),
    system("redis-reentrant-lua", Redis, reentrant::LOCK, Polling, OnlyIfNamed),
    system("redis-timeout-repair", Redis, timeout_repair::LOCK, Polling, OnlyIfNamed),
    system("redis-getset", Redis, getset::LOCK, Polling, OnlyIfNamed),
    system("redis-list", Redis, list::LOCK, Polling, OnlyIfNamed),
    system("redis-spin", Redis, spin::LOCK, Polling, OnlyIfNamed),
    system("redisson-write", Redis, redisson::read_write::LOCK, Event, OnlyIfNamed),
    system("redisson-semaphore", Redis, redisson::semaphore::LOCK, Event, OnlyIfNamed),
    system("redisson-permits", Redis, redisson::permits::LOCK, Event, OnlyIfNamed),
    system("redis-set-nx-px-always", RedisSynced, set_nx_px::LOCK, Polling, Always),
    system("redisson-lock-always", RedisSynced, redisson::reentrant::LOCK, Event, OnlyIfNamed),
    system("redisson-fair-always", RedisSynced, redisson::fair::LOCK, Event, OnlyIfNamed),
    system("redlock-always", RedisSynced, redlock::LOCK, Polling, FullRuns),
    system("redis-setnx-expire-always", RedisSynced, setnx_expire::LOCK, Polling, OnlyIfNamed),
    system("redis-reentrant-lua-always", RedisSynced, reentrant::LOCK, Polling, OnlyIfNamed),
    system("redis-timeout-repair-always", RedisSynced, timeout_repair::LOCK, Polling, OnlyIfNamed),
    system("redis-getset-always", RedisSynced, getset::LOCK, Polling, OnlyIfNamed),
    system("redisson-semaphore-always", RedisSynced, redisson::semaphore::LOCK, Event, OnlyIfNamed),
    system("redisson-permits-always", RedisSynced, redisson::permits::LOCK, Event, OnlyIfNamed),
    system("postgres-advisory", Postgres, advisory::POSTGRES, Reply, Always),
    system("postgres-for-update", Postgres, for_update::QUEUED, Reply, FullRuns),
    system("postgres-nowait", Postgres, for_update::NOWAIT, Polling, OnlyIfNamed),
    system("postgres-skip-locked", Postgres, for_update::SKIP_LOCKED, Polling, OnlyIfNamed),
    system("postgres-lock-table", Postgres, lock_table::LOCK, Polling, OnlyIfNamed),
    system("mariadb-get-lock", MariaDb, advisory::MARIADB, Reply, FullRuns),
    system("mariadb-for-update", MariaDb, for_update::QUEUED, Reply, FullRuns),
    system("mariadb-nowait", MariaDb, for_update::NOWAIT, Polling, OnlyIfNamed),
    system("mariadb-skip-locked", MariaDb, for_update::SKIP_LOCKED, Polling, OnlyIfNamed),
    system("mariadb-lock-table", MariaDb, lock_table::LOCK, Polling, OnlyIfNamed),
    system("zookeeper-curator", ZooKeeper, curator::LOCK, Event, Always),
    system("zookeeper-ephemeral", ZooKeeper, ephemeral::LOCK, Event, FullRuns),
    system("etcd-lock", Etcd, etcd::LOCK, Reply, Always),
];

/// Systems without a lock: a writer changes a value only if no other writer has changed it since its read. They exclude
/// nobody, so only `measure writers` measures them.
#[rustfmt::skip]
pub static OPTIMISTIC: [System; 3] = [
    system("postgres-optimistic", Postgres, optimistic::LOCK, Reply, OnlyIfNamed),
    system("mariadb-optimistic", MariaDb, optimistic::LOCK, Reply, OnlyIfNamed),
    system("redis-watch", Redis, watch::LOCK, Reply, OnlyIfNamed),
];

/// The systems of `measure writers` without `--systems`: a queue, a row lock, and the optimistic ones.
pub const WRITERS: [&str; 5] =
    [BASELINE, "postgres-for-update", "postgres-optimistic", "mariadb-optimistic", "redis-watch"];

/// Returns the lock of this name.
pub fn named(name: &str) -> Option<&'static System> {
    ALL.iter().find(|system| system.name == name)
}

/// Returns the lock or the optimistic system of this name.
pub fn writer_named(name: &str) -> Option<&'static System> {
    named(name).or_else(|| OPTIMISTIC.iter().find(|system| system.name == name))
}

impl System {
    pub fn is_optimistic(&self) -> bool {
        OPTIMISTIC.contains(self)
    }
}

/// The systems of a run without `--systems`.
pub fn selected(at_most: Selection) -> Vec<&'static System> {
    ALL.iter().filter(|system| system.selection <= at_most).collect()
}

/// The position of a system in reports; unknown systems come last.
pub fn position(name: &str) -> usize {
    let mut all = ALL.iter().chain(&OPTIMISTIC);
    all.position(|system| system.name == name).unwrap_or(usize::MAX)
}

impl System {
    pub fn is_redlock(&self) -> bool {
        self.lock.name == redlock::LOCK.name
    }

    /// The number of servers that a client of this lock calls.
    pub fn nodes(&self) -> u32 {
        match self.kind {
            Redis | RedisSynced if self.is_redlock() => 5,
            Redis | RedisSynced | Postgres | MariaDb => 1,
            ZooKeeper | Etcd | Holdfast => 3,
        }
    }

    /// Opens clients at the servers of this lock: of five Redis servers, a lock on one server uses only the first.
    pub fn connector(&self, addresses: ServerAddresses, settings: LockSettings) -> Connector {
        let addresses = if self.nodes() == 1 { addresses.only_first() } else { addresses };
        Connector::of(self.lock, Target { kind: self.kind, addresses, settings })
    }

    /// Creates the objects that the lock expects on new servers, such as tables.
    ///
    /// # Errors
    /// [`LockError::Unreachable`] if the servers do not reply.
    pub async fn prepare(&self, addresses: &ServerAddresses) -> Result<(), LockError> {
        let database = match self.kind {
            Postgres => Database::Postgres,
            MariaDb => Database::MariaDb,
            Redis | RedisSynced | ZooKeeper | Etcd | Holdfast => return Ok(()),
        };
        sql::create_tables(database, &url(self.kind, first(&addresses.nodes)?)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_unique() {
        let mut names: Vec<_> = ALL.iter().chain(&OPTIMISTIC).map(|system| system.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len() + OPTIMISTIC.len());
    }

    #[test]
    fn every_name_contains_the_name_of_its_lock() {
        for System { name, lock, .. } in ALL.iter().chain(&OPTIMISTIC) {
            assert!(name.contains(lock.name), "{name}: {}", lock.name);
        }
    }

    #[test]
    fn a_quick_run_has_one_system_of_every_server_except_mariadb_and_starts_with_holdfast() {
        let quick = selected(Always);
        assert_eq!(quick[0].name, BASELINE);
        let is_left_out = |kind: &ServerKind| !quick.iter().any(|system| system.kind == *kind);
        let left_out: Vec<_> = ServerKind::ALL.into_iter().filter(is_left_out).collect();
        assert_eq!(left_out, [MariaDb]);
    }

    #[test]
    fn a_full_run_has_one_of_every_server() {
        let full = selected(FullRuns);
        assert!(ServerKind::ALL.iter().all(|kind| full.iter().any(|system| system.kind == *kind)));
    }

    #[tokio::test]
    async fn without_servers_no_client_connects() {
        for system in ALL.iter().chain(&OPTIMISTIC) {
            let connector = system.connector(ServerAddresses::default(), LockSettings::default());
            let error = connector.client().await.err().unwrap();
            assert!(matches!(error, LockError::Rejected(_)), "{}: {error}", system.name);
        }
    }
}
