//! What was left running: a file that lists it, and the way to stop it.
//!
//! Owns the file `servers.json`. A process is known by its id and the moment of its start, so that another process that
//! has got the id meanwhile is left alone.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::process::signal_to;
use super::{Server, ServerError, system_error};

const FILE: &str = "servers.json";
const STOP: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(50);

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningServer {
    /// The name of its kind.
    pub kind: String,
    /// What its program said.
    pub version: String,
    /// How it keeps what it acknowledges.
    pub durability: String,
    /// Where it serves.
    pub address: SocketAddr,
    /// Its process.
    pub pid: u32,
    /// When that started, in the kernel's ticks since the machine did.
    pub started: u64,
    /// Its files.
    pub directory: PathBuf,
}

impl RunningServer {
    /// Of a server that runs.
    ///
    /// # Errors
    /// [`ServerError::System`] if its process is not there.
    pub fn of(kind: super::ServerKind, server: &Server) -> Result<Self, ServerError> {
        let gone = || std::io::Error::other("its process has ended");
        let started = started(server.pid()).ok_or_else(gone);
        Ok(Self {
            kind: kind.name().to_owned(),
            version: kind.version(),
            durability: kind.durability().to_owned(),
            address: server.address(),
            pid: server.pid(),
            started: started.map_err(system_error(server.name()))?,
            directory: server.directory().to_owned(),
        })
    }

    /// Whether it still runs.
    pub fn runs(&self) -> bool {
        started(self.pid) == Some(self.started)
    }

    /// Stops it: SIGTERM, and SIGKILL if it takes too long.
    ///
    /// # Errors
    /// [`ServerError::System`] if it is not ours to stop.
    pub async fn stop(&self) -> Result<(), ServerError> {
        let deadline = Instant::now() + STOP;
        if self.runs() {
            self.signal(Signal::SIGTERM)?;
        }
        while self.runs() {
            if Instant::now() > deadline {
                self.signal(Signal::SIGKILL)?;
            }
            tokio::time::sleep(STEP).await;
        }
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<(), ServerError> {
        let what = format!("{signal} to {} ({})", self.kind, self.pid);
        match signal_to(self.pid, signal) {
            Err(_) if !self.runs() => Ok(()),
            done => done.map_err(system_error(what)),
        }
    }
}

/// When a process was started; none if there is none, or if only its end is left of it.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    if state == "Z" { None } else { fields.nth(18)?.parse().ok() }
}

/// Everything in one directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningServers {
    /// In the order of their start.
    pub servers: Vec<RunningServer>,
}

impl RunningServers {
    /// Reads it; empty if there is none.
    ///
    /// # Errors
    /// [`ServerError::System`] if it cannot be read.
    pub fn read(directory: &Path) -> Result<Self, ServerError> {
        let file = directory.join(FILE);
        let failed = || format!("read {}", file.display());
        match std::fs::read(&file) {
            Ok(bytes) => {
                let read = serde_json::from_slice(&bytes).map_err(std::io::Error::other);
                read.map_err(system_error(failed()))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(system_error(failed())(error)),
        }
    }

    /// Writes it.
    ///
    /// # Errors
    /// [`ServerError::System`] if that fails.
    pub fn write(&self, directory: &Path) -> Result<(), ServerError> {
        let file = directory.join(FILE);
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::other);
        let written = text.and_then(|text| std::fs::write(&file, text));
        written.map_err(system_error(format!("write {}", file.display())))
    }

    /// Stops everything and removes its files; the directory too, if nothing else is in it.
    ///
    /// # Errors
    /// [`ServerError::System`]; what could not be stopped stays listed.
    pub async fn down(directory: &Path) -> Result<Self, ServerError> {
        let registry = Self::read(directory)?;
        for entry in &registry.servers {
            entry.stop().await?;
        }
        for entry in &registry.servers {
            let home = directory.join(&entry.kind);
            if entry.directory.starts_with(&home) && home.is_dir() {
                let failed = format!("remove {}", home.display());
                std::fs::remove_dir_all(&home).map_err(system_error(failed))?;
            }
        }
        let file = directory.join(FILE);
        if file.is_file() {
            std::fs::remove_file(&file)
                .map_err(system_error(format!("remove {}", file.display())))?;
        }
        // It may hold something else.
        drop(std::fs::remove_dir(directory));
        Ok(registry)
    }

    /// Removes a kind whose processes have all ended, with its files.
    ///
    /// # Errors
    /// [`ServerError::System`] if its files cannot be removed.
    pub fn forget(&mut self, kind: super::ServerKind, directory: &Path) -> Result<(), ServerError> {
        let before = self.servers.len();
        self.servers.retain(|entry| entry.kind != kind.name());
        let home = directory.join(kind.name());
        if self.servers.len() < before && home.is_dir() {
            let failed = format!("remove {}", home.display());
            std::fs::remove_dir_all(&home).map_err(system_error(failed))?;
        }
        Ok(())
    }

    /// Addresses of a kind's servers that are listed.
    pub fn addresses(&self, kind: super::ServerKind) -> Vec<SocketAddr> {
        let of_kind = self.servers.iter().filter(|entry| entry.kind == kind.name());
        of_kind.map(|entry| entry.address).collect()
    }
}
