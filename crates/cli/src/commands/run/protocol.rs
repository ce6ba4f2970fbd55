//! The messages between `holdfast run` and its watchdog: one JSON document a line, through two pipes.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;

use holdfast_client::Moment;
use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};

/// A message of `run` to the watchdog.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WatchdogOrder {
    /// Start the command. `grace_ms` is the time from SIGTERM to SIGKILL after the death of `run`.
    Start { environment: CommandEnvironment, grace_ms: u64 },
    /// The call that releases a lock after the death of `run` and of all its descendants.
    Release { nodes: Vec<String>, target: String },
    /// Kill all descendants at this time, in milliseconds of [`Moment`].
    Until { ms: u64 },
}

/// A message of the watchdog to `run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WatchdogReport {
    /// The watchdog adopts orphans, and only SIGKILL can end it.
    Ready,
    Started {
        id: i32,
    },
    NotStarted {
        errno: i32,
    },
    /// The lease had ended before the order to start the command, so the watchdog did not start it.
    TooLate,
    /// A signal stopped the command until SIGCONT.
    Stopped {
        signal: i32,
    },
    /// The command ended; `status` is as of `wait(2)`.
    Ended {
        status: i32,
    },
    /// The launcher could not execute the command, and ended with the exit code of shells; `status` is as of `wait(2)`.
    NotExecuted {
        status: i32,
    },
    /// No descendant is left since this time, in milliseconds of [`Moment`].
    Gone {
        ms: u64,
    },
}

/// Changes of the environment for the command.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct CommandEnvironment {
    pub(super) removed: Vec<String>,
    pub(super) set: Vec<(String, String)>,
}

impl CommandEnvironment {
    pub(super) fn env_remove(&mut self, name: impl Into<String>) {
        self.removed.push(name.into());
    }

    pub(super) fn env(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.set.push((name.into(), value.into()));
    }
}

/// Opens a pipe that the parent left open for this process under this number, and closes the number, so that the
/// command does not inherit it.
pub(super) fn inherited(number: i32, is_written: bool) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(!is_written).write(is_written).custom_flags(OFlag::O_NONBLOCK.bits());
    let file = options.open(format!("/proc/self/fd/{number}"))?;
    nix::unistd::close(number)?;
    Ok(file)
}

/// Formats a message with its line end.
pub(super) fn line(message: &impl Serialize) -> Vec<u8> {
    // The messages have neither maps nor other values that JSON cannot express.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Parses a line; `None` for a message of another version.
pub(super) fn parse<T: for<'line> Deserialize<'line>>(line: &str) -> Option<T> {
    serde_json::from_str(line).ok()
}

pub(super) fn to_ms(moment: Moment) -> u64 {
    u64::try_from(moment.since_origin().as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn from_ms(ms: u64) -> Moment {
    Moment::from_origin(std::time::Duration::from_millis(ms))
}
