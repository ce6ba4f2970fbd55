//! Real servers of the clients, on free loopback ports and in directories of their own.
//!
//! Owns how each is started, when it serves, how it is stopped, and how durable it was set up to be. Refuses to install
//! anything: a server that is missing is [`Missing`], with the package that has it. A server is stopped when its value
//! is dropped, and by the kernel when this process dies before that; [`Server::leave`] lets it run on.

pub mod clock;
pub mod command;
mod etcd;
pub mod group;
mod holdfast;
mod leader;
mod mariadb;
mod port;
mod postgres;
mod process;
mod ready;
mod redis;
mod registry;
pub mod relay;
mod zookeeper;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use leader::leader;
pub use process::{Lifetime, Server};
pub use ready::ask;
pub use redis::Redis;
pub use registry::{RunningServer, RunningServers};

/// What keeps a server from starting.
#[derive(Debug, Error)]
pub enum ServerError {
    /// It is not installed.
    #[error("{0}")]
    Missing(Missing),
    /// It ended, or did not serve in time; with the end of its log.
    #[error("{name} does not serve: {why}")]
    Broken {
        /// Which.
        name: String,
        /// Why, as far as its log says.
        why: String,
    },
    /// The system refused something.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: String,
        /// Its answer.
        error: std::io::Error,
    },
}

/// A server that is not installed, and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{system} is not installed; on Debian, as root: apt-get install {package}")]
pub struct Missing {
    /// Its name.
    pub system: &'static str,
    /// Debian's packages.
    pub package: &'static str,
}

pub(crate) fn system_error(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> ServerError {
    let what = what.into();
    move |error| ServerError::System { what, error }
}

/// How a server keeps what it acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// On its disk before it answers.
    Synced,
    /// In memory, and on the disk some time later or never.
    Unsynced,
}

/// A kind of server, or a cluster of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerKind {
    /// Five independent servers, as `RedLock` wants them, and the first of them alone.
    Redis,
    /// The same with `appendfsync always`.
    RedisSynced,
    /// One server.
    Postgres,
    /// One server.
    MariaDb,
    /// Three nodes.
    ZooKeeper,
    /// Three nodes.
    Etcd,
    /// Three nodes of ours.
    Holdfast,
}

