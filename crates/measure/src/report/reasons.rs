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
    /// The advantage, after "7.7 times" or "It has".
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Throughput => "as many cycles a second",
            Self::HandOver => "as many cycles a second on one lock",
            Self::CycleTime => "faster cycles",
            Self::RoundTrips => "fewer round trips for an acquire",
            Self::ProcessorTime => "less processor time of the servers",
            Self::Fairness => "a better order of grants",
            Self::Failover => "faster to the next grant after a loss",
            Self::Safety => "an exact stock under a fault",
        }
    }

    /// The property in a list.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::HandOver => "hand-over of one lock",
            Self::CycleTime => "time of a cycle",
            Self::RoundTrips => "round trips",
            Self::ProcessorTime => "processor time",
            Self::Fairness => "order of grants",
            Self::Failover => "time to the next grant after a loss",
            Self::Safety => "stock exact under a fault",
        }
    }
}

/// Returns the reason for the advantage of this system over holdfast in this property, as a clause.
pub(super) fn reason(system: &System, property: Property) -> &'static str {
    match property {
        Property::HandOver if system.wake_up == WakeUpKind::Polling => {
            "which are not hand-overs: without a queue, the last holder acquires again while the others sleep"
        }
        Property::Throughput
        | Property::CycleTime
        | Property::ProcessorTime
        | Property::HandOver => cost(system),
        Property::RoundTrips => "because one lock needs fewer requests",
        Property::Fairness => {
            "because holdfast's waiters reach three nodes, and the order in the log decides"
        }
        Property::Failover => failover(system),
        Property::Safety => safety(system),
    }
}

fn cost(system: &System) -> &'static str {
    match system.kind {
        ServerKind::Redis if system.is_redlock() => {
            "because five servers reply from memory; a majority that restarts forgets a held lock"
        }
        ServerKind::Redis => {
            "because one server replies from memory; an acknowledged lock may be lost with the machine"
        }
        ServerKind::RedisSynced if system.is_redlock() => {
            "because its five servers do not have to agree: it has no log, no order and no token"
        }
        ServerKind::RedisSynced => {
            "because only one disk must be synced; the lock is lost with that disk"
        }
        ServerKind::Postgres | ServerKind::MariaDb if is_named_lock(system) => {
            "because the lock lives in the memory of one server and ends with the connection"
        }
        ServerKind::MariaDb if !is_written_row(system) => {
            "because one server keeps row locks in memory; a transaction that only locks writes nothing"
        }
        ServerKind::Postgres | ServerKind::MariaDb => {
            "because a commit waits for one disk and for no other machine"
        }
        ServerKind::ZooKeeper => {
            "because small binary frames on one connection cost it less than HTTP costs holdfast; its guarantee is as strong"
        }
        ServerKind::Etcd => "with a guarantee that is as strong",
        ServerKind::Holdfast => "because it is another front-end of holdfast",
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
            "because there is no leader to lose: four of five servers are still a majority"
        }
        ServerKind::Redis | ServerKind::RedisSynced => {
            "because the tool started or promoted the successor at once, without detection and vote"
        }
        ServerKind::Postgres | ServerKind::MariaDb => {
            "because the tool started the same server with its disk at once, without detection and vote"
        }
        ServerKind::ZooKeeper | ServerKind::Etcd | ServerKind::Holdfast => {
            "because it detected the loss and elected a leader sooner"
        }
    }
}

fn safety(system: &System) -> &'static str {
    match system.kind {
        ServerKind::Postgres | ServerKind::MariaDb if !is_written_row(system) => {
            "because it has no time-out: a paused holder keeps the lock, and all others wait"
        }
        ServerKind::ZooKeeper | ServerKind::Etcd | ServerKind::Holdfast => {
            "because its lease ended after the fault"
        }
        ServerKind::Redis
        | ServerKind::RedisSynced
        | ServerKind::Postgres
        | ServerKind::MariaDb => "because the fault missed the moment in each trial of this run",
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
