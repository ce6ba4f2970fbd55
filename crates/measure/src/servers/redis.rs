//! Redis: one server, five independent servers, or a replica. No snapshots; an append-only file only if synced.

use std::net::SocketAddr;
use std::path::Path;
use std::slice::from_mut;

use nix::sys::signal::Signal;

use super::process::{Lifetime, Server, ServerCommand};
use super::ready::{Readiness, wait_ready};
use super::{
    Durability, Missing, ServerError, make_directory, ports, program, system_error, version_of,
};

const MISSING: Missing = Missing { system: "Redis", package: "redis-server" };
const READY: Readiness<'_> = Readiness::Reply { request: "PING\r\n", contains: "+PONG" };

pub(super) fn missing() -> Option<Missing> {
    program("redis-server", &[]).is_none().then_some(MISSING)
}

pub(super) fn version() -> String {
    version_of(program("redis-server", &[]), &["--version"])
}

pub(super) async fn five(
    home: &Path,
    durability: Durability,
    lifetime: Lifetime,
) -> Result<Vec<Server>, ServerError> {
    let mut servers = Vec::new();
    for (at, address) in ports::free::<5>()?.into_iter().enumerate() {
        let server = RedisServer { address, durability, lifetime, follows: None };
        servers.push(server.start(&home.join((at + 1).to_string())).await?);
    }
    Ok(servers)
}

/// The configuration of one server.
#[derive(Clone, Copy, Debug)]
pub struct RedisServer {
    pub address: SocketAddr,
    pub durability: Durability,
    pub lifetime: Lifetime,
    /// The server that it replicates.
    pub follows: Option<SocketAddr>,
}

impl RedisServer {
    /// Configures a server on a free port, in memory, for the life of this process.
    ///
    /// # Errors
    /// [`ServerError::System`] if there is no free port.
    pub fn unsynced() -> Result<Self, ServerError> {
        let [address] = ports::free::<1>()?;
        let (durability, lifetime) = (Durability::Unsynced, Lifetime::WithParent);
        Ok(Self { address, durability, lifetime, follows: None })
    }

    pub async fn start(self, directory: &Path) -> Result<Server, ServerError> {
        let program = program("redis-server", &[]).ok_or(ServerError::Missing(MISSING))?;
        make_directory(directory)?;
        let port = self.address.port().to_string();
        let append = if self.durability == Durability::Synced { "yes" } else { "no" };
        let mut arguments = vec!["--port", &port, "--bind", "127.0.0.1", "--save", ""];
        arguments.extend(["--appendonly", append, "--appendfsync", "always"]);
        // The server has at most one replica.
        arguments.extend(["--repl-diskless-sync-delay", "0"]);
        let leader =
            self.follows.map(|leader| [leader.ip().to_string(), leader.port().to_string()]);
        if let Some([host, port]) = &leader {
            arguments.extend(["--replicaof", host, port]);
        }
        let command = ServerCommand {
            name: "redis-server",
            program,
            arguments: arguments.into_iter().map(Into::into).collect(),
            directory: directory.to_owned(),
            address: self.address,
            user: None,
            lifetime: self.lifetime,
            stop: Signal::SIGKILL,
        };
        let mut server = command.start()?;
        wait_ready(from_mut(&mut server), &READY).await?;
        Ok(server)
    }
}

/// Starts a Sentinel that watches one master, and promotes a replica half a second after the last sign of life.
pub async fn sentinel(
    directory: &Path,
    name: &str,
    master: SocketAddr,
) -> Result<Server, ServerError> {
    let program = program("redis-server", &[]).ok_or(ServerError::Missing(MISSING))?;
    make_directory(directory)?;
    let [address] = ports::free::<1>()?;
    let file = directory.join("sentinel.conf");
    // The sentinel rewrites its configuration.
    let text = format!(
        "port {}\nbind 127.0.0.1\nsentinel monitor {name} {} {} 1\nsentinel down-after-milliseconds {name} 500\n",
        address.port(),
        master.ip(),
        master.port()
    );
    std::fs::write(&file, text).map_err(system_error(format!("write {}", file.display())))?;
    let command = ServerCommand {
        name: "redis-sentinel",
        program,
        arguments: vec![file.into_os_string(), "--sentinel".into()],
        directory: directory.to_owned(),
        address,
        user: None,
        lifetime: Lifetime::WithParent,
        stop: Signal::SIGKILL,
    };
    let mut server = command.start()?;
    wait_ready(from_mut(&mut server), &READY).await?;
    Ok(server)
}
