//! A child process whose output is read line by line. Dropping it kills the process.
//!
//! Bounds: one thread per stream reads into an unbounded queue, because test programs print little. Every wait has a
//! deadline. When the test panics, the unread lines of standard error are printed.

use std::io::{BufRead, BufReader, Read, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::task::Poll;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::sync::mpsc::{UnboundedReceiver, error::TryRecvError, unbounded_channel};

use crate::process;
use crate::until::{LONG_DEADLINE, eventually, report};

/// Deadline for the remaining output of a program that has exited.
const DRAIN_DEADLINE: Duration = Duration::from_secs(1);

/// The exit code and unread output of a program.
#[derive(Debug)]
pub struct End {
    /// Exit code; `None` if a signal ended the program.
    pub code: Option<i32>,
    /// Unread lines of standard output.
    pub stdout: String,
    /// Unread lines of standard error.
    pub stderr: String,
}

impl End {
    /// Asserts the exit code.
    #[track_caller]
    #[expect(clippy::return_self_not_must_use, reason = "the assertion may be all that is wanted")]
    pub fn assert_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        self
    }

    /// Asserts that standard error contains each of these texts.
    #[track_caller]
    pub fn assert_stderr_contains<const N: usize>(&self, texts: [&str; N]) {
        for text in texts {
            assert!(self.stderr.contains(text), "expected {text:?} in {}", self.stderr);
        }
    }
}

/// A running program.
#[derive(Debug)]
pub struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines,
    stderr: Lines,
}

impl Program {
    /// Starts the command with empty standard input.
    pub fn start(command: Command) -> Self {
        Self::start_with(command, Stdio::null())
    }

    /// Starts the command; [`Self::write_line`] writes to its standard input.
    pub fn start_with_input(command: Command) -> Self {
        Self::start_with(command, Stdio::piped())
    }

    fn start_with(mut command: Command, stdin: Stdio) -> Self {
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let stdout = Lines::of(child.stdout.take().expect("its stdout"));
        let stderr = Lines::of(child.stderr.take().expect("its stderr"));
        Self { stdin: child.stdin.take(), child, stdout, stderr }
    }

    /// Writes a line to standard input.
    pub fn write_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("a program with input");
        writeln!(stdin, "{line}").expect("the program reads its input");
    }

    /// Closes standard input.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// The next line of standard output.
    pub fn next_stdout_line(&mut self) -> String {
        let line = self.stdout.next();
        line.unwrap_or_else(|| panic!("no line on stdout: {:?}", self.rest()))
    }

    /// The next line of standard error.
    pub fn next_stderr_line(&mut self) -> String {
        self.stderr.next().expect("a line on stderr")
    }

    /// The next line of standard output; `None` at its end.
    pub async fn line(&mut self) -> Option<String> {
        let line = tokio::time::timeout(LONG_DEADLINE, self.stdout.0.recv()).await;
        line.expect("a line in time")
    }

    /// Sends SIGINT.
    pub fn interrupt(&self) {
        self.signal(Signal::SIGINT);
    }

    /// Sends SIGINT to the process group that the program leads, as Ctrl-C in a terminal does.
    pub fn interrupt_group(&self) {
        let group = i32::try_from(self.child.id()).expect("a pid fits");
        killpg(Pid::from_raw(group), Signal::SIGINT).expect("the program leads a process group");
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends any signal.
    pub fn signal(&self, signal: Signal) {
        process::send(self.child.id(), signal);
    }

    /// Sends SIGKILL and reaps the process.
    pub fn kill(&mut self) {
        self.child.kill().expect("the program is ours");
        self.child.wait().expect("it can be waited for");
    }

    /// The exit status, if the program has exited.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it can be waited for")
    }

    /// Waits for the end of standard output, then for the exit.
    pub async fn end(&mut self) -> ExitStatus {
        while self.line().await.is_some() {}
        self.child.wait().expect("it can be waited for")
    }

    /// Waits up to [`LONG_DEADLINE`] for the exit and reads the remaining output.
    pub fn wait(&mut self) -> End {
        self.wait_for(LONG_DEADLINE)
    }

    /// Waits up to `deadline` for the exit and reads the remaining output.
    pub fn wait_for(&mut self, deadline: Duration) -> End {
        let end = Instant::now() + deadline;
        let mut status = None;
        eventually("the end of the program", || {
            status = self.ended();
            status.is_some() || Instant::now() >= end
        });
        let Some(status) = status else {
            self.kill();
            panic!("still running after {deadline:?}: {:?}", self.rest());
        };
        End { code: status.code(), ..self.rest() }
    }

    fn rest(&mut self) -> End {
        End { code: None, stdout: self.stdout.rest(), stderr: self.stderr.rest() }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // `kill` fails if the program has already exited.
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            report(&self.stderr.rest());
        }
    }
}

/// The lines of an output stream, read by a thread.
#[derive(Debug)]
struct Lines(UnboundedReceiver<String>);

impl Lines {
    fn of(stream: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = unbounded_channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
            lines.all(|line| sender.send(line).is_ok())
        });
        Self(receiver)
    }

    /// Returns the next line, `None` at the end of the stream, or `Pending` if neither has arrived.
    fn poll(&mut self) -> Poll<Option<String>> {
        match self.0.try_recv() {
            Ok(line) => Poll::Ready(Some(line)),
            Err(TryRecvError::Disconnected) => Poll::Ready(None),
            Err(TryRecvError::Empty) => Poll::Pending,
        }
    }

    /// Waits for the next line; `None` at the end.
    fn next(&mut self) -> Option<String> {
        let mut next = Poll::Pending;
        eventually("a line", || {
            next = self.poll();
            next.is_ready()
        });
        match next {
            Poll::Ready(line) => line,
            Poll::Pending => None,
        }
    }

    /// Reads to the end of the stream, or until [`DRAIN_DEADLINE`] if another process keeps the stream open.
    fn rest(&mut self) -> String {
        let (end, mut all) = (Instant::now() + DRAIN_DEADLINE, String::new());
        eventually("the rest of the output", || {
            let mut next = self.poll();
            while let Poll::Ready(Some(line)) = next {
                all.extend([line.as_str(), "\n"]);
                next = self.poll();
            }
            next.is_ready() || Instant::now() >= end
        });
        all
    }
}
