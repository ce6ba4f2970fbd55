//! Real servers on free loopback ports, each in a separate directory.
//!
//! The tool installs no server: a missing one is [`Missing`], with its Debian package. Dropping a [`Server`] stops it.
//! Newer servers than Debian's take precedence if `HOLDFAST_NEWEST_SERVERS` has their directory.

pub mod clock;
pub mod command;
mod etcd;
mod given;
pub mod group;
mod holdfast;
mod leader;
mod mariadb;
mod newest;
mod ports;
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

pub use given::GivenRedis;
pub use group::{LazyGroup, ServerGroup};
pub use holdfast::{holdfast_program, zookeeper_addresses};
pub use leader::leader;
pub use newest::{NEWEST_SERVERS, has_newest_servers};
pub(crate) use process::tied_to_parent;
pub use process::{Lifetime, Server};
pub(crate) use ready::request_text;
pub use redis::{RedisServer, sentinel};
pub use registry::{RunningServer, RunningServers};

/// The reason for a failed start of a server.
#[derive(Debug, Error)]
pub enum ServerError {
    #[error("{0}")]
    Missing(Missing),
    /// The server does not start; `why` is the end of its log.
    #[error("{name} does not start: {why}")]
    NotReady { name: String, why: String },
    #[error("{action}: {error}")]
    System { action: String, error: std::io::Error },
}

/// A server that is not installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{system} is not installed; on Debian, as root: apt-get install {package}")]
pub struct Missing {
    pub system: &'static str,
    pub package: &'static str,
}

fn system_error(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> ServerError {
    let action = action.into();
    move |error| ServerError::System { action, error }
}

/// The durability of acknowledged data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// On the disk before the reply.
    Synced,
    /// In memory, and on the disk later or never.
    Unsynced,
}

/// A kind of server, or of a cluster of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerKind {
    /// Five independent servers: Redlock uses all of them, other locks the first.
    Redis,
    /// The same servers with `appendfsync always`.
    RedisSynced,
    Postgres,
    MariaDb,
    /// Three nodes.
    ZooKeeper,
    /// Three nodes.
    Etcd,
    /// Three nodes.
    Holdfast,
}

impl ServerKind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 7] = [
        Self::Holdfast,
        Self::Redis,
        Self::RedisSynced,
        Self::Postgres,
        Self::MariaDb,
        Self::ZooKeeper,
        Self::Etcd,
    ];

    /// Returns the name on command lines.
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

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Describes the durability, for the report.
    pub fn durability(self) -> &'static str {
        match self {
            Self::Redis => "appendonly no: in memory only",
            Self::RedisSynced => "appendfsync always: synced before the reply",
            Self::Postgres => "fsync on, synchronous_commit on (advisory locks live in memory)",
            Self::MariaDb => "innodb_flush_log_at_trx_commit 1 (GET_LOCK lives in memory)",
            Self::ZooKeeper => "forceSync yes, on a majority",
            Self::Etcd | Self::Holdfast => "synced, on a majority",
        }
    }

    /// Returns the reason why the servers cannot start on this machine.
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

    /// Returns the packages of the servers missing on this machine.
    pub fn packages_missing() -> Vec<&'static str> {
        Self::ALL
            .into_iter()
            .filter(|kind| *kind != Self::Holdfast)
            .filter_map(|kind| kind.missing().map(|missing| missing.package))
            .collect()
    }

    /// Returns the version text of the program.
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

    /// Starts the servers below `directory` and waits until all of them are ready.
    ///
    /// # Errors
    /// [`ServerError`]; `start` has stopped the started servers.
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
            Self::Redis => redis::five(&home, Durability::Unsynced, lifetime).await,
            Self::RedisSynced => redis::five(&home, Durability::Synced, lifetime).await,
            Self::Postgres => Ok(vec![postgres::start(&home, Durability::Synced, lifetime).await?]),
            Self::MariaDb => Ok(vec![mariadb::start(&home, Durability::Synced, lifetime).await?]),
            Self::ZooKeeper => zookeeper::three(&home, lifetime).await,
            Self::Etcd => etcd::three(&home, lifetime).await,
            Self::Holdfast => holdfast::cluster(&home, 3, lifetime).await,
        }
    }
}

pub async fn unsynced_postgres(directory: &Path) -> Result<Server, ServerError> {
    make_directory(directory)?;
    postgres::start(directory, Durability::Unsynced, Lifetime::WithParent).await
}

pub async fn unsynced_mariadb(directory: &Path) -> Result<Server, ServerError> {
    make_directory(directory)?;
    mariadb::start(directory, Durability::Unsynced, Lifetime::WithParent).await
}

/// Returns the URL of a server for its driver.
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

fn make_directory(path: &Path) -> Result<(), ServerError> {
    std::fs::create_dir_all(path).map_err(system_error(format!("mkdir {}", path.display())))
}

/// Runs a command that prepares a server's data.
fn prepare(name: &str, command: &mut std::process::Command) -> Result<(), ServerError> {
    let output = command.stdin(std::process::Stdio::null()).output();
    let output = output.map_err(system_error(format!("run {name}")))?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(ServerError::NotReady { name: name.to_owned(), why })
}

/// Finds a program in one of these directories or on the path.
fn program(name: &str, directories: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = directories.iter().map(PathBuf::from).chain(std::env::split_paths(&path));
    directories.map(|directory| directory.join(name)).find(|file| file.is_file())
}

/// Returns the first line of a program's output; empty if the program is missing.
fn version_of(program: Option<PathBuf>, arguments: &[&str]) -> String {
    let Some(program) = program else { return String::new() };
    let output = std::process::Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default().lines().next().unwrap_or("unknown").trim().to_owned()
}
