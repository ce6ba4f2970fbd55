//! The process of an adapter: requests go in, answers and events come out.
//!
//! One task reads the output. A line that is no answer and no event makes the scenario fail, with the line. Dropping the
//! value kills the process.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Map, Value};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;

use crate::protocol::{AdapterLine, AnswerError, Call, Request};

const STDERR_LINES: usize = 40;

/// An answer with the time of its receipt.
#[derive(Clone, Debug)]
pub struct SeenAnswer {
    /// When the driver read it.
    pub at: Instant,
    /// The fields of `ok`, or the error.
    pub result: Result<Value, AnswerError>,
}

/// An event with the time of its receipt.
#[derive(Clone, Debug)]
pub struct SeenEvent {
    /// When the driver read it.
    pub at: Instant,
    /// All fields, with `event`.
    pub fields: Map<String, Value>,
    /// Whether a step has waited for it.
    pub is_taken: bool,
}

#[derive(Debug, Default)]
struct Output {
    answers: BTreeMap<u64, SeenAnswer>,
    events: Vec<SeenEvent>,
    invalid: Option<String>,
    stderr: Vec<String>,
    is_closed: bool,
}

/// A running adapter.
#[derive(Debug)]
pub struct Adapter {
    child: Child,
    stdin: ChildStdin,
    group: Pid,
    is_ended: bool,
    next_id: u64,
    output: Arc<Mutex<Output>>,
    changed: watch::Receiver<u64>,
    /// When the process was stopped, and when it went on.
    pub stops: Vec<(Instant, Option<Instant>)>,
    /// When the process was killed.
    pub killed_at: Option<Instant>,
}

