//! Why a system is better than ours where it is, as data: a report prints it beside the number.
//!
//! Owns the words, by system and property, as [`crate::Limitation`] owns those of what it cannot do. Refuses to measure, and to
//! say that it does not count: who reads decides what durability, a queue or a copy is worth.

/// What can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Property {
    /// Cycles a second, every client with its own lock.
    Throughput,
    /// Cycles a second of many clients on one lock.
    HandOver,
    /// How long a cycle takes.
    Time,
    /// Requests to servers for one lock.
    RoundTrips,
    /// Processor time of the servers.
    Processor,
    /// The order of grants.
    Fairness,
    /// From the loss of a leader to the next grant.
    Failover,
    /// What becomes of the data under a fault.
    Safety,
}

impl Property {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 8] = [
        Self::Throughput,
        Self::HandOver,
        Self::Time,
        Self::RoundTrips,
        Self::Processor,
        Self::Fairness,
        Self::Failover,
        Self::Safety,
    ];

    /// A few words for a table.
    pub fn text(self) -> &'static str {
        match self {
            Self::Throughput => "cycles a second, each client its own lock",
            Self::HandOver => "cycles a second on one lock",
            Self::Time => "time of a cycle",
            Self::RoundTrips => "round trips an acquire",
            Self::Processor => "processor time of the servers",
            Self::Fairness => "order of grants",
            Self::Failover => "time to the next grant after a loss",
            Self::Safety => "what a fault does to the data",
        }
    }
}

/// What a system does instead of what ours does, as far as that makes it faster or cheaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Design {
    /// One Redis in memory.
    Memory,
    /// One Redis that syncs.
    OneDisk,
    /// Five Redis in memory.
    FiveMemories,
    /// Five Redis that sync.
    FiveDisks,
    /// A lock in the memory of a database server.
    InServer,
    /// A row of `PostgreSQL`.
    PostgresRow,
    /// A row of `MariaDB`, locked and not written.
    MariaDbRow,
    /// A row that is written and deleted.
    WrittenRow,
    /// Three nodes, synced, by a binary protocol.
    ZooKeeper,
    /// Three nodes, synced.
    Etcd,
    /// Not known here.
    Other,
}

/// Why this system is better than ours in this property, where it is. `system` is a name of a report, with or without the
/// ending `-always` of a Redis that syncs.
pub fn why(system: &str, property: Property) -> &'static str {
    let design = design(system);
    match property {
        Property::Throughput | Property::Time | Property::Processor => cost(design),
        Property::HandOver => hand_over(design, system),
        Property::RoundTrips => {
            "it needs fewer requests for one lock; each of ours waits for two disks anyway"
        }
        Property::Fairness => {
            "its queue was in order where ours was not: contenders reach our nodes by different ways, and the log's order counts"
        }
        Property::Failover => failover(design),
        Property::Safety => safety(design),
    }
}

fn design(system: &str) -> Design {
    let synced = system.ends_with("-always");
    let name = system.trim_end_matches("-always");
    match name.split('-').next().unwrap_or(name) {
        "redlock" if synced => Design::FiveDisks,
        "redlock" => Design::FiveMemories,
        "redis" | "redisson" if synced => Design::OneDisk,
        "redis" | "redisson" => Design::Memory,
        "zookeeper" => Design::ZooKeeper,
        "etcd" => Design::Etcd,
        "postgres" | "mariadb" if name.ends_with("-lock-table") => Design::WrittenRow,
        "postgres" if name.ends_with("-advisory") => Design::InServer,
        "mariadb" if name.ends_with("-get-lock") => Design::InServer,
        "postgres" => Design::PostgresRow,
        "mariadb" => Design::MariaDbRow,
        _ => Design::Other,
    }
}

