//! The servers of one lock, up and serving, and what can be done to them.
//!
//! Owns them: they stop when it is dropped. Refuses to know the sale.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::LockError;
use crate::servers::{Durable, Lifetime, Redis, Server, ServerKind, ask, leader, zookeeper_doors};
use nix::sys::signal::Signal;
use tokio::time::{Instant, sleep, timeout};

use super::participant::Participant;
use crate::connect::Addresses;
use crate::servers::clock::WallClock;
use crate::servers::relay::Relay;

/// Until servers that were started serve; generous for three Java machines on two busy cores.
const SERVING: Duration = Duration::from_secs(90);
/// One try of that.
const TRY: Duration = Duration::from_secs(3);
const STEP: Duration = Duration::from_millis(25);
/// What Redis says when a copy has everything.
const IN_STEP: &str = "master_link_status:up";
const REPLICATION: &str = "INFO replication\r\n";
const PROMOTE: &str = "REPLICAOF NO ONE\r\n";

/// Servers that run.
#[derive(Debug)]
pub struct FaultCluster {
    participant: Participant,
    servers: Vec<Server>,
    clocks: Vec<WallClock>,
    /// Where clients find a single Redis.
    front: Option<Relay>,
    copy: Option<Copy>,
    zookeeper: Vec<SocketAddr>,
    lease: Duration,
    probes: u64,
}

/// A Redis that follows another over a cable.
#[derive(Debug)]
struct Copy {
    server: Server,
    cable: Relay,
}

impl FaultCluster {
    /// Starts the servers of a lock below an empty directory, and waits until all of them serve.
    ///
    /// # Errors
    /// In words: a server is missing, or does not serve.
    pub async fn start(
        participant: Participant,
        directory: &Path,
        lease: Duration,
    ) -> Result<Self, String> {
        let servers = match participant.kind() {
            None => Vec::new(),
            Some(kind) if participant.is_one_redis() => {
                let synced = kind == ServerKind::RedisSynced;
                let durable = if synced { Durable::Synced } else { Durable::Unsynced };
                vec![redis(directory, durable, None).await?]
            }
            Some(kind) => kind.start(directory, Lifetime::WithParent).await.map_err(words)?,
        };
        let front = match servers.first() {
            Some(server) if participant.is_one_redis() => {
                Some(Relay::to(server.address()).await.map_err(words)?)
            }
            _ => None,
        };
        let ours = participant.kind() == Some(ServerKind::Holdfast);
        let zookeeper = if ours { zookeeper_doors(&servers).map_err(words)? } else { Vec::new() };
        let (clocks, copy, probes) = (Vec::new(), None, 0);
        let mut cluster =
            Self { participant, servers, clocks, front, copy, zookeeper, lease, probes };
        cluster.prepare().await?;
        cluster.serving().await?;
        Ok(cluster)
    }

    async fn prepare(&self) -> Result<(), String> {
        match self.participant.listed {
            Some(listed) => listed.prepare(&self.addresses()).await.map_err(words),
            None => Ok(()),
        }
    }

    /// Where clients find it.
    pub fn addresses(&self) -> Addresses {
        let nodes = match &self.front {
            Some(front) => vec![front.address()],
            None => self.servers.iter().map(Server::address).collect(),
        };
        Addresses { nodes, zookeeper: self.zookeeper.clone() }
    }

    /// How many servers there are.
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Waits until every node has granted a lock of its own.
    ///
    /// # Errors
    /// In words, if that does not come in time.
    pub async fn serving(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + SERVING;
        let addresses = self.addresses();
        for node in 0..self.len().max(1) {
            let mut last = self.probe(&addresses, node).await;
            while let Err(trouble) = last {
                if Instant::now() > deadline {
                    return Err(format!("{} does not serve: {trouble}", self.participant.name()));
                }
                sleep(STEP).await;
                last = self.probe(&addresses, node).await;
            }
        }
        Ok(())
    }

    /// One lock by one node, taken and given back.
    async fn probe(&mut self, addresses: &Addresses, node: usize) -> Result<(), LockError> {
        self.probes += 1;
        let lock = format!("probe-{}", self.probes);
        let probe = async {
            let system = self.participant.system(&addresses.clone().from_node(node), self.lease)?;
            let mut client = system.client().await?;
            let hold = client.acquire(&lock, Duration::ZERO).await?;
            client.release(hold).await
        };
        let late = |_| LockError::Unreachable("no answer in time".to_owned());
        timeout(TRY, probe).await.map_err(late)?
    }

