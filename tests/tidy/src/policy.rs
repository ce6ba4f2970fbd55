//! The tables behind the rules: who alone may name what, what a crate must never name, and the exceptions with
//! their reasons. A new exception is a line here, so that a review sees it.

/// Words that only some crates may say, tests included.
#[derive(Debug)]
pub struct Home {
    /// Names of packages, or the beginnings of names.
    pub words: &'static [&'static str],
    /// Folders of `crates/` that may say them.
    pub crates: &'static [&'static str],
    /// What the others do instead.
    pub instead: &'static str,
}

/// Third parties that one crate alone names, so that it can be replaced there (design decisions D4, D5, D6).
pub const HOMES: &[Home] = &[
    Home {
        words: &["openraft", "openraft_macros", "openraft_rt", "openraft_rt_tokio"],
        crates: &["raft"],
        instead: "go through `holdfast_raft::RaftNode`",
    },
    Home {
        words: &["bincode"],
        crates: &["codec"],
        instead: "go through `holdfast_codec::{encode, decode}`",
    },
    Home { words: &["sled"], crates: &["storage"], instead: "go through `holdfast_storage`" },
    Home {
        words: &["axum"],
        crates: &["http"],
        instead: "answer with types of `service` or `api`",
    },
];

/// Words that a crate never says outside its tests.
#[derive(Debug)]
pub struct Absence {
    /// The folder below `crates/`.
    pub krate: &'static str,
    /// Exact words.
    pub words: &'static [&'static str],
    /// Modules of `std` and `tokio` that are not to be reached.
    pub std_modules: &'static [&'static str],
    /// Why, and what to do instead.
    pub instead: &'static str,
}

/// The absences of `docs/architecture.md`.
pub const ABSENCES: &[Absence] = &[
    Absence {
        krate: "machine",
        words: &[
            "tokio",
            "async",
            "await",
            "Instant",
            "SystemTime",
            "rand",
            "getrandom",
            "HashMap",
            "HashSet",
            "RandomState",
            "thread_local",
            "Mutex",
            "RwLock",
        ],
        std_modules: &["env", "fs", "io", "net", "os", "process", "thread"],
        instead: "`apply` is pure: time comes in as a stamp, order from a BTreeMap, numbers from the log",
    },
    Absence {
        krate: "types",
        words: &["tokio", "async", "await", "Instant", "SystemTime", "HashMap", "HashSet"],
        std_modules: &["env", "fs", "io", "net", "os", "process", "thread"],
        instead: "the nouns have no behaviour: put it into the crate that owns it",
    },
    Absence {
        krate: "codec",
        words: &["tokio", "async", "await", "HashMap", "HashSet"],
        std_modules: &["env", "fs", "net", "process", "thread"],
        instead: "the codec turns values into bytes and back, and moves none of them",
    },
    Absence {
        krate: "zkwire",
        words: &["tokio", "async", "await", "Instant", "SystemTime", "HashMap", "HashSet"],
        std_modules: &["env", "fs", "io", "net", "os", "process", "thread"],
        instead: "frames are values: the front-end reads and writes them",
    },
    Absence {
        krate: "storage",
        words: &["openraft", "holdfast_raft", "LogId", "tokio", "async", "await"],
        std_modules: &["net", "process"],
        instead: "the store keeps bytes: terms, votes and log ids are the business of `raft`",
    },
    Absence {
        krate: "service",
        words: &["reqwest", "hyper"],
        std_modules: &["fs", "net", "process"],
        instead: "the service knows no protocol: the front-ends call it",
    },
];

/// Field names of `ZooKeeper`'s stat structure, the only words with "zxid" outside the `ZooKeeper` front-end: `types`
/// declares the structure, `machine` fills it and `service` compares with it what a client has seen. What they hold is
/// a revision.
pub const STAT_FIELDS: [&str; 3] = ["czxid", "mzxid", "pzxid"];
/// Crates that may say the stat fields.
pub const STAT_CRATES: [&str; 3] = ["types", "machine", "service"];
/// Crates that may say "zxid" as they like.
pub const ZXID_CRATES: [&str; 2] = ["zk", "zkwire"];

/// Examples are programs beside the crate: what the crate refuses to know, they may know.
pub const EXAMPLES: &str = "/examples/";
/// Folders that stand for a user's program and speak plain HTTP on purpose: statuses are all they have.
pub const BY_PLAIN_HTTP: [&str; 2] = [EXAMPLES, "crates/holdfast/src/bench/"];
/// Crates that may name HTTP statuses (`StatusCode::LOCKED`) outside tests: `http` answers with them, and the layer of
/// `fence` answers the callers of a user's own service.
pub const STATUS_CODE_CRATES: [&str; 2] = ["http", "fence"];
/// Crates that may say the type `StatusCode`: `client` tells an answer of ours from a proxy's by its class, and by
/// nothing else.
pub const STATUS_TYPE_CRATES: [&str; 3] = ["http", "client", "fence"];
/// Crates that may write a status down as a number: RFC 9457 wants it in the body, which `api` describes.
pub const STATUS_NUMBER_CRATES: [&str; 2] = ["http", "api"];

