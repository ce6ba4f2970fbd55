//! Numbers that identify or order things. Each is a newtype, so that no two kinds can be mixed up.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number! {
    /// A member of the cluster, from 1. Never reused, not even after its data was wiped.
    NodeId
}
number! {
    /// Order number of an applied command, cluster-wide, from 1; 0 is the empty machine.
    /// Every command of a batch has its own, so two changes never share one (a multi is one command).
    Revision
}
number! {
    /// A session as the tree knows it (`ephemeralOwner`), from 1, minted by the machine, never reused.
    SessionId
}
number! {
    /// A place in a lock's queue: the revision of the command that enqueued it. Only places made by one multi share one.
    Ticket
}
number! {
    /// Number of one attempt to take a lock, chosen by the client: larger than every earlier attempt of its session.
    /// Copies of a call carry the same number, so a copy that arrives after the attempt is over has no effect.
    /// From 1 to [`Attempt::MAX`]; 0 stands for a call that names none.
    Attempt
}
number! {
    /// Proof of order handed to a holder. Minted at the grant from one replicated counter, so it only grows; the
    /// protected resource refuses anything smaller than the largest it has seen. Always below 2^53, so that JSON,
    /// JavaScript and Lua hold it exactly.
    FencingToken
}
number! {
    /// Random number written into a node's data directory when it is first made. A node that comes back under its
    /// old id with a wiped disk has another one, and its peers refuse it.
    Incarnation
}

impl FencingToken {
    /// Tokens stay below this bound, 2^53.
    pub const END: u64 = 1 << 53;
}

/// What proves that a connection may speak for a session: 16 random bytes, chosen when the session is opened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Password(pub [u8; 16]);

impl Attempt {
    /// The attempt of an acquire that names none.
    pub const UNNAMED: Self = Self(0);
    /// The largest number: nanoseconds since 1970 stay below it until the year 2262.
    pub const MAX: Self = Self((1 << 63) - 1);
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}
