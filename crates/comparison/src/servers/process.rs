//! One running server process: its log, its signals, its end.
//!
//! Owns the child. On a lifetime it gets its signal to stop from the kernel when the thread that started it ends (`setpriv
//! --pdeathsig`), so that no test leaves a server behind, not even one that is killed. It can be made to crash and be
//! started again in its place, with what it had on its disk.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Gid, Pid, Uid};

use super::{ServerError, system_error};

const LOG: &str = "log";
/// What our own program reads its configuration from.
const OURS: &str = "HOLDFAST_";
const STOP: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(5);
const TAIL_LINES: usize = 15;

/// Whether a server ends with this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// However this process ends.
    WithParent,
    /// It may be left running by [`Server::leave`].
    Detached,
}

/// What is to be started.
#[derive(Debug)]
pub(super) struct Launch<'a> {
    pub(super) name: &'a str,
    pub(super) program: &'a Path,
    pub(super) arguments: Vec<OsString>,
    pub(super) directory: &'a Path,
    pub(super) address: SocketAddr,
    pub(super) user: Option<(Uid, Gid)>,
    pub(super) lifetime: Lifetime,
    /// What ends it at once, and lets it clean up what would stay behind otherwise.
    pub(super) stop: Signal,
}

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    name: String,
    child: Option<Child>,
    pid: u32,
    address: SocketAddr,
    directory: PathBuf,
    stop: Signal,
    again: Again,
}

/// What it takes to start it in its directory, the first time as later.
#[derive(Debug)]
struct Again {
    program: PathBuf,
    arguments: Vec<OsString>,
    user: Option<(Uid, Gid)>,
    lifetime: Lifetime,
}

impl Launch<'_> {
    /// Starts it; its output goes to a file `log` in its directory.
    pub(super) fn start(self) -> Result<Server, ServerError> {
        let again = Again {
            program: self.program.to_owned(),
            arguments: self.arguments,
            user: self.user,
            lifetime: self.lifetime,
        };
        let child = again.spawn(self.directory, self.stop, &[])?;
        Ok(Server {
            name: self.name.to_owned(),
            pid: child.id(),
            stop: self.stop,
            child: Some(child),
            address: self.address,
            directory: self.directory.to_owned(),
            again,
        })
    }
}

impl Again {
    fn spawn(
        &self,
        directory: &Path,
        stop: Signal,
        variables: &[(String, String)],
    ) -> Result<Child, ServerError> {
        let log = append_to(&directory.join(LOG))?;
        let errors = log.try_clone().map_err(system_error("a second handle of a log"))?;
        let mut command = match self.lifetime {
            Lifetime::Detached => Command::new(&self.program),
            Lifetime::WithParent => {
                let mut command = Command::new("setpriv");
                let signal = stop.as_str().trim_start_matches("SIG");
                command.args(["--pdeathsig", signal, "--"]).arg(&self.program);
                command
            }
        };
        command.args(&self.arguments).current_dir(directory).process_group(0);
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        // What a server is told, it is told here.
        command.env("LC_ALL", "C.UTF-8");
        let ours = std::env::vars_os().map(|(name, _)| name);
        for name in ours.filter(|name| name.to_string_lossy().starts_with(OURS)) {
            command.env_remove(name);
        }
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        if let Some((uid, gid)) = self.user {
            command.uid(uid.as_raw()).gid(gid.as_raw());
        }
        let child = command.spawn();
        child.map_err(system_error(format!("start {}", self.program.display())))
    }
}

impl Server {
    /// What it is called in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it serves clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Where it keeps its files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// What the system says.
    pub fn signal(&self, signal: Signal) -> Result<(), ServerError> {
        signal_to(self.pid, signal).map_err(system_error(format!("{signal} to {}", self.name)))
    }

    /// Lets it run on.
    pub fn leave(mut self) {
        self.child = None;
    }

    /// Stops it at once, without a chance to finish anything, and waits for the end.
    pub fn kill(mut self) {
        self.end();
    }

    /// Kills it with all its processes by SIGKILL, whatever its kind, and waits for the end. Its files stay.
    pub fn crash(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // Who ends by itself meanwhile need not be killed.
        for process in tree(self.pid) {
            drop(signal_to(process, Signal::SIGKILL));
        }
        drop(child.wait());
    }

    /// Starts it again in its place, crashing it before if it runs, with these variables of the environment besides.
    /// Does not wait until it serves.
    ///
    /// # Errors
    /// [`ServerError::System`] if it cannot be started.
    pub fn restart(&mut self, variables: &[(String, String)]) -> Result<(), ServerError> {
        self.crash();
        let child = self.again.spawn(&self.directory, self.stop, variables)?;
        self.pid = child.id();
        self.child = Some(child);
        Ok(())
    }

    /// Whether it has ended by itself.
    pub fn ended(&mut self) -> bool {
        let Some(child) = &mut self.child else { return false };
        child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// The end of its log.
    pub fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let from = lines.len().saturating_sub(TAIL_LINES);
        lines.get(from..).unwrap_or_default().join("\n")
    }

    /// Its whole log.
    pub(super) fn log(&self) -> String {
        let bytes = std::fs::read(self.directory.join(LOG)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            drop(signal_to(self.pid, self.stop));
            // A process that stands still hears SIGKILL alone.
            if self.stop != Signal::SIGKILL && !ends(&mut child) {
                drop(child.kill());
            }
            drop(child.wait());
        }
    }
}

/// Whether it ends within [`STOP`].
fn ends(child: &mut Child) -> bool {
    let deadline = Instant::now() + STOP;
    while Instant::now() < deadline {
        if !matches!(child.try_wait(), Ok(None)) {
            return true;
        }
        std::thread::sleep(STEP);
    }
    false
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// A process and all below it, the process first.
fn tree(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten();
        for task in tasks.flatten() {
            let children = std::fs::read_to_string(task.path().join("children"));
            let children = children.unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
        at += 1;
    }
    found
}

/// Sends a signal to a process.
pub(super) fn signal_to(pid: u32, signal: Signal) -> std::io::Result<()> {
    let pid = i32::try_from(pid).map_err(std::io::Error::other)?;
    Ok(kill(Pid::from_raw(pid), signal)?)
}

fn append_to(path: &Path) -> Result<File, ServerError> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.map_err(system_error(format!("open {}", path.display())))
}
