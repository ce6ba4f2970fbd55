//! A child process that cannot outlive this process.
//!
//! A shell between the two processes holds the read end of a pipe. The kernel closes the pipe when this process
//! returns, panics or is killed, and the shell then stops the child.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Gid, Pid, Uid};

/// `$0` is the signal, `$@` the program. A background job ignores SIGINT until it handles it, so the signal is
/// repeated until the child is gone. A child that ends by itself ends the watch and the shell.
const WATCH: &str = r#"
exec 3<&0
"$@" </dev/null 3<&- &
child=$!
( read -r _ <&3; trap "" TERM; while kill -s "$0" "$child"; do sleep 0.05; done ) >/dev/null 2>&1 &
watch=$!
exec >/dev/null 2>&1
wait "$child"
kill "$watch"
wait "$watch"
"#;

/// The time after which a stopped child is killed; longer than the time that `holdfast dev` gives its nodes.
const STOP_DEADLINE: Duration = Duration::from_secs(20);

/// A running child. Dropping this value stops the child and waits for its end.
pub(crate) struct ChildProcess {
    group: Pid,
    pipe: Option<ChildStdin>,
    /// Disconnected by the thread that waits for the shell, when the shell has ended.
    end: Receiver<()>,
    has_ended: bool,
}

impl ChildProcess {
    /// Starts `program` in its own process group, so that a terminal's Ctrl-C does not reach it. `signal` (`INT`,
    /// `TERM`) stops it. Also returns the read end of `stdout` if that is a pipe.
    pub(crate) fn spawn(
        program: &str,
        arguments: &[OsString],
        signal: &str,
        user: Option<(Uid, Gid)>,
        stdout: Stdio,
    ) -> std::io::Result<(Self, Option<ChildStdout>)> {
        let mut command = Command::new("sh");
        command.args(["-c", WATCH, signal, program]).args(arguments);
        command.stdin(Stdio::piped()).stdout(stdout).process_group(0);
        if let Some((uid, gid)) = user {
            command.uid(uid.as_raw()).gid(gid.as_raw()).current_dir("/");
        }
        let mut shell = command.spawn()?;
        let (pipe, output) = (shell.stdin.take(), shell.stdout.take());
        let group = Pid::from_raw(shell.id().cast_signed());
        let (ended, end) = mpsc::channel();
        std::thread::spawn(move || {
            drop(shell.wait());
            drop(ended);
        });
        Ok((Self { group, pipe, end, has_ended: false }, output))
    }

    /// Whether the child has ended by itself.
    pub(crate) fn ended(&mut self) -> bool {
        self.has_ended |= self.end.try_recv() == Err(TryRecvError::Disconnected);
        self.has_ended
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        drop(self.pipe.take());
        if self.end.recv_timeout(STOP_DEADLINE) == Err(RecvTimeoutError::Timeout) {
            let _ = killpg(self.group, Signal::SIGKILL);
            let _ = self.end.recv();
        }
    }
}
