//! Known limitations of locks, as data: the report prints them, and a test demonstrates each one.

macro_rules! limitations {
    ($($name:ident: $text:literal,)*) => {
        /// A weakness that belongs to a kind of lock, whatever its operator does.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Limitation {
            $($name,)*
        }

        impl Limitation {
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// A sentence for the report.
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

limitations! {
    LeftForever: "a crash between two commands leaves the lock held forever",
    ForeignRelease: "any client can release the lock, also a holder whose time has passed: then there are two holders",
    ExpiresUnderHolder: "the lock expires while its holder is paused, and the holder's late write succeeds",
    EndsWithConnection: "the server releases the lock when the connection ends; a holder that has not noticed continues",
    NoToken: "no fencing token: the store of the write has nothing to compare",
    TokenNotDurable: "the token starts again when the lock's own object is deleted",
    TokenFromEnqueue: "the token is minted when the caller enqueues, not at the grant",
    ClientClocks: "two clients whose wall clocks differ hold the lock at the same time",
    ForeignExpiry: "a waiter's repair sets an expiry on a key of another client",
    LostOnFailover: "replication is asynchronous: a failover loses an acknowledged lock",
    ForgottenByRestart: "a majority that restarts without its data forgets a held lock",
    Polls: "waiters poll",
    Spins: "waiters poll without a pause: each of them keeps the server busy",
    WakesAll: "every release wakes all waiters, and all but one wake in vain",
    Unfair: "no queue: a later caller may go first",
    UncountedReentry: "re-entries are not counted: the first release releases all of them",
    OverRelease: "more permits can be released than were acquired",
    OutlivesItsWork: "the lock is renewed as long as the process lives, also for work that hangs forever",
    DeadWaiterBlocks: "a dead client in the list blocks every client behind it forever",
    DeadWaiterDelays: "a dead waiter delays every waiter behind it for a fixed time",
    FailsUnderContention: "under contention most attempts fail and are repeated",
    ChangedBack: "a value that changed and changed back goes unnoticed (ABA)",
    OccupiesConnection: "a held lock occupies a connection and a transaction",
    NamesCollide: "names are hashed to 32 bits: two names may be one lock",
    OneServer: "one server: while it is down, no client can acquire or release",
}
