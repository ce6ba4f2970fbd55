//! What a lock cannot do, as data: a report prints it, and a test shows each.
//!
//! Owns the list and its words. Refuses to weigh: which of them matter is for the reader.

/// A weakness that belongs to a kind of lock, whoever operates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limitation {
    /// Dying between two commands leaves the lock taken for ever.
    LeftForEver,
    /// Anybody can release it, also a holder whose time has passed.
    ForeignRelease,
    /// Its time passes while the holder still works, and nobody tells the holder.
    ExpiresUnderHolder,
    /// The server lets go when the connection ends, and the holder may not have noticed.
    DiesWithConnection,
    /// No number that the place of the write could compare.
    NoFence,
    /// The number it has is lost with the lock's own object, and begins anew.
    FenceNotDurable,
    /// The number is one of the enqueue, not of the grant.
    FenceFromEnqueue,
    /// Who holds depends on the clients' wall clocks.
    ClientClocks,
    /// A waiter sets an expiry on a key that is not its own.
    ForeignExpiry,
    /// An acknowledged lock is gone after a failover to a copy that had not heard of it.
    LostOnFailover,
    /// Enough servers that restart without their data forget the lock while it is held.
    ForgottenByRestart,
    /// Waiters ask again and again.
    Polls,
    /// All waiters wake when one can go on.
    Herd,
    /// Who comes late may go first.
    Unfair,
    /// Entries of one holder are not counted: the first release frees all.
    UncountedEntries,
    /// More can be given back than was taken.
    OverRelease,
    /// It is kept alive for work that has died as long as its process lives.
    OutlivesItsWork,
    /// A waiter that died holds up the others for a fixed time.
    DeadWaiterDelays,
    /// Under contention attempts fail and are made again.
    FailsUnderContention,
    /// A value that changed and changed back goes unnoticed.
    ChangedBack,
    /// A connection with an open transaction is tied up while it is held.
    TiesUpConnection,
    /// Different names may be the same lock.
    NamesCollide,
    /// One server: while it is down, nobody holds and nobody gets.
    OneServer,
}

impl Limitation {
    /// All of them.
    pub const ALL: [Self; 23] = [
        Self::LeftForEver,
        Self::ForeignRelease,
        Self::ExpiresUnderHolder,
        Self::DiesWithConnection,
        Self::NoFence,
        Self::FenceNotDurable,
        Self::FenceFromEnqueue,
        Self::ClientClocks,
        Self::ForeignExpiry,
        Self::LostOnFailover,
        Self::ForgottenByRestart,
        Self::Polls,
        Self::Herd,
        Self::Unfair,
        Self::UncountedEntries,
        Self::OverRelease,
        Self::OutlivesItsWork,
        Self::DeadWaiterDelays,
        Self::FailsUnderContention,
        Self::ChangedBack,
        Self::TiesUpConnection,
        Self::NamesCollide,
        Self::OneServer,
    ];

    /// A sentence for a report.
    pub fn text(self) -> &'static str {
        match self {
            Self::LeftForEver => "a crash between two commands leaves the lock taken for ever",
            Self::ForeignRelease => {
                "anybody can release it, also a holder whose time has passed: then there are two holders"
            }
            Self::ExpiresUnderHolder => {
                "its time passes while the holder is paused, and the holder's late write lands"
            }
            Self::DiesWithConnection => {
                "the server lets go when the connection ends; a holder that has not noticed goes on"
            }
            Self::NoFence => "no fencing token: nothing that the place of the write could compare",
            Self::FenceNotDurable => "its token begins anew when the lock's own object is deleted",
            Self::FenceFromEnqueue => {
                "its token is minted when the caller queues, not when it is granted"
            }
            Self::ClientClocks => "two clients whose clocks differ hold it at the same time",
            Self::ForeignExpiry => "a waiter's repair sets an expiry on a key that is not its own",
            Self::LostOnFailover => {
                "replication is asynchronous: an acknowledged lock is gone after a failover"
            }
            Self::ForgottenByRestart => {
                "a majority that restarts without its data forgets the lock while it is held"
            }
            Self::Polls => "waiters ask again and again instead of being told",
            Self::Herd => "every release wakes all waiters, and all but one wake in vain",
            Self::Unfair => "no queue: who comes late may go first",
            Self::UncountedEntries => {
                "entries are not counted: the first release frees all of them"
            }
            Self::OverRelease => "more permits can be given back than were taken",
            Self::OutlivesItsWork => {
                "it is renewed as long as the process lives, also for work that hangs for ever"
            }
            Self::DeadWaiterDelays => {
                "a waiter that died holds up everybody behind it for a fixed time"
            }
            Self::FailsUnderContention => "under contention most attempts fail and are made again",
            Self::ChangedBack => "a value that changed and changed back goes unnoticed (ABA)",
            Self::TiesUpConnection => "a connection and a transaction are tied up while it is held",
            Self::NamesCollide => {
                "names are hashed to 32 bits: two different names may be one lock"
            }
            Self::OneServer => "one server: while it is down nobody can take or release",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_caveat_is_listed_once_and_says_something_of_its_own() {
        let mut texts: Vec<_> =
            Limitation::ALL.iter().map(|limitation| limitation.text()).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), Limitation::ALL.len());
    }
}
