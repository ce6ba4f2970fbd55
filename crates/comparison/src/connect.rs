//! From a name in the catalogue and the addresses of servers to a system that makes clients.
//!
//! Owns which adapter that is, and how long its leases are. Refuses to start servers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::adapters::etcd::EtcdSystem;
use crate::adapters::holdfast::{Door, HoldfastSystem};
use crate::adapters::redis::{self, RedLockSystem};
use crate::adapters::sql::{self, Database};
use crate::adapters::zookeeper::{Recipe, ZooKeeperSystem};
use crate::servers::{ServerKind, url};
use crate::{LockError, System};
use serde::{Deserialize, Serialize};

use crate::catalogue::Listed;

/// Where the servers of one kind are. Can be handed to another process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// Where each of them serves.
    pub nodes: Vec<SocketAddr>,
    /// Where nodes of ours answer `ZooKeeper` clients.
    pub zookeeper: Vec<SocketAddr>,
}

impl Addresses {
    /// The same, with another of the nodes first, so that clients are spread over them.
    #[must_use]
    pub fn from_node(mut self, node: usize) -> Self {
        for addresses in [&mut self.nodes, &mut self.zookeeper] {
            let by = node % addresses.len().max(1);
            addresses.rotate_left(by);
        }
        self
    }

    /// Somewhere, for what is never connected to.
    pub(crate) fn nowhere() -> Self {
        let nodes = vec![SocketAddr::from(([127, 0, 0, 1], 9))];
        Self { zookeeper: nodes.clone(), nodes }
    }
}

impl Listed {
    /// The system on these servers, with leases of `ttl` where it has leases. Nothing is sent yet.
    ///
    /// # Errors
    /// [`LockError::Refused`] if there is no such adapter or no server.
    pub fn system(
        &self,
        addresses: &Addresses,
        ttl: Duration,
    ) -> Result<Arc<dyn System>, LockError> {
        let nodes = || addresses.nodes.clone();
        let first = addresses.nodes.first().copied();
        let first = first.ok_or_else(|| LockError::Refused("no servers".to_owned()))?;
        Ok(match (self.kind, self.adapter) {
            (ServerKind::Redis | ServerKind::RedisSynced, "redlock") => {
                let urls = addresses.nodes.iter().map(|node| url(self.kind, *node)).collect();
                Arc::new(RedLockSystem { urls, settings: redis_settings(ttl) })
            }
            (ServerKind::Redis | ServerKind::RedisSynced, _) => {
                self.among(redis::systems(&url(self.kind, first), redis_settings(ttl)))?
            }
            (ServerKind::Postgres, _) => self.sql(Database::Postgres, first, ttl)?,
            (ServerKind::MariaDb, _) => self.sql(Database::MariaDb, first, ttl)?,
            (ServerKind::ZooKeeper, "zookeeper-ephemeral") => Arc::new(
                ZooKeeperSystem::new("zookeeper-ephemeral", Recipe::Ephemeral, nodes())
                    .timeout(ttl),
            ),
            (ServerKind::ZooKeeper, _) => Arc::new(
                ZooKeeperSystem::new("zookeeper-curator", Recipe::Curator, nodes()).timeout(ttl),
            ),
            (ServerKind::Etcd, _) => Arc::new(EtcdSystem::new(nodes()).ttl(ttl)),
            (ServerKind::Holdfast, "holdfast-sdk") => {
                Arc::new(HoldfastSystem::new(Door::Sdk, nodes()).ttl(ttl))
            }
            (ServerKind::Holdfast, "holdfast-zookeeper") => {
                let doors = addresses.zookeeper.clone();
                Arc::new(
                    ZooKeeperSystem::new("holdfast-zookeeper", Recipe::Curator, doors).timeout(ttl),
                )
            }
            (ServerKind::Holdfast, _) => {
                Arc::new(HoldfastSystem::new(Door::Http, nodes()).ttl(ttl))
            }
        })
    }

    /// Makes what the system wants to find, such as tables. To be done once after its servers have started.
    ///
    /// # Errors
    /// [`LockError::Unreachable`] if they do not answer.
    pub async fn prepare(&self, addresses: &Addresses) -> Result<(), LockError> {
        let database = match self.kind {
            ServerKind::Postgres => Database::Postgres,
            ServerKind::MariaDb => Database::MariaDb,
            ServerKind::Redis
            | ServerKind::RedisSynced
            | ServerKind::ZooKeeper
            | ServerKind::Etcd
            | ServerKind::Holdfast => {
                return Ok(());
            }
        };
        match addresses.nodes.first() {
            Some(node) => sql::make_tables(database, &url(self.kind, *node)).await,
            None => Err(LockError::Refused("no servers".to_owned())),
        }
    }

    fn sql(
        &self,
        database: Database,
        node: SocketAddr,
        ttl: Duration,
    ) -> Result<Arc<dyn System>, LockError> {
        let settings = sql::Settings { ttl, ..sql::Settings::default() };
        self.among(sql::listed(database, &url(self.kind, node), settings))
    }

    /// The one of our adapter's name.
    fn among<S: System + 'static>(&self, systems: Vec<S>) -> Result<Arc<dyn System>, LockError> {
        let found = systems.into_iter().find(|system| system.name() == self.adapter);
        let found = found.map(|system| Arc::new(system) as Arc<dyn System>);
        found.ok_or_else(|| LockError::Refused(format!("there is no adapter {}", self.adapter)))
    }
}

fn redis_settings(ttl: Duration) -> redis::Settings {
    redis::Settings::default().ttl(ttl)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::ALL;

    #[test]
    fn every_listed_system_has_its_adapter() {
        for listed in &ALL {
            let system = listed.system(&Addresses::nowhere(), Duration::from_secs(30)).unwrap();
            assert_eq!(system.name(), listed.adapter, "{}", listed.name);
        }
    }

    #[test]
    fn no_servers_are_refused() {
        let none = Addresses::default();
        assert!(ALL.iter().all(|listed| listed.system(&none, Duration::from_secs(30)).is_err()));
    }
}
