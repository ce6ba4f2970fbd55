//! A child process that cannot outlive this one.
//!
//! Owns one rule: a small shell stands between, holds the read end of a pipe, and stops the child when the pipe
//! closes, which the kernel does whether we return, panic or are killed. Refuses to know what the child does.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::unistd::{Gid, Uid};

/// `$0` is the signal, `$@` the program. A background job ignores SIGINT until it handles it, so the signal is
/// repeated until the child is gone. A child that ends by itself ends the watch and the shell.
const WATCH: &str = r#"
exec 3<&0
"$@" </dev/null 3<&- &
child=$!
( read -r _ <&3; while kill -s "$0" "$child"; do sleep 0.1; done ) >/dev/null 2>&1 &
watch=$!
exec >/dev/null
wait "$child"
kill "$watch" 2>/dev/null
"#;

/// How long a stopped child may take before it is killed.
const STOP_DEADLINE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Holds a running child; dropping it stops the child and waits for its end.
pub(crate) struct Leash {
    shell: Child,
}

impl Leash {
    /// Starts `program` in its own process group, so that a terminal's ^C reaches us first. It will be stopped
    /// with `signal` (`INT`, `TERM`). With `stdout`, its output goes there; else it is dropped.
    pub(crate) fn spawn(
        program: &str,
        arguments: &[OsString],
        signal: &str,
        user: Option<(Uid, Gid)>,
        stdout: Option<Stdio>,
    ) -> std::io::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", WATCH, signal, program]).args(arguments);
        command.stdin(Stdio::piped()).stdout(stdout.unwrap_or_else(Stdio::null));
        command.process_group(0);
        if let Some((uid, gid)) = user {
            command.uid(uid.as_raw()).gid(gid.as_raw()).current_dir("/");
        }
        Ok(Self { shell: command.spawn()? })
    }

    /// The child's output, if it was asked for as a pipe; once.
    pub(crate) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.shell.stdout.take()
    }

    /// True when the child has ended by itself.
    pub(crate) fn ended(&mut self) -> bool {
        !matches!(self.shell.try_wait(), Ok(None))
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let deadline = Instant::now() + STOP_DEADLINE;
        while !self.ended() && Instant::now() < deadline {
            std::thread::sleep(LOOK_EVERY);
        }
        if !self.ended() {
            let group = nix::unistd::Pid::from_raw(-self.shell.id().cast_signed());
            let _ = nix::sys::signal::kill(group, nix::sys::signal::Signal::SIGKILL);
            drop(self.shell.wait());
        }
    }
}
