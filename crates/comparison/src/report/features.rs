//! The features of each system, for people who choose one. Facts, not measurements.

use super::document::{Block, Table};

/// A feature, and its cell for each of [`SYSTEMS`].
type Feature = (&'static str, [&'static str; 6]);

const SYSTEMS: [&str; 6] = [
    "holdfast",
    "ZooKeeper + Curator",
    "etcd",
    "Consul",
    "Redis + Redisson",
    "PostgreSQL advisory locks",
];

const FEATURES: [Feature; 12] = [
    (
        "acknowledged means",
        [
            "on a majority's disks",
            "on a majority's disks",
            "on a majority's disks",
            "on a majority's disks",
            "in the memory of one server, by default",
            "in the memory of one server",
        ],
    ),
    (
        "queue of waiters",
        [
            "in the server",
            "recipe of the client",
            "recipe of the client",
            "none",
            "optional",
            "in the server",
        ],
    ),
    (
        "fencing token with each grant",
        [
            "yes, and guards for stores",
            "no",
            "the key's revision",
            "the lock's index",
            "with a fenced lock",
            "no",
        ],
    ),
    (
        "calls for one acquire over plain HTTP",
        ["one", "not possible", "several", "several", "not possible", "not possible"],
    ),
    ("read/write locks, semaphores", ["yes", "yes", "no", "semaphores", "yes", "shared locks"]),
    ("TLS", ["**not yet**", "yes", "yes", "yes", "yes", "yes"]),
    ("authentication and access rules", ["**znodes only**", "yes", "yes", "yes", "yes", "yes"]),
    ("change of members", ["**not yet**", "yes", "yes", "yes", "yes", "replicas"]),
    ("backup and restore", ["**not yet**", "snapshots", "yes", "yes", "yes", "yes"]),
    (
        "client libraries",
        [
            "Rust; any HTTP or ZooKeeper client",
            "Java, and others for ZooKeeper",
            "many languages",
            "many languages",
            "Java; Redis clients in many",
            "every SQL client",
        ],
    ),
    (
        "released, used in production",
        [
            "**no release yet**",
            "since 2008",
            "since 2013",
            "since 2014",
            "since 2014",
            "since 2005",
        ],
    ),
    (
        "license",
        [
            "MIT or Apache-2.0",
            "Apache-2.0",
            "Apache-2.0",
            "Business Source License",
            "several; Redisson Apache-2.0",
            "PostgreSQL License",
        ],
    ),
];

pub(super) fn features() -> Vec<Block> {
    let mut table = Table::with(std::iter::once("").chain(SYSTEMS));
    for (feature, cells) in FEATURES {
        table.add(std::iter::once(feature).chain(cells));
    }
    vec![
        Block::Heading("Features".to_owned()),
        Block::Text(
            "Consul was not measured: the distribution of the test machine has no package with its server.".to_owned(),
        ),
        Block::Table(table),
    ]
}
