//! The servers of one participant, and the faults that can be injected into them.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::timeout;

use super::participant::Participant;
use crate::lock::{Connector, LockClient, LockError, LockSettings, ServerAddresses};
use crate::servers::clock::WallClock;
use crate::servers::group::server_directory;
use crate::servers::relay::Relay;
use crate::servers::{
    Durability, RedisServer, Server, ServerGroup, ServerKind, leader, request_text,
};
use crate::wait::poll_until;

/// The time limit for ready servers, sufficient for three Java virtual machines on two busy cores.
const READY_TIMEOUT: Duration = Duration::from_secs(90);
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
const STEP: Duration = Duration::from_millis(25);
const REPLICATION: &str = "INFO replication\r\n";
/// The status of a replica in sync.
const IN_SYNC: &str = "master_link_status:up";
const PROMOTE: &str = "REPLICAOF NO ONE\r\n";

/// The servers of a participant. Dropping them stops the servers.
#[derive(Debug)]
pub struct FaultCluster {
    participant: Participant,
    replica: Option<RedisReplica>,
    /// The address of a single Redis, which can move to its replica.
    relay: Option<Relay>,
    group: ServerGroup,
    clocks: Vec<WallClock>,
    settings: LockSettings,
    probes: u64,
}

/// A Redis that replicates another Redis over a link that a test can cut.
#[derive(Debug)]
struct RedisReplica {
    server: Server,
    link: Relay,
}

impl FaultCluster {
    /// Starts the servers of a participant below this directory and waits until all of them grant locks.
    pub async fn start(
        participant: Participant,
        below: &Path,
        lease: Duration,
    ) -> Result<Self, String> {
        let mut relay = None;
        let group = match participant.kind() {
            Some(kind) if !participant.is_one_redis() => ServerGroup::start(kind, below).await,
            kind => {
                let directory = server_directory(below).map_err(text)?;
                let mut servers = Vec::new();
                if let Some(kind) = kind {
                    let synced = kind == ServerKind::RedisSynced;
                    let durability = if synced { Durability::Synced } else { Durability::Unsynced };
                    let redis =
                        RedisServer { durability, ..RedisServer::unsynced().map_err(text)? };
                    let home = directory.path().join(kind.name());
                    let server = redis.start(&home).await.map_err(text)?;
                    relay = Some(Relay::to(server.address()).await.map_err(text)?);
                    servers.push(server);
                }
                Ok(ServerGroup::of(servers, directory))
            }
        };
        let (group, settings) = (group.map_err(text)?, LockSettings::new(lease));
        let (replica, clocks, probes) = (None, Vec::new(), 0);
        let mut cluster = Self { participant, replica, relay, group, clocks, settings, probes };
        if let Some(system) = participant.system {
            system.prepare(&cluster.addresses()).await.map_err(text)?;
        }
        cluster.wait_ready().await?;
        Ok(cluster)
    }

    /// Returns the addresses for clients.
    pub fn addresses(&self) -> ServerAddresses {
        match &self.relay {
            Some(relay) => ServerAddresses::of(vec![relay.address()]),
            None => self.group.addresses.clone(),
        }
    }

    /// Returns the directory of the servers' files.
    pub fn directory(&self) -> &Path {
        self.group.directory()
    }

    /// Opens a client of the lock at the first node.
    pub async fn client(&self) -> Result<Box<dyn LockClient>, LockError> {
        self.connector(self.settings).client().await
    }

    /// Opens a client of the lock at this node.
    pub async fn client_at(&self, node: usize) -> Result<Box<dyn LockClient>, LockError> {
        let addresses = self.addresses().starting_at(node);
        self.participant.connector(addresses, self.settings).client().await
    }

    pub fn connector(&self, settings: LockSettings) -> Connector {
        self.participant.connector(self.addresses(), settings)
    }

    /// Waits until every node has granted a lock.
    pub async fn wait_ready(&mut self) -> Result<(), String> {
        for node in 0..self.group.servers.len().max(1) {
            let mut last = Ok(());
            poll_until(READY_TIMEOUT, STEP, async || {
                last = self.probe(node).await;
                last.is_ok()
            })
            .await;
            last.map_err(|error| format!("{} is not ready: {error}", self.participant.name()))?;
        }
        Ok(())
    }

