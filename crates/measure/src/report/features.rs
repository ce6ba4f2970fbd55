//! The features of each system, for people who choose one. Facts, not measurements.

use super::document::{Block, Table};

const SYSTEMS: [&str; 7] = [
    "holdfast",
    "ZooKeeper + Curator",
    "etcd",
    "Consul",
    "Redis + Redisson",
    "PostgreSQL advisory locks",
    "MySQL and MariaDB `GET_LOCK`",
];

/// A feature, and its cell for each of [`SYSTEMS`].
type Feature = (&'static str, [&'static str; 7]);

#[rustfmt::skip]
const GUARANTEES: [Feature; 4] = [
    ("an acknowledged lock is", [
        "on the disks of a majority",
        "on the disks of a majority",
        "on the disks of a majority",
        "on the disks of a majority",
        "in the memory of one server, by default",
        "in the memory of one server",
        "in the memory of one server",
    ]),
    ("the lock of a dead client ends", [
        "with its session's TTL",
        "with its session's timeout",
        "with its lease's TTL",
        "with its session's TTL and a lock-delay, 15 s by default",
        "with the key's TTL, 30 s by default",
        "with its connection",
        "with its connection",
    ]),
    ("queue of waiters", [
        "in the server",
        "znodes in sequence, by the client's recipe",
        "in the lock service",
        "none",
        "in its fair lock",
        "in the server",
        "in the server",
    ]),
    ("fencing token with each grant", [
        "yes, and guards for stores",
        "the znode's sequence number, from the enqueue",
        "revision of the store",
        "the key's `LockIndex` and session",
        "in its fenced lock",
        "no",
        "no",
    ]),
];

#[rustfmt::skip]
const USE: [Feature; 6] = [
    ("deadlocks of several locks are detected", ["yes", "no", "no", "no", "no", "yes", "yes"]),
    ("read/write locks, semaphores", [
        "both",
        "both",
        "read/write locks, experimental",
        "semaphores",
        "both",
        "shared locks",
        "no",
    ]),
    ("HTTP calls for one acquire", ["one", "no HTTP", "two: lease, lock", "two: session, key", "no HTTP", "no HTTP", "no HTTP"]),
    ("watch a lock", [
        "event stream of a queue, watches of znodes",
        "watches",
        "watches",
        "blocking queries",
        "channels, keyspace events",
        "no, only a view of held locks",
        "no, only `IS_USED_LOCK`",
    ]),
    ("client libraries", [
        "Rust, Python, TypeScript, Go, Java; any HTTP or ZooKeeper client",
        "Java; ZooKeeper recipes in other languages",
        "Go; gRPC and JSON for others",
        "Go; HTTP for others",
        "Java",
        "every PostgreSQL client",
        "every MySQL client",
    ]),
    ("command line that runs a program under a lock", ["`holdfast run`", "no", "`etcdctl lock`", "`consul lock`", "no", "no", "no"]),
];

#[rustfmt::skip]
const OPERATION: [Feature; 6] = [
    ("TLS", ["yes", "yes", "yes", "yes", "yes", "yes", "yes"]),
    ("authentication", ["yes: access tokens, certificates", "yes", "yes", "yes", "yes", "yes", "yes"]),
    ("change of members", ["yes", "yes", "yes", "yes", "yes", "one server; replicas do not have its locks", "one server; replicas do not have its locks"]),
    ("backup", ["yes; tokens still grow after a restore", "yes", "yes", "yes", "yes", "yes, without advisory locks", "yes, without these locks"]),
    ("first release", ["**none yet**", "2008; Curator 2011", "in 2013", "in 2014", "2009; Redisson 2014", "2006, with PostgreSQL 8.2", "MySQL 1995; MariaDB 2009"]),
    ("license", [
        "MIT or Apache-2.0",
        "Apache-2.0",
        "Apache-2.0",
        "Business Source License 1.1 since 1.17",
        "Redis: BSD until 7.2, then RSALv2 or SSPLv1, from 8.0 also AGPLv3; Redisson: Apache-2.0",
        "PostgreSQL License",
        "GPL-2.0; MySQL also commercial",
    ]),
];

pub(super) fn features() -> Vec<Block> {
    let mut table = Table::with(std::iter::once("").chain(SYSTEMS));
    for (feature, cells) in GUARANTEES.into_iter().chain(USE).chain(OPERATION) {
        table.add(std::iter::once(feature).chain(cells));
    }
    vec![
        Block::Heading("Features".to_owned()),
        Block::Text(
            "What the documentation of each system states; nothing of it is measured here."
                .to_owned(),
        ),
        Block::Table(table),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holdfast_does_not_have_is_in_the_table() {
        let text = super::super::document::markdown(&features());
        for beginning in [
            "| TLS | yes | yes |",
            "| client libraries | Rust, Python",
            "| first release | **none yet** |",
        ] {
            assert!(text.contains(beginning), "{beginning}: {text}");
        }
    }
}
