//! The servers that `up` has left running: a file that lists them, and their shutdown.
//!
//! A process is identified by its id and its start time, so that a reused id is not stopped.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::process::{process_stat, signal_to};
use super::{Server, ServerError, ServerKind, system_error};
use crate::wait::poll_until;

const FILE: &str = "servers.json";
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
const STOP_STEP: Duration = Duration::from_millis(50);

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningServer {
    pub kind: String,
    pub version: String,
    pub durability: String,
    pub address: SocketAddr,
    pub pid: u32,
    /// The start time of the process, in the kernel's ticks since the start of the machine.
    pub started: u64,
    pub directory: PathBuf,
}

impl RunningServer {
    /// # Errors
    /// [`ServerError::System`] if the process has ended.
    pub fn of(kind: ServerKind, server: &Server) -> Result<Self, ServerError> {
        let ended = || std::io::Error::other("its process has ended");
        let started = started(server.pid()).ok_or_else(ended);
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

    pub fn runs(&self) -> bool {
        started(self.pid) == Some(self.started)
    }

    /// Sends SIGTERM, and SIGKILL if the process does not end in time.
    ///
    /// # Errors
    /// [`ServerError::System`] if another user runs the process.
    pub async fn stop(&self) -> Result<(), ServerError> {
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            if self.runs() {
                let action = format!("{signal} to {} ({})", self.kind, self.pid);
                match signal_to(self.pid, signal) {
                    Err(_) if !self.runs() => {}
                    sent => sent.map_err(system_error(action))?,
                }
            }
            poll_until(STOP_TIMEOUT, STOP_STEP, async || !self.runs()).await;
        }
        Ok(())
    }
}

fn started(pid: u32) -> Option<u64> {
    process_stat(pid)?.get(19)?.parse().ok()
}

/// All servers of one directory, in the order of their start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningServers {
    pub servers: Vec<RunningServer>,
}

impl RunningServers {
    /// Reads the file; empty if it does not exist.
    pub fn read(directory: &Path) -> Result<Self, ServerError> {
        let file = directory.join(FILE);
        let failed = || system_error(format!("read {}", file.display()));
        match std::fs::read(&file) {
            Ok(bytes) => {
                let read = serde_json::from_slice(&bytes).map_err(std::io::Error::other);
                read.map_err(failed())
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(failed()(error)),
        }
    }

    pub fn write(&self, directory: &Path) -> Result<(), ServerError> {
        let file = directory.join(FILE);
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::other);
        let written = text.and_then(|text| std::fs::write(&file, text));
        written.map_err(system_error(format!("write {}", file.display())))
    }

    /// Stops every server and removes their files, and the directory if it is then empty.
    ///
    /// # Errors
    /// [`ServerError::System`]; a server that does not stop stays listed.
    pub async fn down(directory: &Path) -> Result<Self, ServerError> {
        let running = Self::read(directory)?;
        for server in &running.servers {
            server.stop().await?;
        }
        for server in &running.servers {
            remove(&directory.join(&server.kind))?;
        }
        let file = directory.join(FILE);
        if file.is_file() {
            let failed = system_error(format!("remove {}", file.display()));
            std::fs::remove_file(&file).map_err(failed)?;
        }
        // The directory may have other files.
        drop(std::fs::remove_dir(directory));
        Ok(running)
    }

    /// Removes a kind whose processes have all ended, with its files.
    pub fn forget(&mut self, kind: ServerKind, directory: &Path) -> Result<(), ServerError> {
        let before = self.servers.len();
        self.servers.retain(|server| server.kind != kind.name());
        if self.servers.len() < before { remove(&directory.join(kind.name())) } else { Ok(()) }
    }
}

fn remove(home: &Path) -> Result<(), ServerError> {
    if !home.is_dir() {
        return Ok(());
    }
    std::fs::remove_dir_all(home).map_err(system_error(format!("remove {}", home.display())))
}
