//! The fault scenarios: the fault that the tool injects while a worker holds the lock.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultScenario {
    None,
    /// The tool pauses the holder between the last check of its deadline and its write.
    HolderPaused,
    HolderKilled,
    /// The tool sets the wall clock of a waiter ahead.
    ClientClock,
    /// The tool kills all servers at once and restarts them with their disks.
    ServersRestarted,
    /// The tool kills the leader before its replica has the lock, and promotes the replica.
    ReplicaPromoted,
    /// The tool sets the wall clocks of a majority of the servers ahead.
    ServerClock,
    /// The tool pauses the leader until the other nodes have elected another.
    LeaderIsolated,
}

impl FaultScenario {
    /// All scenarios. The first ones leave the servers intact, so one set of servers suffices for them.
    pub const ALL: [Self; 8] = [
        Self::None,
        Self::HolderPaused,
        Self::HolderKilled,
        Self::ClientClock,
        Self::ServersRestarted,
        Self::ReplicaPromoted,
        Self::ServerClock,
        Self::LeaderIsolated,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::HolderPaused => "holder-paused",
            Self::HolderKilled => "holder-killed",
            Self::ClientClock => "client-clock",
            Self::ServersRestarted => "servers-restarted",
            Self::ReplicaPromoted => "replica-promoted",
            Self::ServerClock => "server-clock",
            Self::LeaderIsolated => "leader-isolated",
        }
    }

    /// The fault in plain words.
    pub fn title(self) -> &'static str {
        match self {
            Self::None => "no fault",
            Self::HolderPaused => "the holder is paused",
            Self::HolderKilled => "the holder is killed",
            Self::ClientClock => "the clock of a client jumps",
            Self::ServersRestarted => "all servers are killed and restarted",
            Self::ReplicaPromoted => "a stale replica is promoted",
            Self::ServerClock => "the clocks of the servers jump",
            Self::LeaderIsolated => "the leader is paused",
        }
    }

    /// Describes the fault, for the report.
    pub fn description(self) -> &'static str {
        match self {
            Self::None => "no fault",
            Self::HolderPaused => {
                "SIGSTOP to the holder's process after it has checked that it still holds the lock, before it writes; \
                 SIGCONT when others have continued to sell, or after the bound"
            }
            Self::HolderKilled => "SIGKILL to the holder's process in the middle of its sale",
            Self::ClientClock => {
                "the wall clock of a waiting worker is set ahead by an hour (libfaketime; monotonic clocks stay)"
            }
            Self::ServersRestarted => {
                "kill -9 of all servers of the lock at once, started again at once with their disks, in the middle of a sale \
                 of at most 1.8 s, or 8 s for a lock without a lease, which lives with its connection"
            }
            Self::ReplicaPromoted => {
                "the link between Redis and its replica is cut, a worker acquires the lock, kill -9 of the Redis, \
                 and the replica is promoted and gets its address"
            }
            Self::ServerClock => {
                "the wall clocks of a majority of the lock's servers, the leader among them, are set ahead by an hour \
                 (libfaketime; monotonic clocks stay)"
            }
            Self::LeaderIsolated => {
                "SIGSTOP to the leader's process until another node has granted the lock and at least 5 s; then SIGCONT"
            }
        }
    }

    /// Returns `true` if the servers are usable for the next scenario.
    pub fn leaves_servers_intact(self) -> bool {
        matches!(self, Self::None | Self::HolderPaused | Self::HolderKilled | Self::ClientClock)
    }
}