fn cost(design: Design) -> &'static str {
    match design {
        Design::Memory => {
            "one server, in memory: nothing is written to a disk and nothing is copied before the answer, so an acknowledged lock may be lost with the machine"
        }
        Design::OneDisk => {
            "one server and one disk: it is synced, but no other machine has it, so the lock is lost with that disk and out of reach while the server is down"
        }
        Design::FiveMemories => {
            "five memories instead of disks: a majority that restarts forgets the lock while it is held"
        }
        Design::FiveDisks => {
            "five servers that do not have to agree with each other: no log, no order, no token, only a majority and a clock"
        }
        Design::InServer => {
            "the lock lives in the memory of one server and ends with the connection: nothing is written, nothing is copied, nothing survives"
        }
        Design::PostgresRow | Design::WrittenRow => {
            "one server and one disk: a commit waits for one sync and for no other machine"
        }
        Design::MariaDbRow => {
            "one server, which keeps row locks in memory: nothing is written for a transaction that only locks"
        }
        Design::ZooKeeper => {
            "it promises as much: three nodes, synced on a majority. Small binary frames on one connection cost it less than HTTP costs us, and it has been tuned for many years"
        }
        Design::Etcd => {
            "it promises as much: three nodes, synced on a majority. Here it simply does it better"
        }
        Design::Other => "not known to this tool",
    }
}

fn hand_over(design: Design, system: &str) -> &'static str {
    let told = system.starts_with("redisson");
    match design {
        Design::Memory | Design::OneDisk | Design::FiveMemories | Design::FiveDisks if !told => {
            "not hand-overs: there is no queue, so whoever has just released takes it again while the others sleep between two attempts; see the order of grants"
        }
        Design::MariaDbRow | Design::PostgresRow | Design::WrittenRow if polls(system) => {
            "not hand-overs: there is no queue, so whoever has just released takes it again while the others sleep between two attempts; see the order of grants"
        }
        Design::Memory
        | Design::OneDisk
        | Design::FiveMemories
        | Design::FiveDisks
        | Design::InServer
        | Design::PostgresRow
        | Design::MariaDbRow
        | Design::WrittenRow
        | Design::ZooKeeper
        | Design::Etcd
        | Design::Other => cost(design),
    }
}

fn polls(system: &str) -> bool {
    ["-nowait", "-skip-locked", "-lock-table"].iter().any(|ending| system.ends_with(ending))
}

fn failover(design: Design) -> &'static str {
    match design {
        Design::Memory | Design::OneDisk => {
            "nobody had to notice or to vote: the tool itself started or promoted the successor at once, which in earnest somebody has to do"
        }
        Design::FiveMemories | Design::FiveDisks => {
            "there is no leader to lose: four of five servers are still a majority"
        }
        Design::InServer | Design::PostgresRow | Design::MariaDbRow | Design::WrittenRow => {
            "nobody had to notice or to vote: the tool started the same server again at once, on the same disk, which must still be there"
        }
        Design::ZooKeeper | Design::Etcd => "it noticed and voted sooner",
        Design::Other => "not known to this tool",
    }
}

fn safety(design: Design) -> &'static str {
    match design {
        Design::InServer | Design::PostgresRow | Design::MariaDbRow => {
            "it has no time-out: a holder that stands still keeps the lock, nobody sells meanwhile, and everybody waits as long as it stands"
        }
        Design::ZooKeeper | Design::Etcd => {
            "its lease ended later than the fault; a longer pause would have been seen as with ours without the fence"
        }
        Design::Memory
        | Design::OneDisk
        | Design::FiveMemories
        | Design::FiveDisks
        | Design::WrittenRow => {
            "in this run the fault missed the moment in which it hurts; what it cannot do is in its list, each with a test that shows it"
        }
        Design::Other => "not known to this tool",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_system_has_its_reason_for_every_property() {
        for system in [
            "redis-set-nx-px",
            "redisson-fair-always",
            "redlock",
            "redlock-always",
            "postgres-advisory",
            "postgres-for-update",
            "postgres-lock-table",
            "mariadb-get-lock",
            "mariadb-nowait",
            "zookeeper-curator",
            "etcd-lock",
        ] {
            for property in Property::ALL {
                let why = why(system, property);
                assert!(!why.is_empty() && !why.contains("not known"), "{system} {property:?}");
            }
        }
    }

    #[test]
    fn memory_is_not_praised_as_a_disk() {
        assert!(why("redis-set-nx-px", Property::Time).contains("lost with the machine"));
        assert!(why("redis-set-nx-px-always", Property::Time).contains("synced"));
        assert!(why("redis-set-nx-px", Property::HandOver).contains("not hand-overs"));
        assert!(!why("redisson-lock", Property::HandOver).contains("not hand-overs"));
    }
}
