//! The workers' processes, from outside: orders to them, reports of them, signals, and their end.
//!
//! Owns the processes: they end when the workers is dropped, and by the kernel when this process dies before that. What they
//! report is read into [`Seen`] while somebody waits for it; at most [`REPORTS_MAX`] reports are unread, and a worker with
//! more to say waits.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::count::Section;
use super::message::{Ended, Order, Plan, Report};
use crate::servers::clock::now_ns;

/// Reports that wait to be read.
pub const REPORTS_MAX: usize = 1024;
/// Different words about trouble that are kept for each case.
const WORDS_MAX: usize = 16;

/// The hidden subcommand that makes this program a worker.
const SUBCOMMAND: &str = "worker";

/// Workers that were started.
#[derive(Debug)]
pub struct Workers {
    workers: Vec<Worker>,
    reports: mpsc::Receiver<(usize, Option<Report>)>,
    sender: mpsc::Sender<(usize, Option<Report>)>,
    /// What they have said so far.
    pub seen: Seen,
}

#[derive(Debug)]
struct Worker {
    child: Child,
    stdin: ChildStdin,
    pid: Pid,
}

impl Default for Workers {
    /// Nobody yet.
    fn default() -> Self {
        let (sender, reports) = mpsc::channel(REPORTS_MAX);
        Self { workers: Vec::new(), reports, sender, seen: Seen::default() }
    }
}

impl Workers {
    /// Starts one more, with these variables in its environment besides.
    ///
    /// # Errors
    /// In words.
    pub async fn hire(
        &mut self,
        program: &Path,
        plan: &Plan,
        variables: &[(String, String)],
    ) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("start a worker: {error}");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program).arg(SUBCOMMAND);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.kill_on_drop(true).spawn().map_err(failed)?;
        let gone = || std::io::Error::other("it has ended");
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).ok_or_else(gone);
        let pid = Pid::from_raw(pid.map_err(failed)?);
        let stdin = child.stdin.take().ok_or_else(gone).map_err(failed)?;
        let stdout = child.stdout.take().ok_or_else(gone).map_err(failed)?;
        tokio::spawn(listen(self.workers.len(), stdout, self.sender.clone()));
        let mut worker = Worker { child, stdin, pid };
        worker.tell(plan).await?;
        self.workers.push(worker);
        self.seen.idle.push(0);
        self.seen.asking.push(false);
        Ok(())
    }

    /// An order to one of them; one that has ended does not hear it.
    pub async fn order(&mut self, worker: usize, order: Order) {
        if let Some(worker) = self.workers.get_mut(worker) {
            // Its end is seen among the reports.
            drop(worker.tell(&order).await);
        }
    }

    /// A signal to one of them.
    pub fn signal(&self, worker: usize, signal: Signal) {
        if let Some(worker) = self.workers.get(worker) {
            // It may have ended.
            let _gone = kill(worker.pid, signal);
        }
    }

    /// Kills one of them, and waits for its end: from then on it is in no critical section.
    pub async fn kill(&mut self, at: usize) {
        if let Some(worker) = self.workers.get_mut(at) {
            drop(worker.child.kill().await);
        }
        self.seen.left(at, now_ns(), None);
        self.seen.gone.push(at);
    }

    /// Reads reports until what was seen is as wanted, or the deadline; whether it is.
    pub async fn until(&mut self, deadline: Instant, wanted: impl Fn(&Seen) -> bool) -> bool {
        while !wanted(&self.seen) {
            match timeout_at(deadline, self.reports.recv()).await {
                Ok(Some((worker, report))) => self.seen.hear(worker, report),
                Ok(None) | Err(_) => return false,
            }
        }
        true
    }

    /// Kills all of them, and closes what they left open.
    pub async fn dismiss(&mut self) {
        for at in 0..self.workers.len() {
            while let Ok((worker, report)) = self.reports.try_recv() {
                self.seen.hear(worker, report);
            }
            self.kill(at).await;
        }
    }
}

impl Worker {
    async fn tell(&mut self, words: &impl serde::Serialize) -> Result<(), String> {
        let mut line = serde_json::to_string(words).map_err(|error| error.to_string())?;
        line.push('\n');
        let told = self.stdin.write_all(line.as_bytes()).await;
        told.map_err(|error| format!("a worker does not listen: {error}"))
    }
}

