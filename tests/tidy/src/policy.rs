//! The tables of the rules: which crates may use a name, which names a crate must not use, and the exceptions with
//! their reasons. A new exception is a line here, so that a review can see it.

/// Words that only some crates may use, tests included.
#[derive(Debug)]
pub struct AllowedUse {
    /// Package names, or prefixes of names.
    pub words: &'static [&'static str],
    /// Folders of `crates/` that may use them.
    pub crates: &'static [&'static str],
    /// The alternative for other crates.
    pub instead: &'static str,
}

/// Third-party crates that only one crate uses, so that they can be replaced there (design decisions D4, D5, D6).
pub const HOMES: &[AllowedUse] = &[
    AllowedUse {
        words: &["openraft", "openraft_macros", "openraft_rt", "openraft_rt_tokio"],
        crates: &["raft"],
        instead: "go through `holdfast_raft::RaftNode`",
    },
    AllowedUse {
        words: &["bincode"],
        crates: &["codec"],
        instead: "go through `holdfast_codec::{encode, decode}`",
    },
    AllowedUse { words: &["sled"], crates: &["storage"], instead: "go through `holdfast_storage`" },
    AllowedUse {
        words: &["axum"],
        crates: &["http", "console"],
        instead: "answer with types of `service` or `api`",
    },
];

/// Words that a crate must not use outside its tests.
#[derive(Debug)]
pub struct ForbiddenUse {
    /// The folder below `crates/`.
    pub krate: &'static str,
    /// Exact words.
    pub words: &'static [&'static str],
    /// Modules of `std` and `tokio` that the crate must not use.
    pub std_modules: &'static [&'static str],
    /// The reason, and the alternative.
    pub instead: &'static str,
}

