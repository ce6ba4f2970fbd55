//! The rivals: the locks that other systems give, behind one trait, to compare them with ours in speed and in safety.
//!
//! Owns an adapter for each, as the field uses it and with
//! the faults it is known for, and what each cannot do as data ([`Caveat`]); and the starting and stopping of their
//! real servers ([`servers`]). Refuses to be used in earnest, and to mend a rival: an adapter that is better than what
//! people run would compare nothing.
//!
//! A [`Rival`] is one client with one connection and at most one lock at a time; a [`System`] makes clients.
//! Bounds: a client keeps one hold; a watchdog is one task a hold; a watch or a subscription keeps at most
//! [`WAKEUPS_MAX`] unread wake-ups, and more are one.
//!
//! Drivers are behind features, and this crate is no default member of the workspace: nothing else needs them.

mod caveat;
#[cfg(feature = "etcd")]
pub mod etcd;
#[cfg(feature = "holdfast")]
pub mod holdfast;
mod merit;
mod patience;
mod poll;
#[cfg(feature = "redis")]
pub mod redis;
mod rival;
pub mod servers;
#[cfg(any(feature = "postgres", feature = "mariadb"))]
pub mod sql;
mod trouble;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

pub use caveat::Caveat;
pub use merit::{Property, why};
pub use patience::{Patience, nonce};
pub use poll::Pause;
pub use rival::{Answer, Hold, Rival, System, Tally};
pub use trouble::Trouble;

/// Wake-ups that a client keeps unread.
pub const WAKEUPS_MAX: usize = 16;
