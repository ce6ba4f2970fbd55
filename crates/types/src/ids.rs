//! Numbers that identify or order things. Each is a newtype, so that the compiler rejects a mix-up of two kinds.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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
    /// A member of the cluster, from 1. Never reused, even after its data is wiped.
    NodeId
}
number! {
    /// Order number of an applied command, cluster-wide, from 1; 0 is the empty state.
    /// Every command of a batch has its own revision. A multi is one command.
    Revision
}
number! {
    /// Number of a session, from 1, assigned by `apply`, never reused. `ephemeralOwner` in the tree.
    SessionId
}
number! {
    /// Identifies a queue entry: the revision of the command that enqueued it. Only entries of one command share it.
    Ticket
}
number! {
    /// Number of one attempt to acquire a lock, chosen by the client: larger than every earlier attempt of its session.
    /// Copies of a call carry the same number, so a copy that arrives after the attempt is over has no effect.
    /// From 1 to [`Attempt::MAX`]; 0 means that the call has no attempt.
    Attempt
}
number! {
    /// Number of one call that changes something, chosen by the client: larger than every earlier one of its session.
    /// Copies of a call carry the same number, so the call is executed at most once. From 1 to [`RequestNumber::MAX`].
    RequestNumber
}
number! {
    /// Order number of a grant, minted from one replicated counter, so it only grows. The protected resource rejects a
    /// token that is smaller than the largest one it has received. Below 2^53, so JSON, JavaScript and Lua represent it
    /// exactly.
    FencingToken
}
number! {
    /// Random number, written into a node's data directory at its creation. A node with its old id and a wiped disk has
    /// another incarnation, and its peers reject it.
    Incarnation
}

/// A random number that names one cluster, chosen when the cluster is bootstrapped. Two clusters may have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub u128);

/// 32 hexadecimal digits.
impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Text for people, because a JSON number has 53 bits; 16 bytes in snapshots.
impl Serialize for ClusterId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for ClusterId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return u128::deserialize(deserializer).map(Self);
        }
        let text = String::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map(Self).map_err(D::Error::custom)
    }
}

impl FencingToken {
    /// Tokens stay below this bound, 2^53.
    pub const END: u64 = 1 << 53;
}

impl SessionId {
    /// The ids that nodes choose at random for the sessions of connections. They fit into a JSON number. The state machine
    /// assigns smaller ids.
    pub const CHOSEN: std::ops::Range<u64> = 1 << 52..1 << 53;
}

/// The secret of a session, required to attach another connection: 16 random bytes, chosen when the session is opened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Password(pub [u8; 16]);

impl Attempt {
    /// The attempt of an acquire without one.
    pub const UNNAMED: Self = Self(0);
    /// Nanoseconds since 1970 stay below it until the year 2262.
    pub const MAX: Self = Self((1 << 63) - 1);
}

impl RequestNumber {
    /// Nanoseconds since 1970 stay below it until the year 2262.
    pub const MAX: Self = Self((1 << 63) - 1);
}

/// A fingerprint of a call: what it does, and to what. Two different calls with one request number differ in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallScope(pub u128);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}
