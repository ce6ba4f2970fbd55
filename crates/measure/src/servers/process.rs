//! One server process: its start, log, signals and end.
//!
//! A server with [`Lifetime::WithParent`] gets its stop signal from the kernel at the end of the thread that started
//! it (`setpriv --pdeathsig`). Not even a killed run leaves a server behind. A server can crash and restart with its
//! disk.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Gid, Pid, Uid};

use super::{ServerError, system_error};

const LOG: &str = "log";
/// The prefix of holdfast's configuration variables, which servers do not inherit.
const INHERITED_NOT: &str = "HOLDFAST_";
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
const STOP_STEP: Duration = Duration::from_millis(5);
const TAIL_LINES: usize = 15;

/// The lifetime of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// The server ends with the process that started it.
    WithParent,
    /// The server ends through a signal; [`Server::leave`] keeps it running.
    Detached,
}

/// The command that starts a server, initially and after a crash.
#[derive(Debug)]
pub(super) struct ServerCommand {
    pub(super) name: &'static str,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) directory: PathBuf,
    pub(super) address: SocketAddr,
    pub(super) user: Option<(Uid, Gid)>,
    pub(super) lifetime: Lifetime,
    /// The signal that ends the server at once; not SIGKILL if that would leak resources.
    pub(super) stop: Signal,
}

impl ServerCommand {
    /// Starts the server without waiting until it is ready. The output goes to the file `log` in its directory.
    pub(super) fn start(self) -> Result<Server, ServerError> {
        let child = self.spawn(&[])?;
        Ok(Server { pid: child.id(), child: Some(child), command: self })
    }

    fn spawn(&self, variables: &[(String, String)]) -> Result<Child, ServerError> {
        let path = self.directory.join(LOG);
        let log = OpenOptions::new().create(true).append(true).open(&path);
        let log = log.map_err(system_error(format!("open {}", path.display())))?;
        let errors = log.try_clone().map_err(system_error("a second handle of a log"))?;
        let mut command = match self.lifetime {
            Lifetime::Detached => Command::new(&self.program),
            Lifetime::WithParent => tied_to_parent(&self.program, self.stop),
        };
        command.args(&self.arguments).current_dir(&self.directory).process_group(0);
        command.stdin(Stdio::null()).stdout(log).stderr(errors).env("LC_ALL", "C.UTF-8");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with(INHERITED_NOT) {
                command.env_remove(name);
            }
        }
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        if let Some((uid, gid)) = self.user {
            command.uid(uid.as_raw()).gid(gid.as_raw());
        }
        let failed = system_error(format!("start {}", self.program.display()));
        command.spawn().map_err(failed)
    }
}

/// Creates a command whose process gets `signal` from the kernel at the end of the calling thread.
pub(crate) fn tied_to_parent(program: &Path, signal: Signal) -> Command {
    let mut command = Command::new("setpriv");
    let signal = signal.as_str().trim_start_matches("SIG");
    command.args(["--pdeathsig", signal, "--"]).arg(program);
    command
}

/// A started server. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    command: ServerCommand,
    /// `None` after a crash and after [`Server::leave`].
    child: Option<Child>,
    pid: u32,
}

impl Server {
    pub fn name(&self) -> &str {
        self.command.name
    }

    /// Returns the address for clients.
    pub fn address(&self) -> SocketAddr {
        self.command.address
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn directory(&self) -> &Path {
        &self.command.directory
    }

    pub fn signal(&self, signal: Signal) -> Result<(), ServerError> {
        signal_to(self.pid, signal).map_err(system_error(format!("{signal} to {}", self.name())))
    }

    /// Keeps the server running.
    pub fn leave(mut self) {
        self.child = None;
    }

    /// Sends SIGKILL to all processes of the server and waits for their end. Its files stay.
    pub fn crash(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        for process in process_tree(self.pid) {
            // The process may have ended by itself.
            drop(signal_to(process, Signal::SIGKILL));
        }
        drop(child.wait());
    }

    /// Crashes the server and restarts it, with additional environment variables. Does not wait until it is ready.
    pub fn restart(&mut self, variables: &[(String, String)]) -> Result<(), ServerError> {
        self.crash();
        let child = self.command.spawn(variables)?;
        self.pid = child.id();
        self.child = Some(child);
        Ok(())
    }

    /// Returns `true` if the server has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        let Some(child) = &mut self.child else { return false };
        child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Returns the last lines of the server's log.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let from = lines.len().saturating_sub(TAIL_LINES);
        lines.get(from..).unwrap_or_default().join("\n")
    }

    pub(super) fn log(&self) -> String {
        let bytes = std::fs::read(self.directory().join(LOG)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // The server may have ended by itself.
        drop(signal_to(self.pid, self.command.stop));
        let deadline = Instant::now() + STOP_TIMEOUT;
        while self.command.stop != Signal::SIGKILL && matches!(child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                // A stopped process reacts only to SIGKILL.
                drop(child.kill());
                break;
            }
            std::thread::sleep(STOP_STEP);
        }
        drop(child.wait());
    }
}

/// Returns a process and all its descendants, the process first.
pub(super) fn process_tree(pid: u32) -> Vec<u32> {
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

/// Returns the fields of `/proc/<pid>/stat` after the name: state, parent, … (`man 5 proc`); `None` for a zombie.
pub(super) fn process_stat(pid: u32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<String> = stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect();
    (fields.first()? != "Z").then_some(fields)
}

pub(super) fn signal_to(pid: u32, signal: Signal) -> std::io::Result<()> {
    let pid = i32::try_from(pid).map_err(std::io::Error::other)?;
    Ok(kill(Pid::from_raw(pid), signal)?)
}