/// Its end is a report too.
async fn listen(
    worker: usize,
    stdout: ChildStdout,
    reports: mpsc::Sender<(usize, Option<Report>)>,
) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(report) = serde_json::from_str(&line) else { continue };
        if reports.send((worker, Some(report))).await.is_err() {
            return;
        }
    }
    // Nobody may be there to be told.
    drop(reports.send((worker, None)).await);
}

/// A critical section and whose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    /// By its number.
    pub worker: usize,
    /// Nanoseconds.
    pub entered_ns: u64,
    /// Nanoseconds; none while it lasts.
    pub left_ns: Option<u64>,
    /// None while it lasts, and if its worker was killed in it.
    pub ended: Option<Ended>,
}

/// What the workers have said so far.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Who has its connections.
    pub ready: Vec<usize>,
    /// Whether each has asked for the lock since it had it last.
    pub asking: Vec<bool>,
    /// Orders to sell that each has done.
    pub idle: Vec<u32>,
    /// Who stands in the middle of a sale.
    pub mid_sale: Option<usize>,
    /// All critical sections, as they were heard of.
    pub stays: Vec<Stay>,
    /// Whose process has ended.
    pub gone: Vec<usize>,
    /// What was said about trouble, and how often.
    pub troubles: BTreeMap<String, u64>,
}

impl Seen {
    fn hear(&mut self, worker: usize, report: Option<Report>) {
        match report {
            Some(Report::Ready) => self.ready.push(worker),
            Some(Report::Asks) => self.asks(worker, true),
            Some(Report::Entered { at_ns }) => {
                self.asks(worker, false);
                let stay = Stay { worker, entered_ns: at_ns, left_ns: None, ended: None };
                self.stays.push(stay);
            }
            Some(Report::MidSale) => self.mid_sale = Some(worker),
            Some(Report::Left { at_ns, ended }) => self.left(worker, at_ns, Some(ended)),
            Some(Report::LockError { words }) => {
                if self.troubles.len() < WORDS_MAX || self.troubles.contains_key(&words) {
                    *self.troubles.entry(words).or_default() += 1;
                }
            }
            Some(Report::Idle) => {
                if let Some(idle) = self.idle.get_mut(worker) {
                    *idle += 1;
                }
            }
            None => {
                self.left(worker, now_ns(), None);
                self.gone.push(worker);
            }
        }
    }

    fn asks(&mut self, worker: usize, asks: bool) {
        if let Some(asking) = self.asking.get_mut(worker) {
            *asking = asks;
        }
    }

    fn left(&mut self, worker: usize, at_ns: u64, ended: Option<Ended>) {
        let mut stays = self.stays.iter_mut().rev();
        let open = stays.find(|stay| stay.worker == worker && stay.left_ns.is_none());
        if let Some(open) = open {
            (open.left_ns, open.ended) = (Some(at_ns), ended);
        }
        if self.mid_sale == Some(worker) {
            self.mid_sale = None;
        }
    }

    /// When somebody else than this worker entered after this moment, first.
    pub fn next_after(&self, worker: Option<usize>, at_ns: u64) -> Option<u64> {
        let others = self.stays.iter().filter(|stay| Some(stay.worker) != worker);
        others.map(|stay| stay.entered_ns).filter(|entered| *entered > at_ns).min()
    }

    /// Sections that others than this worker entered after this moment and left.
    pub fn done_after(&self, worker: Option<usize>, at_ns: u64) -> usize {
        let others = self.stays.iter().filter(|stay| Some(stay.worker) != worker);
        others.filter(|stay| stay.entered_ns > at_ns && stay.left_ns.is_some()).count()
    }

    /// All sections; what lasts, lasts until now.
    pub fn sections(&self) -> Vec<Section> {
        let now = now_ns();
        let section = |stay: &Stay| Section {
            entered_ns: stay.entered_ns,
            left_ns: stay.left_ns.unwrap_or(now),
        };
        self.stays.iter().map(section).collect()
    }

    /// The worst of the troubles in a line: the one said most.
    pub fn trouble(&self) -> Option<String> {
        let most = self.troubles.iter().max_by_key(|(_, times)| **times)?;
        Some(format!("{} (said {} times)", most.0, most.1))
    }
}