    /// Acquires and releases a lock at one node. The client has no other address, so it waits for this node.
    async fn probe(&mut self, node: usize) -> Result<(), LockError> {
        self.probes += 1;
        let lock = format!("probe-{}", self.probes);
        let address = self.addresses().starting_at(node).only_first();
        let connector = self.participant.connector(address, self.settings);
        let probe = async {
            let mut client = connector.client().await?;
            let held = client.acquire(&lock, Duration::ZERO).await?;
            client.release(held).await
        };
        let late = |_| LockError::Unreachable("no reply in time".to_owned());
        timeout(PROBE_TIMEOUT, probe).await.map_err(late)?
    }

    /// Restarts every server with an adjustable wall clock.
    pub async fn add_clocks(&mut self) -> Result<(), String> {
        let directory = self.directory().join("clocks");
        for (at, server) in self.group.servers.iter_mut().enumerate() {
            let clock = WallClock::new(&directory.join(at.to_string())).map_err(text)?;
            server.restart(&clock.variables()).map_err(text)?;
            self.clocks.push(clock);
        }
        self.wait_ready().await
    }

    /// Sets the wall clocks of a majority ahead, starting with the leader.
    pub async fn set_clocks_ahead(&self, ahead: Duration) -> Result<(), String> {
        let first = self.leader().await.unwrap_or(0);
        let majority = self.clocks.len() / 2 + 1;
        for clock in self.clocks.iter().cycle().skip(first).take(majority) {
            clock.set_ahead(ahead).map_err(text)?;
        }
        Ok(())
    }

    /// Adds a replica to the single Redis and waits until it is in sync.
    pub async fn add_replica(&mut self) -> Result<(), String> {
        let original = self.group.servers.first().ok_or("there is no server to replicate")?;
        let link = Relay::to(original.address()).await.map_err(text)?;
        let redis = RedisServer::unsynced().map_err(text)?;
        let redis = RedisServer { follows: Some(link.address()), ..redis };
        let server = redis.start(&self.directory().join("replica")).await.map_err(text)?;
        let address = server.address();
        let in_sync = poll_until(READY_TIMEOUT, STEP, async || {
            request_text(address, REPLICATION).await.is_some_and(|reply| reply.contains(IN_SYNC))
        });
        if !in_sync.await {
            return Err("the replica does not get in sync".to_owned());
        }
        self.replica = Some(RedisReplica { server, link });
        Ok(())
    }

    /// Cuts the link: later writes do not reach the replica.
    pub fn cut_replication(&self) {
        if let Some(replica) = &self.replica {
            replica.link.cut();
        }
    }

    /// Promotes the replica, which gets the address of the lost server.
    pub async fn promote_replica(&self) -> Result<(), String> {
        let (Some(replica), Some(relay)) = (&self.replica, &self.relay) else {
            return Err("there is no replica".to_owned());
        };
        let address = replica.server.address();
        let reply = request_text(address, PROMOTE).await.unwrap_or_default();
        if !reply.starts_with("+OK") {
            return Err(format!("the replica is not promoted: {reply}"));
        }
        relay.redirect(address);
        Ok(())
    }

    /// Returns the index of the leader; `None` if no node reports that it leads.
    pub async fn leader(&self) -> Option<usize> {
        leader(self.participant.kind()?, &self.group.servers).await
    }

    /// Sends SIGKILL to all processes of one server.
    pub fn crash(&mut self, at: usize) {
        self.group.servers.get_mut(at).into_iter().for_each(Server::crash);
    }

    /// Sends SIGKILL to all processes of all servers.
    pub fn crash_all(&mut self) {
        self.group.servers.iter_mut().for_each(Server::crash);
    }

    /// Restarts one server with its disk. Does not wait until the server is ready.
    pub fn restart(&mut self, at: usize) -> Result<(), String> {
        let variables = self.clocks.get(at).map(WallClock::variables).unwrap_or_default();
        let server = self.group.servers.get_mut(at).ok_or("there is no such server")?;
        server.restart(&variables).map_err(text)
    }

    pub fn restart_all(&mut self) -> Result<(), String> {
        (0..self.group.servers.len()).try_for_each(|at| self.restart(at))
    }

    /// Returns `true` if the process of one server has ended.
    pub fn has_ended(&mut self, at: usize) -> bool {
        self.group.servers.get_mut(at).is_none_or(Server::has_ended)
    }

    pub fn signal(&self, at: usize, signal: Signal) -> Result<(), String> {
        let server = self.group.servers.get(at).ok_or("there is no such server")?;
        server.signal(signal).map_err(text)
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