/// A place where a rule does not hold, and why.
#[derive(Debug)]
pub struct Exception {
    /// The file.
    pub path: &'static str,
    /// The function in it.
    pub function: &'static str,
    /// Why it is right there.
    pub reason: &'static str,
}

/// Sleeping in tests: only as the step of a bounded wait for a condition, or as the fault itself.
pub const SLEEPS: &[Exception] = &[
    Exception {
        path: "tests/tidy/examples/mutations.rs",
        function: "wait",
        reason: "the step of the wait for a process, with a deadline",
    },
    Exception {
        path: "tests/lab/src/until.rs",
        function: "until_some",
        reason: "the step of the wait for a condition, with a deadline, that the cluster tests use",
    },
    Exception {
        path: "tests/lab/src/until.rs",
        function: "eventually",
        reason: "the step of the wait for a condition, with a deadline, in tests without a runtime",
    },
    Exception {
        path: "tests/lab/src/links.rs",
        function: "pump",
        reason: "the delay is the fault: a slow link between two nodes",
    },
    Exception {
        path: "tests/lab/src/actor.rs",
        function: "goes_on",
        reason: "the pause of a client before it asks another node, part of the load",
    },
    Exception {
        path: "tests/lab/src/load.rs",
        function: "hold",
        reason: "the pause of a client between two renewals, part of the load",
    },
    Exception {
        path: "tests/lab/src/disk.rs",
        function: "within",
        reason: "the step of the wait for a condition, with a deadline",
    },
    Exception {
        path: "crates/service/tests/it/nodes.rs",
        function: "leader_among",
        reason: "the step of the wait for a condition, with a deadline",
    },
    Exception {
        path: "crates/service/tests/it/nodes.rs",
        function: "until",
        reason: "the step of the wait for a condition, with a deadline",
    },
    Exception {
        path: "crates/service/tests/it/leases.rs",
        function: "renewals_on_any_node_keep_a_session_alive",
        reason: "the subject is that nothing happens while this time passes",
    },
    Exception {
        path: "crates/service/tests/it/leases.rs",
        function: "a_waiting_caller_does_not_expire",
        reason: "the subject is that nothing happens while this time passes",
    },
    Exception {
        path: "crates/service/tests/it/leases.rs",
        function: "a_new_leader_gives_every_session_its_full_ttl",
        reason: "the subject is that nothing happens while this time passes",
    },
    Exception {
        path: "crates/service/tests/it/leases.rs",
        function: "no_renewal_is_acknowledged_while_an_expiry_is_undecided",
        reason: "the fault under test: the disks are full for as long as a proposal is waited for",
    },
    Exception {
        path: "crates/service/tests/it/streams.rs",
        function: "a_client_that_only_reads_from_a_follower_lives",
        reason: "the subject is that nothing happens while this time passes",
    },
    Exception {
        path: "crates/service/tests/it/waiting.rs",
        function: "a_named_caller_that_hangs_up_keeps_its_place_and_may_ask_again_elsewhere",
        reason: "the subject is that nothing happens while this time passes",
    },
    Exception {
        path: "crates/raft/tests/cluster/lab/mod.rs",
        function: "eventually",
        reason: "the step of the wait for a condition, with a deadline",
    },
    Exception {
        path: "crates/storage/tests/power_cut/campaign.rs",
        function: "pause",
        reason: "a random time before the power is cut: the moment is the fault",
    },
    Exception {
        path: "crates/client/src/tests.rs",
        function: "node",
        reason: "a node that keeps a parked keepalive as long as it was asked to",
    },
    Exception {
        path: "crates/client/src/tests.rs",
        function: "until",
        reason: "the step of the wait for a condition, with a deadline",
    },
    Exception {
        path: "crates/comparison/tests/adapters/until.rs",
        function: "until",
        reason: "the step of the wait for a condition, with a deadline",
    },
    Exception {
        path: "crates/comparison/tests/sale/program.rs",
        function: "until",
        reason: "the step of the wait for a condition, with a deadline",
    },
    Exception {
        path: "crates/comparison/tests/workload/simulated.rs",
        function: "acquire",
        reason: "how long a simulated lock takes is what the loops are judged by",
    },
    Exception {
        path: "crates/fence/tests/scratch/mod.rs",
        function: "wait_until_ready",
        reason: "the step of the wait, with a deadline, for a database server to accept connections",
    },
    Exception {
        path: "crates/fence/tests/scratch/leash.rs",
        function: "drop",
        reason: "the step of the wait, with a deadline, for a child to end; a drop cannot await",
    },
];
/// `panic!` and `unreachable!` outside tests.
pub const PANICS: &[Exception] = &[];

/// Whether a place is excepted.
pub fn excepted(list: &[Exception], path: &str, function: Option<&str>) -> bool {
    list.iter().any(|exception| exception.path == path && Some(exception.function) == function)
}

/// Pinned exactly: a newer one is another decision (ADR 0001, 0002, 0003).
pub const PINNED: [&str; 3] = ["openraft", "sled", "bincode"];

/// Limits of size, in lines that are not blank.
pub mod limits {
    /// A file without its tests.
    pub const FILE: usize = 500;
    /// A script without comments.
    pub const SCRIPT: usize = 70;
}
