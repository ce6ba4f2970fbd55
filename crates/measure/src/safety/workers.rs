//! The worker processes from the parent's side: orders, reports, signals, and ends.
//!
//! The processes end when [`Workers`] is dropped, or through the kernel if this process dies first. The parent reads
//! reports while it waits for one. At most [`REPORTS_MAX`] reports are unread; beyond that, a reporting worker blocks.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::counts::CriticalSection;
use super::message::{SaleEnd, WorkerOrder, WorkerPlan, WorkerReport};
use crate::servers::clock::now_ns;
use crate::servers::tied_to_parent;

pub const REPORTS_MAX: usize = 1024;
/// The maximum number of different error texts per scenario.
const ERRORS_MAX: usize = 16;
/// The hidden subcommand that starts this program as a worker.
const SUBCOMMAND: &str = "worker";

/// A worker's report, or its end (`None`).
type WorkerEvent = (usize, Option<WorkerReport>);

#[derive(Debug)]
pub struct Workers {
    processes: Vec<WorkerProcess>,
    events: mpsc::Receiver<WorkerEvent>,
    sender: mpsc::Sender<WorkerEvent>,
    pub seen: SaleEvents,
}

#[derive(Debug)]
struct WorkerProcess {
    child: Child,
    stdin: ChildStdin,
    pid: Pid,
}

impl Default for Workers {
    fn default() -> Self {
        let (sender, events) = mpsc::channel(REPORTS_MAX);
        Self { processes: Vec::new(), events, sender, seen: SaleEvents::default() }
    }
}

impl Workers {
    /// Starts one more worker, with additional environment variables.
    pub async fn start(
        &mut self,
        program: &Path,
        plan: &WorkerPlan,
        variables: &[(String, String)],
    ) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("start a worker: {error}");
        let mut command = Command::from(tied_to_parent(program, Signal::SIGKILL));
        command.arg(SUBCOMMAND).envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.kill_on_drop(true).spawn().map_err(failed)?;
        let ended = || std::io::Error::other("it has ended");
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).ok_or_else(ended);
        let pid = Pid::from_raw(pid.map_err(failed)?);
        let stdin = child.stdin.take().ok_or_else(ended).map_err(failed)?;
        let stdout = child.stdout.take().ok_or_else(ended).map_err(failed)?;
        tokio::spawn(read_reports(self.processes.len(), stdout, self.sender.clone()));
        let mut process = WorkerProcess { child, stdin, pid };
        process.write(plan).await?;
        self.processes.push(process);
        self.seen.orders_done.push(0);
        self.seen.acquiring.push(false);
        Ok(())
    }

    /// Sends an order, which is lost if the worker has ended.
    pub async fn order(&mut self, worker: usize, order: WorkerOrder) {
        if let Some(process) = self.processes.get_mut(worker) {
            // The end of the worker is an event.
            drop(process.write(&order).await);
        }
    }

    pub fn signal(&self, worker: usize, signal: Signal) {
        if let Some(process) = self.processes.get(worker) {
            // The worker may have ended.
            let _ended = kill(process.pid, signal);
        }
    }

    /// Kills a worker and waits for its end, after which it is in no critical section.
    pub async fn kill(&mut self, worker: usize) {
        let mut killed_ns = now_ns();
        if let Some(process) = self.processes.get_mut(worker) {
            drop(process.child.start_kill());
            // The kernel closes the connections of the process after the signal, so the next grant is later than this.
            killed_ns = now_ns();
            drop(process.child.wait().await);
        }
        self.seen.left(worker, killed_ns, None);
        self.seen.ended.push(worker);
    }

    /// Reads reports until `wanted` returns `true` or the deadline passes; returns the last result of `wanted`.
    pub async fn until(&mut self, deadline: Instant, wanted: impl Fn(&SaleEvents) -> bool) -> bool {
        while !wanted(&self.seen) {
            match timeout_at(deadline, self.events.recv()).await {
                Ok(Some((worker, report))) => self.seen.add(worker, report),
                Ok(None) | Err(_) => return false,
            }
        }
        true
    }

    /// Kills all workers after reading what they have reported.
    pub async fn shut_down(&mut self) {
        for worker in 0..self.processes.len() {
            while let Ok((worker, report)) = self.events.try_recv() {
                self.seen.add(worker, report);
            }
            self.kill(worker).await;
        }
    }
}

impl WorkerProcess {
    async fn write(&mut self, message: &impl serde::Serialize) -> Result<(), String> {
        let mut line = serde_json::to_string(message).map_err(|error| error.to_string())?;
        line.push('\n');
        let written = self.stdin.write_all(line.as_bytes()).await;
        written.map_err(|error| format!("write to a worker: {error}"))
    }
}