impl Adapter {
    /// Starts a command of the shell.
    ///
    /// # Errors
    /// If the command does not start.
    pub fn start(command: &str) -> Result<Self, String> {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("exec {command}")).kill_on_drop(true);
        // The driver names the nodes, and the table has the defaults without it.
        shell.env_remove("HOLDFAST_ADDR");
        // Faults stop and kill the programs that the adapter started, too.
        shell.process_group(0);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = shell.spawn().map_err(|error| format!("{command}: {error}"))?;
        let taken = child.stdin.take().zip(child.stdout.take()).zip(child.stderr.take());
        let ((stdin, stdout), stderr) = taken.ok_or("the adapter has no pipes")?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        let group = Pid::from_raw(pid.ok_or("the adapter has ended")?);
        let output = Arc::<Mutex<Output>>::default();
        let (change, changed) = watch::channel(0);
        tokio::spawn(read_output(stdout, output.clone(), change));
        tokio::spawn(read_stderr(stderr, output.clone()));
        let (stops, killed_at) = (Vec::new(), None);
        Ok(Self {
            child,
            stdin,
            group,
            is_ended: false,
            next_id: 1,
            output,
            changed,
            stops,
            killed_at,
        })
    }

    /// Sends a request, and returns its id.
    ///
    /// # Errors
    /// If the adapter does not read.
    pub async fn send(&mut self, call: Call) -> Result<u64, String> {
        let id = self.next_id;
        self.next_id += 1;
        let line =
            serde_json::to_string(&Request { id, call }).map_err(|error| error.to_string())?;
        let written = self.stdin.write_all(format!("{line}\n").as_bytes()).await;
        let written = written.and(self.stdin.flush().await);
        written.map_err(|error| format!("the adapter does not read: {error}{}", self.stderr()))?;
        Ok(id)
    }

    /// Waits for the answer to a request; `None` if it does not come in time.
    ///
    /// # Errors
    /// An invalid line, or the end of the adapter.
    pub async fn answer(&mut self, id: u64, time: Duration) -> Result<Option<SeenAnswer>, String> {
        self.find(time, |output| output.answers.remove(&id)).await
    }

    /// Waits for an event; `None` if it does not come in time.
    ///
    /// # Errors
    /// An invalid line, or the end of the adapter.
    pub async fn event(
        &mut self,
        time: Duration,
        fits: impl Fn(&SeenEvent) -> bool,
    ) -> Result<Option<SeenEvent>, String> {
        self.find(time, |output| {
            let event = output.events.iter_mut().find(|event| !event.is_taken && fits(event))?;
            event.is_taken = true;
            Some(event.clone())
        })
        .await
    }

    async fn find<T>(
        &mut self,
        time: Duration,
        mut find: impl FnMut(&mut Output) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let deadline = tokio::time::Instant::now() + time;
        loop {
            self.changed.mark_unchanged();
            {
                let mut output = self.lock();
                if let Some(line) = &output.invalid {
                    return Err(format!("an invalid line of the adapter: {line}"));
                }
                if let Some(found) = find(&mut output) {
                    return Ok(Some(found));
                }
                if output.is_closed {
                    drop(output);
                    return Err(format!("the adapter has ended{}", self.stderr()));
                }
            }
            match tokio::time::timeout_at(deadline, self.changed.changed()).await {
                Ok(Ok(()) | Err(_)) => {}
                Err(_) => return Ok(None),
            }
        }
    }

    /// Every event so far.
    pub fn events(&self) -> Vec<SeenEvent> {
        self.lock().events.clone()
    }

    /// Stops the process (SIGSTOP).
    pub fn stop(&mut self) {
        self.signal(Signal::SIGSTOP);
        self.stops.push((Instant::now(), None));
    }

    /// Continues the process (SIGCONT).
    pub fn go_on(&mut self) {
        if let Some((_, until @ None)) = self.stops.last_mut() {
            *until = Some(Instant::now());
            self.signal(Signal::SIGCONT);
        }
    }

    /// Kills the process (SIGKILL).
    pub async fn kill(&mut self) {
        self.killed_at = Some(Instant::now());
        self.signal(Signal::SIGKILL);
        // Reaps the process.
        drop(self.child.wait().await);
        self.is_ended = true;
    }

    /// Sends `shutdown`, and waits for the exit with code 0.
    ///
    /// # Errors
    /// If the process does not end in time, or with another code.
    pub async fn shut_down(&mut self, time: Duration) -> Result<(), String> {
        if self.killed_at.is_some() {
            return Ok(());
        }
        self.go_on();
        self.send(Call::Shutdown {}).await?;
        let Ok(exit) = tokio::time::timeout(time, self.child.wait()).await else {
            return Err(format!("the adapter did not end within {time:?}{}", self.stderr()));
        };
        self.is_ended = true;
        let status = exit.map_err(|error| error.to_string())?;
        let code = status.code();
        (code == Some(0)).then_some(()).ok_or_else(|| format!("the adapter ended with {status}"))
    }

    /// The last lines of standard error.
    pub fn stderr(&self) -> String {
        let lines = &self.lock().stderr;
        let text: String = lines.iter().flat_map(|line| ["\n      stderr: ", line]).collect();
        text
    }

    fn signal(&self, signal: Signal) {
        // After the end of the process its number may be another one's.
        if !self.is_ended {
            let _is_gone = killpg(self.group, signal).is_err();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

async fn read_output(
    stdout: impl AsyncRead + Unpin,
    output: Arc<Mutex<Output>>,
    change: watch::Sender<u64>,
) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let at = Instant::now();
        {
            let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
            match AdapterLine::parse(&line) {
                Ok(AdapterLine::Answer { id, result }) => {
                    output.answers.insert(id, SeenAnswer { at, result });
                }
                Ok(AdapterLine::Event(fields)) => {
                    output.events.push(SeenEvent { at, fields, is_taken: false });
                }
                Err(reason) => output.invalid = Some(format!("{reason}: {line}")),
            }
        }
        change.send_modify(|count| *count += 1);
    }
    output.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
    change.send_modify(|count| *count += 1);
}

async fn read_stderr(stderr: impl AsyncRead + Unpin, output: Arc<Mutex<Output>>) {
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        if output.stderr.len() == STDERR_LINES {
            output.stderr.remove(0);
        }
        output.stderr.push(line);
    }
}