/// The absences of `docs/contributing/architecture.md`.
pub const ABSENCES: &[ForbiddenUse] = &[
    ForbiddenUse {
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
    ForbiddenUse {
        krate: "types",
        // `std::net` also has the types of addresses, which are only data.
        words: &[
            "tokio",
            "async",
            "await",
            "Instant",
            "SystemTime",
            "HashMap",
            "HashSet",
            "TcpStream",
            "TcpListener",
            "UdpSocket",
            "ToSocketAddrs",
        ],
        std_modules: &["env", "fs", "io", "os", "process", "thread"],
        instead: "`types` has data types without behaviour: move it to the crate that uses it",
    },
    ForbiddenUse {
        krate: "codec",
        words: &["tokio", "async", "await", "HashMap", "HashSet"],
        std_modules: &["env", "fs", "net", "process", "thread"],
        instead: "the codec converts values to bytes and back, and does no I/O",
    },
    ForbiddenUse {
        krate: "zkwire",
        words: &["tokio", "async", "await", "Instant", "SystemTime", "HashMap", "HashSet"],
        std_modules: &["env", "fs", "io", "net", "os", "process", "thread"],
        instead: "frames are values: the front-end reads and writes them",
    },
    ForbiddenUse {
        krate: "storage",
        words: &["openraft", "holdfast_raft", "LogId", "tokio", "async", "await"],
        std_modules: &["net", "process"],
        instead: "the store keeps bytes: terms, votes and log ids belong to `raft`",
    },
    ForbiddenUse {
        krate: "service",
        words: &["reqwest", "hyper"],
        std_modules: &["fs", "net", "process"],
        instead: "the service is independent of protocols: the front-ends call it",
    },
];

/// Field names of ZooKeeper's stat structure, the only words with "zxid" outside the ZooKeeper front-end: `types`
/// declares the structure, `machine` fills it and `service` compares it with the client's last revision. The values are
/// revisions.
pub const STAT_FIELDS: [&str; 3] = ["czxid", "mzxid", "pzxid"];
/// Crates that may use the stat fields.
pub const STAT_CRATES: [&str; 3] = ["types", "machine", "service"];
/// Crates that may use "zxid" in any name.
pub const ZXID_CRATES: [&str; 2] = ["zk", "zkwire"];

/// Examples are separate programs: they may use names that are forbidden in their crate.
pub const EXAMPLES: &str = "/examples/";
/// Folders of programs that act as a user's program: they use plain HTTP and see only statuses.
pub const BY_PLAIN_HTTP: [&str; 2] = [EXAMPLES, "crates/measure/src/bench/"];
/// Crates that may name HTTP statuses (`StatusCode::LOCKED`) outside tests: `http` and the pages of `console` answer with them,
/// and the layer of `fence` answers the callers of a user's own service.
pub const STATUS_CODE_CRATES: [&str; 3] = ["http", "console", "fence"];
/// Crates that may use the type `StatusCode`: `client` distinguishes replies of holdfast from replies of a proxy by the
/// status class.
pub const STATUS_TYPE_CRATES: [&str; 4] = ["http", "console", "client", "fence"];
/// Crates that may write a status as a number: RFC 9457 requires it in the body, which `api` describes.
pub const STATUS_NUMBER_CRATES: [&str; 2] = ["http", "api"];

/// A function that is exempt from a rule.
#[derive(Debug)]
pub struct Exception {
    /// The file.
    pub path: &'static str,
    /// The function in it.
    pub function: &'static str,
    /// The reason for the exemption.
    pub reason: &'static str,
}

/// Sleeps in tests: only as the step of a bounded wait for a condition, or as the injected fault.
pub const SLEEPS: &[Exception] = &[
    Exception {
        path: "crates/tls/tests/acceptor.rs",
        function: "a_resumed_session_does_not_outlive_its_certificate",
        reason: "the step of the wait for a date",
    },
    Exception {
        path: "crates/raft/src/proposer/departure.rs",
        function: "a_large_batch_is_followed_by_a_rest_only_if_small_ones_were_sent",
        reason: "the clock is paused: the sleep is the time that a batch takes",
    },
    Exception {
        path: "crates/http/src/cluster.rs",
        function: "is_complete",
        reason: "the clock is paused: the sleep is the time that a reader takes",
    },
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
        path: "tests/clients/src/poll.rs",
        function: "poll",
        reason: "the step of the wait for a condition, with a deadline, that the driver of scenarios uses",
    },
    Exception {
        path: "tests/clients/src/grant_log.rs",
        function: "read",
        reason: "the pause of the watch before it asks another node",
    },
    Exception {
        path: "tests/clients/src/faults.rs",
        function: "pause",
        reason: "the time is the fault: a process is stopped for it, or nothing happens",
    },
    Exception {
        path: "tests/clients/src/proxy.rs",
        function: "forward",
        reason: "the delay is the fault: a slow answer",
    },
    Exception {
        path: "tests/clients/src/bin/rust-adapter/calls.rs",
        function: "execute",
        reason: "the blocked thread is the fault",
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
        path: "tests/cluster/tests/whole/every_call/client.rs",
        function: "call",
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
        path: "crates/service/tests/it/nodes.rs",
        function: "until_quiet",
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
        function: "a_client_that_only_reads_from_a_follower_keeps_its_session",
        reason: "the subject is that nothing happens while this time passes",
    },
    Exception {
        path: "crates/service/tests/it/waiting.rs",
        function: "a_named_caller_that_disconnects_keeps_its_queue_entry_and_may_retry_elsewhere",
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
        function: "node_after",
        reason: "a node that keeps a parked keepalive as long as it was asked to, or answers late",
    },
    Exception {
        path: "crates/client/src/tests.rs",
        function: "until",
        reason: "the step of the wait for a condition, with a deadline",
    },
    Exception {
        path: "crates/measure/tests/sale/program.rs",
        function: "until",
        reason: "the step of the wait for a condition, with a deadline",
    },
    Exception {
        path: "crates/measure/tests/workload/simulated.rs",
        function: "acquire",
        reason: "the delay of a simulated lock is what the test measures",
    },
    Exception {
        path: "crates/fence/tests/scratch/mod.rs",
        function: "wait_until_ready",
        reason: "the step of the wait, with a deadline, for a database server to accept connections",
    },
    Exception {
        path: "crates/fence/tests/scratch/child_process.rs",
        function: "drop",
        reason: "the step of the wait, with a deadline, for a child to end; a drop cannot await",
    },
];
/// `panic!` and `unreachable!` outside tests.
pub const PANICS: &[Exception] = &[];

/// True if a function is exempt.
pub fn excepted(list: &[Exception], path: &str, function: Option<&str>) -> bool {
    list.iter().any(|exception| exception.path == path && Some(exception.function) == function)
}

/// Dependencies pinned to an exact version; a newer version needs a new ADR (ADR 0001, 0002, 0003).
pub const PINNED: [&str; 3] = ["openraft", "sled", "bincode"];

/// Size limits, in lines that are not blank.
pub mod limits {
    /// A file without its tests.
    pub const FILE: usize = 500;
    /// Files of the product: see the section "Size" of the architecture.
    pub const FILES: usize = 591;
    /// Of them, files with fewer than 60 lines.
    pub const SMALL_FILES: usize = 46;
    /// A script without comments.
    pub const SCRIPT: usize = 70;
}