async fn read_reports(worker: usize, stdout: ChildStdout, events: mpsc::Sender<WorkerEvent>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(report) = serde_json::from_str(&line) else { continue };
        if events.send((worker, Some(report))).await.is_err() {
            return;
        }
    }
    // The parent may no longer wait.
    drop(events.send((worker, None)).await);
}

/// A worker's stay in the critical section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionVisit {
    pub worker: usize,
    pub entered_ns: u64,
    /// The end time; `None` while the worker is inside.
    pub left_ns: Option<u64>,
    /// `None` while the worker is inside, or if it was killed.
    pub end: Option<SaleEnd>,
}

/// A worker that has halted in the middle of a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HaltedSale {
    pub worker: usize,
    pub token: Option<u64>,
    pub stock: i64,
}

/// The reports of the workers so far.
#[derive(Clone, Debug, Default)]
pub struct SaleEvents {
    pub connected: Vec<usize>,
    /// For each worker, whether it waits for the lock.
    pub acquiring: Vec<bool>,
    /// For each worker, the number of completed orders.
    pub orders_done: Vec<u32>,
    pub halted: Option<HaltedSale>,
    pub visits: Vec<SectionVisit>,
    pub ended: Vec<usize>,
    /// The fence's error text for each rejected write.
    pub stale_writes: Vec<String>,
    /// Error texts with the number of reports of each.
    pub errors: BTreeMap<String, u64>,
}

impl SaleEvents {
    fn add(&mut self, worker: usize, report: Option<WorkerReport>) {
        match report {
            Some(WorkerReport::Connected) => self.connected.push(worker),
            Some(WorkerReport::Acquiring) => self.set_acquiring(worker, true),
            Some(WorkerReport::Entered { at_ns }) => {
                self.set_acquiring(worker, false);
                self.visits.push(SectionVisit {
                    worker,
                    entered_ns: at_ns,
                    left_ns: None,
                    end: None,
                });
            }
            Some(WorkerReport::Halted { token, stock }) => {
                self.halted = Some(HaltedSale { worker, token, stock });
            }
            Some(WorkerReport::Left { at_ns, end }) => self.left(worker, at_ns, Some(end)),
            Some(WorkerReport::StaleWrite { error }) => self.stale_writes.push(error),
            Some(WorkerReport::Error { text }) => {
                if self.errors.len() < ERRORS_MAX || self.errors.contains_key(&text) {
                    *self.errors.entry(text).or_default() += 1;
                }
            }
            Some(WorkerReport::Idle) => {
                self.orders_done.get_mut(worker).into_iter().for_each(|done| *done += 1);
            }
            None => {
                self.left(worker, now_ns(), None);
                self.ended.push(worker);
            }
        }
    }

    fn set_acquiring(&mut self, worker: usize, is_acquiring: bool) {
        self.acquiring.get_mut(worker).into_iter().for_each(|acquiring| *acquiring = is_acquiring);
    }

    fn left(&mut self, worker: usize, at_ns: u64, end: Option<SaleEnd>) {
        let mut visits = self.visits.iter_mut().rev();
        let open = visits.find(|visit| visit.worker == worker && visit.left_ns.is_none());
        if let Some(open) = open {
            (open.left_ns, open.end) = (Some(at_ns), end);
        }
        if self.halted.is_some_and(|halted| halted.worker == worker) {
            self.halted = None;
        }
    }

    /// Returns the visits of other workers that began after this time.
    fn after(&self, worker: usize, at_ns: u64) -> impl Iterator<Item = &SectionVisit> {
        let visits = self.visits.iter();
        visits.filter(move |visit| visit.worker != worker && visit.entered_ns > at_ns)
    }

    /// Returns the time of the first entry of another worker after this time.
    pub fn next_after(&self, worker: usize, at_ns: u64) -> Option<u64> {
        self.after(worker, at_ns).map(|visit| visit.entered_ns).min()
    }

    /// Returns the number of completed visits of other workers that began after this time.
    pub fn done_after(&self, worker: usize, at_ns: u64) -> usize {
        self.after(worker, at_ns).filter(|visit| visit.left_ns.is_some()).count()
    }

    /// Returns all visits; a visit in progress ends now.
    pub fn sections(&self) -> Vec<CriticalSection> {
        let now = now_ns();
        let section = |visit: &SectionVisit| CriticalSection {
            entered_ns: visit.entered_ns,
            left_ns: visit.left_ns.unwrap_or(now),
        };
        self.visits.iter().map(section).collect()
    }

    /// Returns the most frequent error.
    pub fn error(&self) -> Option<String> {
        let (text, count) = self.errors.iter().max_by_key(|(_, count)| **count)?;
        Some(format!("{text} ({count} times)"))
    }
}
