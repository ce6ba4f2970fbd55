//! The faults: what is broken while somebody holds the lock.
//!
//! Owns their names and their words for the report. Refuses to break anything: `safety` does, and the report needs only the words.

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is broken.
    None,
    /// The holder stands still between its last look at the clock and its write.
    HolderPaused,
    /// The holder is killed in the middle of its sale.
    HolderKilled,
    /// The wall clock of somebody who waits is moved ahead.
    ClientClock,
    /// All servers are killed at once, and started again with what is on their disks.
    ServersRestarted,
    /// The leader is lost before its copy has heard of the lock, and the copy takes its place.
    Promoted,
    /// Wall clocks of a majority of the servers are moved ahead.
    ServerClock,
    /// The leader stands still until the others have another.
    LeaderIsolated,
}

impl Fault {
    /// All of them; those that leave the servers alone first, so that one set of servers serves for them all.
    pub const ALL: [Self; 8] = [
        Self::None,
        Self::HolderPaused,
        Self::HolderKilled,
        Self::ClientClock,
        Self::ServersRestarted,
        Self::Promoted,
        Self::ServerClock,
        Self::LeaderIsolated,
    ];

    /// In rows and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::HolderPaused => "holder-paused",
            Self::HolderKilled => "holder-killed",
            Self::ClientClock => "client-clock",
            Self::ServersRestarted => "servers-restarted",
            Self::Promoted => "copy-promoted",
            Self::ServerClock => "server-clock",
            Self::LeaderIsolated => "leader-isolated",
        }
    }

    /// What is done, exactly, for a report.
    pub fn words(self) -> &'static str {
        match self {
            Self::None => "no fault",
            Self::HolderPaused => {
                "SIGSTOP to the holder's process after it has looked whether it still holds, before it writes; \
                 SIGCONT when others have sold on, or after the bound"
            }
            Self::HolderKilled => "SIGKILL to the holder's process in the middle of its sale",
            Self::ClientClock => {
                "the wall clock of a waiting worker is set ahead by an hour (libfaketime; monotonic clocks stay)"
            }
            Self::ServersRestarted => {
                "kill -9 of all servers of the lock at once, started again at once with their disks, in the middle of a sale \
                 of at most 1.8 s, or 8 s for a lock without a lease, which lives with its connection"
            }
            Self::Promoted => {
                "the cable between Redis and its copy is cut, a worker takes the lock, kill -9 of the Redis, \
                 and the copy takes its place and its address"
            }
            Self::ServerClock => {
                "the wall clocks of a majority of the lock's servers, the leader among them, are set ahead by an hour \
                 (libfaketime; monotonic clocks stay)"
            }
            Self::LeaderIsolated => {
                "SIGSTOP to the leader's process, cut off from nodes and clients alike, until another node has \
                 granted and at least 5 s; then SIGCONT"
            }
        }
    }

    /// Whether the servers are as before afterwards.
    pub fn spares_servers(self) -> bool {
        matches!(self, Self::None | Self::HolderPaused | Self::HolderKilled | Self::ClientClock)
    }
}
