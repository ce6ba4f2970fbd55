//! Who takes part: each lock of the catalogue, with and without the fence, and which faults make sense for it.
//!
//! Owns the choice and the reasons. Refuses to start anything.

use std::sync::Arc;
use std::time::Duration;

use crate::servers::ServerKind;
use crate::{Limitation, LockError, System};

use crate::adapters::no_lock::{self, NoLock};
use crate::catalogue::{self, Chosen, Listed};
use crate::connect::Addresses;
use crate::fault::Fault;

/// What is added to the name of a system whose token goes with every write.
const WITH_FENCE: &str = "+fence";
/// Systems that a full run breaks besides those that it measures: each fails in a way of its own.
const ALSO: [&str; 4] =
    ["redis-setnx-expire", "redis-getset", "postgres-lock-table", "mariadb-lock-table"];
/// Adapters whose token is minted at the grant and outlives the lock, so that a fence can go by it.
const FENCED: [&str; 2] = ["holdfast-http", "holdfast-sdk"];
const REDLOCK: &str = "redlock";

/// One lock in the sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Participant {
    /// Its line in the catalogue; none for the one that locks nothing.
    pub listed: Option<&'static Listed>,
    /// Whether the token goes with every write.
    pub fenced: bool,
}

impl Participant {
    /// The lock that locks nothing.
    pub const NO_LOCK: Self = Self { listed: None, fenced: false };

    /// Those of a run that measures these systems: first the one that locks nothing.
    pub fn among(systems: &[&'static Listed]) -> Vec<Self> {
        let mut listed = systems.to_vec();
        if listed == catalogue::chosen(Chosen::Full) {
            listed.extend(ALSO.into_iter().filter_map(catalogue::named));
            listed.sort_by_key(|listed| catalogue::place(listed.name));
        }
        let mut found = vec![Self::NO_LOCK];
        for listed in listed {
            found.push(Self { listed: Some(listed), fenced: false });
            if FENCED.contains(&listed.adapter) {
                found.push(Self { listed: Some(listed), fenced: true });
            }
        }
        found
    }

    /// In rows.
    pub fn name(self) -> String {
        let name = self.listed.map_or(no_lock::NAME, |listed| listed.name);
        format!("{name}{}", if self.fenced { WITH_FENCE } else { "" })
    }

    /// The one of this name, as in rows.
    pub fn named(name: &str) -> Option<Self> {
        if name == no_lock::NAME {
            return Some(Self::NO_LOCK);
        }
        let bare = name.strip_suffix(WITH_FENCE);
        let listed = catalogue::named(bare.unwrap_or(name))?;
        let fenced = bare.is_some();
        let can = !fenced || FENCED.contains(&listed.adapter);
        can.then_some(Self { listed: Some(listed), fenced })
    }

    /// Its kind of servers.
    pub fn kind(self) -> Option<ServerKind> {
        self.listed.map(|listed| listed.kind)
    }

    /// Whether it is a lock on one Redis, which runs behind an address that can move to a copy.
    pub fn is_one_redis(self) -> bool {
        self.is_redis() && !self.is_redlock()
    }

    fn is_redis(self) -> bool {
        matches!(self.kind(), Some(ServerKind::Redis | ServerKind::RedisSynced))
    }

    fn is_redlock(self) -> bool {
        self.listed.is_some_and(|listed| listed.adapter == REDLOCK)
    }

    /// Whether its servers elect a leader.
    pub fn is_cluster(self) -> bool {
        matches!(self.kind(), Some(ServerKind::Holdfast | ServerKind::Etcd | ServerKind::ZooKeeper))
    }

    /// The lock on these servers.
    ///
    /// # Errors
    /// [`LockError::Refused`] if there are none.
    pub fn system(
        self,
        addresses: &Addresses,
        lease: Duration,
    ) -> Result<Arc<dyn System>, LockError> {
        match self.listed {
            Some(listed) => listed.system(addresses, lease),
            None => Ok(Arc::new(NoLock)),
        }
    }

    /// Whether the servers let go of the lock when a connection ends, and nothing but that ends it.
    pub fn lives_with_connection(self) -> bool {
        let system = self.system(&Addresses::nowhere(), Duration::from_secs(1));
        system.is_ok_and(|system| system.limitations().contains(&Limitation::DiesWithConnection))
    }

    /// Why a fault makes no sense for it, if so.
    pub fn spared(self, fault: Fault) -> Option<&'static str> {
        match fault {
            Fault::None => None,
            _ if self.listed.is_none() => Some("it locks nothing: there is nothing to break"),
            Fault::Promoted if self.is_cluster() => {
                Some("what it acknowledges, a majority has: no node without it can lead")
            }
            Fault::Promoted if self.is_redlock() => {
                Some("its servers are independent of each other: there is no copy")
            }
            Fault::Promoted if !self.is_redis() => {
                Some("set up as one server without a copy, as most people run it for locks")
            }
            Fault::LeaderIsolated if !self.is_cluster() => Some("its servers elect no leader"),
            Fault::ServerClock if self.kind() == Some(ServerKind::Etcd) => Some(
                "etcd is written in Go and asks the kernel for the time, not the C library: libfaketime does not reach it",
            ),
            Fault::ServerClock if self.kind() == Some(ServerKind::ZooKeeper) => Some(
                "its nodes do not get to serve under libfaketime, which their Java virtual machines ask for the time too \
                 often; sessions are said to go by the monotonic clock",
            ),
            Fault::HolderPaused
            | Fault::HolderKilled
            | Fault::ServersRestarted
            | Fault::Promoted
            | Fault::ClientClock
            | Fault::ServerClock
            | Fault::LeaderIsolated => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entrant_of_a_run_is_found_by_its_name() {
        let full = Participant::among(&catalogue::chosen(Chosen::Full));
        for participant in &full {
            assert_eq!(
                Participant::named(&participant.name()),
                Some(*participant),
                "{}",
                participant.name()
            );
        }
        assert_eq!(full[0], Participant::NO_LOCK);
        assert!(full.iter().any(|participant| participant.name() == "redis-getset"));
        assert_eq!(Participant::named("redlock+fence"), None);
    }

    #[test]
    fn advisory_locks_live_with_their_connection_and_leases_do_not() {
        let lives = |name: &str| Participant::named(name).unwrap().lives_with_connection();
        assert!(lives("postgres-advisory") && lives("mariadb-for-update"));
        assert!(!lives("holdfast-http") && !lives("redlock") && !lives("postgres-lock-table"));
    }

    #[test]
    fn ours_takes_part_with_and_without_the_fence() {
        let names: Vec<_> = Participant::among(&[catalogue::named("holdfast-http").unwrap()])
            .into_iter()
            .map(Participant::name)
            .collect();
        assert_eq!(names, ["no-lock", "holdfast-http", "holdfast-http+fence"]);
    }

    #[test]
    fn each_fault_strikes_somebody_and_none_strikes_what_locks_nothing() {
        let full = Participant::among(&catalogue::chosen(Chosen::Full));
        for fault in Fault::ALL {
            assert!(
                full.iter().any(|participant| participant.spared(fault).is_none()),
                "{fault:?}"
            );
            assert_eq!(Participant::NO_LOCK.spared(fault).is_none(), fault == Fault::None);
        }
    }
}