impl ServerKind {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 7] = [
        Self::Holdfast,
        Self::Redis,
        Self::RedisSynced,
        Self::Postgres,
        Self::MariaDb,
        Self::ZooKeeper,
        Self::Etcd,
    ];

    /// Its name on command lines and in rosters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::RedisSynced => "redis-always",
            Self::Postgres => "postgres",
            Self::MariaDb => "mariadb",
            Self::ZooKeeper => "zookeeper",
            Self::Etcd => "etcd",
            Self::Holdfast => "holdfast",
        }
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// How it is set up to keep what it acknowledges, for a report.
    pub fn durability(self) -> &'static str {
        match self {
            Self::Redis => "appendonly no: memory alone",
            Self::RedisSynced => "appendfsync always: synced before the answer",
            Self::Postgres => "fsync on, synchronous_commit on (advisory locks live in memory)",
            Self::MariaDb => "innodb_flush_log_at_trx_commit 1 (GET_LOCK lives in memory)",
            Self::ZooKeeper => "forceSync yes, on a majority",
            Self::Etcd | Self::Holdfast => "synced, on a majority",
        }
    }

    /// Why it cannot be started on this machine, if so.
    pub fn missing(self) -> Option<Missing> {
        match self {
            Self::Redis | Self::RedisSynced => redis::missing(),
            Self::Postgres => postgres::missing(),
            Self::MariaDb => mariadb::missing(),
            Self::ZooKeeper => zookeeper::missing(),
            Self::Etcd => etcd::missing(),
            Self::Holdfast => holdfast::missing(),
        }
    }

    /// The packages that have what is missing on this machine.
    pub fn packages_missing() -> Vec<&'static str> {
        Self::ALL
            .into_iter()
            .filter(|kind| *kind != Self::Holdfast)
            .filter_map(|kind| kind.missing().map(|missing| missing.package))
            .collect()
    }

    /// What the program says about its version.
    pub fn version(self) -> String {
        match self {
            Self::Redis | Self::RedisSynced => redis::version(),
            Self::Postgres => postgres::version(),
            Self::MariaDb => mariadb::version(),
            Self::ZooKeeper => zookeeper::version(),
            Self::Etcd => etcd::version(),
            Self::Holdfast => holdfast::version(),
        }
    }

    /// Starts its servers below `directory`, and waits until all of them serve.
    ///
    /// # Errors
    /// [`ServerError`]; what was started is stopped again.
    pub async fn start(
        self,
        directory: &Path,
        lifetime: Lifetime,
    ) -> Result<Vec<Server>, ServerError> {
        if let Some(missing) = self.missing() {
            return Err(ServerError::Missing(missing));
        }
        let home = directory.join(self.name());
        make_directory(&home)?;
        match self {
            Self::Redis => redis::five(&home, Durable::Unsynced, lifetime).await,
            Self::RedisSynced => redis::five(&home, Durable::Synced, lifetime).await,
            Self::Postgres => Ok(vec![postgres::start(&home, Durable::Synced, lifetime).await?]),
            Self::MariaDb => Ok(vec![mariadb::start(&home, Durable::Synced, lifetime).await?]),
            Self::ZooKeeper => zookeeper::three(&home, lifetime).await,
            Self::Etcd => etcd::three(&home, lifetime).await,
            Self::Holdfast => holdfast::three(&home, lifetime).await,
        }
    }
}

/// One server of `kind` that need not keep anything, for tests of adapters.
///
/// # Errors
/// [`ServerError`].
pub async fn quick_postgres(directory: &Path) -> Result<Server, ServerError> {
    make_directory(directory)?;
    postgres::start(directory, Durable::Unsynced, Lifetime::WithParent).await
}

/// The same for `MariaDB`.
///
/// # Errors
/// [`ServerError`].
pub async fn quick_mariadb(directory: &Path) -> Result<Server, ServerError> {
    make_directory(directory)?;
    mariadb::start(directory, Durable::Unsynced, Lifetime::WithParent).await
}

/// The URL of a server for its driver.
pub fn url(kind: ServerKind, address: SocketAddr) -> String {
    match kind {
        ServerKind::Redis | ServerKind::RedisSynced => format!("redis://{address}"),
        ServerKind::Postgres => {
            format!("host={} port={} user=postgres dbname=postgres", address.ip(), address.port())
        }
        ServerKind::MariaDb => format!("mysql://root@{address}"),
        ServerKind::ZooKeeper => address.to_string(),
        ServerKind::Etcd | ServerKind::Holdfast => format!("http://{address}"),
    }
}

/// Where nodes of holdfast answer `ZooKeeper` clients.
///
/// # Errors
/// [`ServerError::System`] if their configuration cannot be read.
pub fn zookeeper_doors(holdfast: &[Server]) -> Result<Vec<SocketAddr>, ServerError> {
    holdfast::zookeeper_doors(holdfast)
}

fn make_directory(path: &Path) -> Result<(), ServerError> {
    std::fs::create_dir_all(path).map_err(system_error(format!("mkdir {}", path.display())))
}

/// A program of this name in one of these directories or on the path.
fn program(name: &str, directories: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = directories.iter().map(PathBuf::from);
    let mut addresses = named.chain(std::env::split_paths(&path)).map(|place| place.join(name));
    addresses.find(|place| place.is_file())
}

/// The first line of what a program says.
fn first_line(program: &Path, argument: &str) -> String {
    let said = std::process::Command::new(program).arg(argument).output();
    let said = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    said.unwrap_or_default().lines().next().unwrap_or("unknown").trim().to_owned()
}