    /// Gives every server a wall clock that can be moved; they are restarted for it.
    ///
    /// # Errors
    /// In words.
    pub async fn with_clocks(&mut self, directory: &Path) -> Result<(), String> {
        for (at, server) in self.servers.iter_mut().enumerate() {
            let file = clock_file(directory, at)?;
            let clock = WallClock::right(&file).map_err(words)?;
            server.restart(&clock.variables()).map_err(words)?;
            self.clocks.push(clock);
        }
        self.serving().await
    }

    /// Moves the wall clocks of a majority, the leader's first.
    ///
    /// # Errors
    /// In words.
    pub async fn move_clocks(&self, ahead: Duration) -> Result<(), String> {
        let first = self.leader().await.unwrap_or(0);
        let in_turn = self.clocks.iter().cycle().skip(first);
        for clock in in_turn.take(self.clocks.len() / 2 + 1) {
            clock.move_by(ahead).map_err(words)?;
        }
        Ok(())
    }

    /// Gives the single Redis a copy, and waits until that has everything.
    ///
    /// # Errors
    /// In words.
    pub async fn with_copy(&mut self, directory: &Path) -> Result<(), String> {
        let original = self.servers.first().ok_or("there is no server to copy")?;
        let cable = Relay::to(original.address()).await.map_err(words)?;
        let server = redis(&directory.join("copy"), Durable::Unsynced, Some(&cable)).await?;
        let deadline = Instant::now() + SERVING;
        while !ask(server.address(), REPLICATION).await.is_some_and(|said| said.contains(IN_STEP)) {
            if Instant::now() > deadline {
                return Err("the copy does not follow".to_owned());
            }
            sleep(STEP).await;
        }
        self.copy = Some(Copy { server, cable });
        Ok(())
    }

    /// What is acknowledged from now on does not reach the copy.
    pub fn cut_cable(&self) {
        if let Some(copy) = &self.copy {
            copy.cable.cut();
        }
    }

    /// The copy takes the place and the address of the server that was lost.
    ///
    /// # Errors
    /// In words, if it refuses.
    pub async fn promote(&self) -> Result<(), String> {
        let (Some(copy), Some(front)) = (&self.copy, &self.front) else {
            return Err("there is no copy".to_owned());
        };
        let address = copy.server.address();
        let said = ask(address, PROMOTE).await.unwrap_or_default();
        if !said.starts_with("+OK") {
            return Err(format!("the copy does not take over: {said}"));
        }
        front.turn(address);
        Ok(())
    }

    /// Which node leads; none if no node says so.
    pub async fn leader(&self) -> Option<usize> {
        leader(self.participant.kind()?, &self.servers).await
    }

    /// SIGKILL to all processes of one server.
    pub fn crash(&mut self, at: usize) {
        if let Some(server) = self.servers.get_mut(at) {
            server.crash();
        }
    }

    /// SIGKILL to all processes of all servers.
    pub fn crash_all(&mut self) {
        self.servers.iter_mut().for_each(Server::crash);
    }

    /// Starts one server again, with what is on its disk. Does not wait until it serves.
    ///
    /// # Errors
    /// In words.
    pub fn restart(&mut self, at: usize) -> Result<(), String> {
        let variables = self.clocks.get(at).map(WallClock::variables).unwrap_or_default();
        let server = self.servers.get_mut(at).ok_or("there is no such server")?;
        server.restart(&variables).map_err(words)
    }

    /// Starts all of them again.
    ///
    /// # Errors
    /// In words.
    pub fn restart_all(&mut self) -> Result<(), String> {
        (0..self.len()).try_for_each(|at| self.restart(at))
    }

    /// A signal to one server.
    ///
    /// # Errors
    /// In words.
    pub fn signal(&self, at: usize, signal: Signal) -> Result<(), String> {
        let server = self.servers.get(at).ok_or("there is no such server")?;
        server.signal(signal).map_err(words)
    }
}

async fn redis(
    directory: &Path,
    durable: Durable,
    follows: Option<&Relay>,
) -> Result<Server, String> {
    let quick = Redis::quick().map_err(words)?;
    let follows: Option<SocketAddr> = follows.map(Relay::address);
    Redis { durable, follows, ..quick }.start(directory).await.map_err(words)
}

/// Below a directory that servers under another user can read.
fn clock_file(directory: &Path, at: usize) -> Result<PathBuf, String> {
    let clocks = directory.join("clocks");
    std::fs::create_dir_all(&clocks).map_err(words)?;
    Ok(clocks.join(at.to_string()))
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}
