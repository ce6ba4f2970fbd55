//! Redis: one server, five that know nothing of each other, or one that follows another.
//!
//! Owns its settings: no snapshots; an append-only file only if it is to be synced.

use std::net::SocketAddr;
use std::path::Path;

use nix::sys::signal::Signal;

use super::process::{Launch, Lifetime, Server};
use super::ready::{Sign, serving};
use super::{Durable, Missing, ServerError, first_line, make_directory, port, program};

const MISSING: Missing = Missing { system: "Redis", package: "redis-server" };

pub(super) fn missing() -> Option<Missing> {
    program("redis-server", &[]).is_none().then_some(MISSING)
}

pub(super) fn version() -> String {
    program("redis-server", &[]).map_or_else(String::new, |redis| first_line(&redis, "--version"))
}

pub(super) async fn five(
    home: &Path,
    durable: Durable,
    lifetime: Lifetime,
) -> Result<Vec<Server>, ServerError> {
    let mut servers = Vec::new();
    for (at, address) in port::free::<5>()?.into_iter().enumerate() {
        let directory = home.join((at + 1).to_string());
        servers.push(Redis { address, durable, lifetime, follows: None }.start(&directory).await?);
    }
    Ok(servers)
}

/// One server to be started.
#[derive(Clone, Copy, Debug)]
pub struct Redis {
    /// Where it is to listen.
    pub address: SocketAddr,
    /// How it keeps what it is told.
    pub durable: Durable,
    /// Whether it ends with us.
    pub lifetime: Lifetime,
    /// Of which server it is a copy.
    pub follows: Option<SocketAddr>,
}

impl Redis {
    /// A server on a free port, in memory, that ends with us.
    ///
    /// # Errors
    /// [`ServerError::System`] if there is no free port.
    pub fn quick() -> Result<Self, ServerError> {
        let [address] = port::free::<1>()?;
        Ok(Self {
            address,
            durable: Durable::Unsynced,
            lifetime: Lifetime::WithParent,
            follows: None,
        })
    }

    /// Starts it in this directory.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn start(self, directory: &Path) -> Result<Server, ServerError> {
        let program = program("redis-server", &[]).ok_or(ServerError::Missing(MISSING))?;
        make_directory(directory)?;
        let port = self.address.port().to_string();
        let append = if self.durable == Durable::Synced { "yes" } else { "no" };
        let mut arguments = vec!["--port", &port, "--bind", "127.0.0.1", "--save", ""];
        arguments.extend(["--appendonly", append, "--appendfsync", "always"]);
        // A copy that is started here need not wait for others to come.
        arguments.extend(["--repl-diskless-sync-delay", "0"]);
        let leader =
            self.follows.map(|leader| (leader.ip().to_string(), leader.port().to_string()));
        if let Some((host, port)) = &leader {
            arguments.extend(["--replicaof", host, port]);
        }
        let launch = Launch {
            name: "redis-server",
            program: &program,
            arguments: arguments.into_iter().map(Into::into).collect(),
            directory,
            address: self.address,
            user: None,
            lifetime: self.lifetime,
            stop: Signal::SIGKILL,
        };
        let mut server = launch.start()?;
        serving(&mut server, &Sign::Word("PING\r\n", "+PONG")).await?;
        Ok(server)
    }
}
