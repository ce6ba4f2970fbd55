//! The reasons for the advantages of other systems, which the report prints beside the numbers.

use crate::catalogue::{System, WakeUpKind};
use crate::servers::ServerKind;

/// A compared property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Property {
    Throughput,
    HandOver,
    CycleTime,
    RoundTrips,
    ProcessorTime,
    Fairness,
    Failover,
    Safety,
}

impl Property {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Throughput => "cycles per second, a lock for each client",
            Self::HandOver => "cycles per second on one lock",
            Self::CycleTime => "time of a cycle",
            Self::RoundTrips => "round trips per acquire",
            Self::ProcessorTime => "processor time of the servers",
            Self::Fairness => "order of grants",
            Self::Failover => "time to the next grant after a loss",
            Self::Safety => "what a fault does to the data",
        }
    }
}

/// Returns the reason for the advantage of this system over holdfast in this property.
pub(super) fn reason(system: &System, property: Property) -> &'static str {
    match property {
        Property::HandOver if system.wake_up == WakeUpKind::Polling => {
            "not hand-overs: there is no queue, so the client that has just released acquires again while the others sleep between two attempts; see the order of grants"
        }
        Property::Throughput
        | Property::CycleTime
        | Property::ProcessorTime
        | Property::HandOver => cost(system),
        Property::RoundTrips => {
            "it needs fewer requests for one lock; each of holdfast's waits for two disks in any case"
        }
        Property::Fairness => {
            "its queue was in order where holdfast's was not: waiters reach holdfast's nodes by different ways, and the log's order counts"
        }
        Property::Failover => failover(system),
        Property::Safety => safety(system),
    }
}

fn cost(system: &System) -> &'static str {
    match system.kind {
        ServerKind::Redis if system.is_redlock() => {
            "five memories instead of disks: a majority that restarts forgets a held lock"
        }
        ServerKind::Redis => {
            "one server, in memory: nothing is written to a disk or replicated before the reply, so an acknowledged lock may be lost with the machine"
        }
        ServerKind::RedisSynced if system.is_redlock() => {
            "five servers that do not have to agree with each other: no log, no order, no token, only a majority and a clock"
        }
        ServerKind::RedisSynced => {
            "one server and one disk: it is synced, but no other machine has it, so the lock is lost with that disk and unavailable while the server is down"
        }
        ServerKind::Postgres | ServerKind::MariaDb if is_named_lock(system) => {
            "the lock lives in the memory of one server and ends with the connection: nothing is written, nothing is replicated, nothing survives"
        }
        ServerKind::MariaDb if !is_written_row(system) => {
            "one server, which keeps row locks in memory: nothing is written for a transaction that only locks"
        }
        ServerKind::Postgres | ServerKind::MariaDb => {
            "one server and one disk: a commit waits for one sync and for no other machine"
        }
        ServerKind::ZooKeeper => {
            "it promises as much: three nodes, synced on a majority. Small binary frames on one connection cost it less than HTTP costs holdfast, and it has been tuned for many years"
        }
        ServerKind::Etcd => {
            "it promises as much: three nodes, synced on a majority. Here it simply does it better"
        }
        ServerKind::Holdfast => "another front-end of holdfast",
    }
}

fn is_named_lock(system: &System) -> bool {
    ["postgres-advisory", "mariadb-get-lock"].contains(&system.name)
}

fn is_written_row(system: &System) -> bool {
    system.name.ends_with("-lock-table")
}

fn failover(system: &System) -> &'static str {
    match system.kind {
        ServerKind::Redis | ServerKind::RedisSynced if system.is_redlock() => {
            "there is no leader to lose: four of five servers are still a majority"
        }
        ServerKind::Redis | ServerKind::RedisSynced => {
            "nothing had to detect the loss or to vote: the tool itself started or promoted the successor at once, which takes time in production"
        }
        ServerKind::Postgres | ServerKind::MariaDb => {
            "nothing had to detect the loss or to vote: the tool started the same server again at once, on the same disk, which must still exist"
        }
        ServerKind::ZooKeeper | ServerKind::Etcd | ServerKind::Holdfast => {
            "it detected the loss and voted sooner"
        }
    }
}

fn safety(system: &System) -> &'static str {
    match system.kind {
        ServerKind::Postgres | ServerKind::MariaDb if !is_written_row(system) => {
            "it has no time-out: a paused holder keeps the lock, no other client sells meanwhile, and all wait as long as it is paused"
        }
        ServerKind::ZooKeeper | ServerKind::Etcd | ServerKind::Holdfast => {
            "its lease ended after the fault; a longer pause would have been seen as with holdfast without the fence"
        }
        ServerKind::Redis
        | ServerKind::RedisSynced
        | ServerKind::Postgres
        | ServerKind::MariaDb => {
            "in this run the fault missed the moment in which it does harm; its limitations are listed below, each with a test that shows it"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::named;

    fn why(name: &str, property: Property) -> &'static str {
        reason(named(name).unwrap(), property)
    }

    #[test]
    fn the_reason_for_a_lock_in_memory_mentions_the_missing_disk() {
        assert!(why("redis-set-nx-px", Property::CycleTime).contains("lost with the machine"));
        assert!(why("redis-set-nx-px-always", Property::CycleTime).contains("synced"));
        assert!(why("redis-set-nx-px", Property::HandOver).contains("not hand-overs"));
        assert!(!why("redisson-lock", Property::HandOver).contains("not hand-overs"));
        assert!(why("postgres-lock-table", Property::Safety).contains("missed the moment"));
        assert!(why("mariadb-nowait", Property::CycleTime).contains("row locks in memory"));
    }
}
