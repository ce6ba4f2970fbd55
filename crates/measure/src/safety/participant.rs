//! The participants of the flash sale: each lock of a run, with and without the fence, and a run without a lock.

use crate::adapters::{holdfast, no_lock};
use crate::catalogue::{self, Selection, System};
use crate::limitation::Limitation;
use crate::lock::{Connector, LockSettings, ServerAddresses, Target};
use crate::servers::ServerKind;

use super::fault::FaultScenario;

/// The suffix of a participant's name if every write carries the token.
const WITH_FENCE: &str = "+fence";
/// Systems that a full run adds to the measured ones; each fails in a different way.
const ADDED: [&str; 4] =
    ["redis-setnx-expire", "redis-getset", "postgres-lock-table", "mariadb-lock-table"];
/// Locks that generate the token at the grant and keep it beyond the lock, so that a fence can compare it.
const FENCED: [&str; 2] = [holdfast::http::LOCK.name, holdfast::rust_client::LOCK.name];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Participant {
    /// `None` for the participant without a lock.
    pub system: Option<&'static System>,
    /// Whether every write carries the token.
    pub fenced: bool,
}

impl Participant {
    pub const NO_LOCK: Self = Self { system: None, fenced: false };

    /// Returns the participants of a run that measures these systems, starting with the one without a lock.
    pub fn among(systems: &[&'static System]) -> Vec<Self> {
        let mut systems = systems.to_vec();
        if systems == catalogue::selected(Selection::FullRuns) {
            systems.extend(ADDED.into_iter().filter_map(catalogue::named));
            systems.sort_by_key(|system| catalogue::position(system.name));
        }
        let mut found = vec![Self::NO_LOCK];
        for system in systems {
            found.push(Self { system: Some(system), fenced: false });
            if FENCED.contains(&system.lock.name) {
                found.push(Self { system: Some(system), fenced: true });
            }
        }
        found
    }

    /// Returns the name in rows.
    pub fn name(self) -> String {
        let name = self.system.map_or(no_lock::LOCK.name, |system| system.name);
        format!("{name}{}", if self.fenced { WITH_FENCE } else { "" })
    }

    pub fn named(name: &str) -> Option<Self> {
        if name == no_lock::LOCK.name {
            return Some(Self::NO_LOCK);
        }
        let bare = name.strip_suffix(WITH_FENCE);
        let (system, fenced) = (catalogue::named(bare.unwrap_or(name))?, bare.is_some());
        let is_possible = !fenced || FENCED.contains(&system.lock.name);
        is_possible.then_some(Self { system: Some(system), fenced })
    }

    pub fn kind(self) -> Option<ServerKind> {
        self.system.map(|system| system.kind)
    }

    fn is_redis(self) -> bool {
        matches!(self.kind(), Some(ServerKind::Redis | ServerKind::RedisSynced))
    }

    fn is_redlock(self) -> bool {
        self.system.is_some_and(System::is_redlock)
    }

    /// Returns `true` for a lock on one Redis. Its address can move to a replica.
    pub fn is_one_redis(self) -> bool {
        self.is_redis() && !self.is_redlock()
    }

    /// Returns `true` if its servers elect a leader.
    pub fn is_cluster(self) -> bool {
        let clusters = [ServerKind::Holdfast, ServerKind::Etcd, ServerKind::ZooKeeper];
        self.kind().is_some_and(|kind| clusters.contains(&kind))
    }

    pub fn connector(self, addresses: ServerAddresses, settings: LockSettings) -> Connector {
        if let Some(system) = self.system {
            system.connector(addresses, settings)
        } else {
            let kind = ServerKind::Holdfast;
            Connector::of(no_lock::LOCK, Target { kind, addresses, settings })
        }
    }

    /// Returns `true` if only the end of a connection releases the lock of a dead holder.
    pub fn ends_with_connection(self) -> bool {
        self.has(Limitation::EndsWithConnection)
    }

    fn has(self, limitation: Limitation) -> bool {
        self.system.is_some_and(|system| system.lock.limitations.contains(&limitation))
    }

    /// Returns `true` if the scenario gives the lock two holders by a known limitation, unless the fault comes too late.
    pub fn has_two_holders_under(self, scenario: FaultScenario) -> bool {
        match scenario {
            FaultScenario::HolderPaused => self.has(Limitation::ExpiresUnderHolder),
            FaultScenario::ClientClock => self.has(Limitation::ClientClocks),
            FaultScenario::ServersRestarted => self.has(Limitation::EndsWithConnection),
            FaultScenario::ReplicaPromoted => self.has(Limitation::LostOnFailover),
            FaultScenario::None
            | FaultScenario::HolderKilled
            | FaultScenario::ServerClock
            | FaultScenario::LeaderIsolated => false,
        }
    }

    /// Returns the reason why a scenario does not apply.
    pub fn exemption(self, scenario: FaultScenario) -> Option<&'static str> {
        match scenario {
            FaultScenario::None => None,
            _ if self.system.is_none() => Some("without a lock there is nothing to break"),
            FaultScenario::ReplicaPromoted if self.is_cluster() => {
                Some("a majority has what it acknowledges: no node without it can lead")
            }
            FaultScenario::ReplicaPromoted if self.is_redlock() => {
                Some("its servers are independent of each other: there is no replica")
            }
            FaultScenario::ReplicaPromoted if !self.is_redis() => {
                Some("set up as one server without a replica, as is common for locks")
            }
            FaultScenario::LeaderIsolated if !self.is_cluster() => {
                Some("its servers elect no leader")
            }
            FaultScenario::ServerClock if self.kind() == Some(ServerKind::Etcd) => Some(
                "etcd is written in Go and reads the time from the kernel, not from the C library: libfaketime does not affect it",
            ),
            FaultScenario::ServerClock if self.kind() == Some(ServerKind::ZooKeeper) => Some(
                "its nodes do not become ready under libfaketime, because their Java virtual machines read the time too often",
            ),
            FaultScenario::HolderPaused
            | FaultScenario::HolderKilled
            | FaultScenario::ServersRestarted
            | FaultScenario::ReplicaPromoted
            | FaultScenario::ClientClock
            | FaultScenario::ServerClock
            | FaultScenario::LeaderIsolated => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_participant_of_a_run_is_found_by_its_name() {
        let full = Participant::among(&catalogue::selected(Selection::FullRuns));
        for participant in &full {
            let name = participant.name();
            assert_eq!(Participant::named(&name), Some(*participant), "{name}");
        }
        assert_eq!(full[0], Participant::NO_LOCK);
        assert!(full.iter().any(|participant| participant.name() == "redis-getset"));
        assert_eq!(Participant::named("redlock+fence"), None);
    }

    #[test]
    fn advisory_locks_end_with_their_connection_and_leases_do_not() {
        let ends = |name: &str| Participant::named(name).unwrap().ends_with_connection();
        assert!(ends("postgres-advisory") && ends("mariadb-for-update"));
        assert!(!ends("holdfast-http") && !ends("redlock") && !ends("postgres-lock-table"));
    }

    #[test]
    fn two_holders_follow_from_a_limitation() {
        let two = |name: &str, scenario| {
            Participant::named(name).unwrap().has_two_holders_under(scenario)
        };
        let paused = FaultScenario::HolderPaused;
        assert!(two("holdfast-http+fence", paused) && two("redlock", paused));
        assert!(!two("postgres-advisory", paused) && !two("no-lock", paused));
        assert!(two("postgres-advisory", FaultScenario::ServersRestarted));
        assert!(!two("holdfast-http", FaultScenario::ServersRestarted));
        assert!(two("redis-getset", FaultScenario::ClientClock));
        assert!(two("redisson-lock", FaultScenario::ReplicaPromoted));
        assert!(!two("redlock", FaultScenario::LeaderIsolated));
    }

    #[test]
    fn holdfast_takes_part_with_and_without_the_fence() {
        let systems = [catalogue::named("holdfast-http").unwrap()];
        let names: Vec<_> =
            Participant::among(&systems).into_iter().map(Participant::name).collect();
        assert_eq!(names, ["no-lock", "holdfast-http", "holdfast-http+fence"]);
    }

    #[test]
    fn each_scenario_applies_to_a_system_and_none_to_no_lock() {
        let full = Participant::among(&catalogue::selected(Selection::FullRuns));
        for scenario in FaultScenario::ALL {
            let applies = |one: &Participant| one.exemption(scenario).is_none();
            assert!(full.iter().any(applies), "{scenario:?}");
            assert_eq!(applies(&Participant::NO_LOCK), scenario == FaultScenario::None);
        }
    }
}
