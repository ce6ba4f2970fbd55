//! One server process: its start, log, signals and end.
//!
//! A server with [`Lifetime::WithParent`] gets its stop signal from the kernel when the thread that started it ends
//! (`setpriv --pdeathsig`), so that not even a killed run leaves a server behind. A server can be crashed and restarted
//! with its disk.

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
/// Variables that holdfast reads its configuration from; servers do not inherit them.
const INHERITED_NOT: &str = "HOLDFAST_";
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
const STOP_STEP: Duration = Duration::from_millis(5);
const TAIL_LINES: usize = 15;

/// When a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// With the process that started it.
    WithParent,
    /// By a signal; [`Server::leave`] leaves it running.
    Detached,
}

/// What starts a server, the first time and after a crash.
#[derive(Debug)]
pub(super) struct ServerCommand {
    pub(super) name: &'static str,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) directory: PathBuf,
    pub(super) address: SocketAddr,
    pub(super) user: Option<(Uid, Gid)>,
    pub(super) lifetime: Lifetime,
    /// Ends the server at once; not SIGKILL where that would leave resources behind.
    pub(super) stop: Signal,
}

impl ServerCommand {
    /// Does not wait until the server is ready. The output goes to a file `log` in its directory.
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

/// A command whose process gets `signal` from the kernel when the calling thread ends.
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

    /// Where it serves clients.
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

    /// Leaves it running.
    pub fn leave(mut self) {
        self.child = None;
    }

    /// SIGKILL to all its processes, whatever its kind; waits for the end. Its files stay.
    pub fn crash(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        for process in process_tree(self.pid) {
            // It may have ended by itself.
            drop(signal_to(process, Signal::SIGKILL));
        }
        drop(child.wait());
    }

    /// Crashes it and starts it again, with additional environment variables. Does not wait until it is ready.
    pub fn restart(&mut self, variables: &[(String, String)]) -> Result<(), ServerError> {
        self.crash();
        let child = self.command.spawn(variables)?;
        self.pid = child.id();
        self.child = Some(child);
        Ok(())
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        let Some(child) = &mut self.child else { return false };
        child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// The last lines of its log.
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
        // It may have ended by itself.
        drop(signal_to(self.pid, self.command.stop));
        let deadline = Instant::now() + STOP_TIMEOUT;
        while self.command.stop != Signal::SIGKILL && matches!(child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                // A stopped process reacts to SIGKILL alone.
                drop(child.kill());
                break;
            }
            std::thread::sleep(STOP_STEP);
        }
        drop(child.wait());
    }
}

/// A process and all its descendants, the process first.
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

/// The fields of `/proc/<pid>/stat` after the name: state, parent, … (`man 5 proc`); `None` for a zombie.
pub(super) fn process_stat(pid: u32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<String> = stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect();
    (fields.first()? != "Z").then_some(fields)
}

pub(super) fn signal_to(pid: u32, signal: Signal) -> std::io::Result<()> {
    let pid = i32::try_from(pid).map_err(std::io::Error::other)?;
    Ok(kill(Pid::from_raw(pid), signal)?)
}
