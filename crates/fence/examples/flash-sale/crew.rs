//! The worker processes, as the narrator sees them.
//!
//! Owns the children: orders to them, reports from them, SIGSTOP and SIGCONT, and their end (a dropped crew is
//! killed, stopped or not). Refuses to wait without a deadline. Reports queue in a channel of 64.

use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;

use crate::Fallible;
use crate::message::{Order, Plan, Report};

/// The longest a step of the story may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(25);
const REPORTS_MAX: usize = 64;
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// One worker process.
pub(crate) struct Worker {
    child: Child,
    orders: ChildStdin,
    reports: mpsc::Receiver<Report>,
    name: String,
}

impl Worker {
    /// Starts this program again, as a worker.
    pub(crate) fn start(plan: &Plan) -> Fallible<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("worker").arg(serde_json::to_string(plan)?);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).process_group(0);
        let mut child = command.spawn()?;
        let orders = child.stdin.take().ok_or("a worker without stdin")?;
        let stdout = child.stdout.take().ok_or("a worker without stdout")?;
        let (sender, reports) = mpsc::channel(REPORTS_MAX);
        tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let unreadable = || Report::Failed { error: format!("unreadable report: {line}") };
                let report = serde_json::from_str(&line).unwrap_or_else(|_| unreadable());
                if sender.send(report).await.is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, orders, reports, name: plan.name.clone() })
    }

    /// Gives an order; the worker need not be running to get it later.
    pub(crate) async fn order(&mut self, order: Order) -> Fallible<()> {
        let line = format!("{}\n", serde_json::to_string(&order)?);
        Ok(self.orders.write_all(line.as_bytes()).await?)
    }

    /// The next report.
    pub(crate) async fn report(&mut self) -> Fallible<Report> {
        match tokio::time::timeout(DEADLINE, self.reports.recv()).await {
            Err(_) => Err(format!("{} said nothing for {DEADLINE:?}", self.name).into()),
            Ok(None) => Err(format!("{} ended", self.name).into()),
            Ok(Some(Report::Failed { error })) => Err(error.into()),
            Ok(Some(report)) => Ok(report),
        }
    }

    /// Waits until the last order is done; answers how many were sold, and the refusals on the way.
    pub(crate) async fn idle(&mut self) -> Fallible<(usize, Vec<String>)> {
        let mut refusals = Vec::new();
        loop {
            match self.report().await? {
                Report::Idle { sold } => return Ok((sold, refusals)),
                Report::Refused { error, .. } => refusals.push(error),
                Report::MidSale { .. } | Report::Sold { .. } | Report::Failed { .. } => {}
            }
        }
    }

    /// Stops the process where it stands, all its threads; returns when the kernel says so.
    pub(crate) async fn stop(&self) -> Fallible<()> {
        kill(self.pid()?, Signal::SIGSTOP)?;
        let deadline = Instant::now() + DEADLINE;
        while self.state()? != 'T' {
            if Instant::now() > deadline {
                return Err(format!("{} does not stop", self.name).into());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Wakes the process; it does not know that it was away.
    pub(crate) fn wake(&self) -> Fallible<()> {
        Ok(kill(self.pid()?, Signal::SIGCONT)?)
    }

    pub(crate) fn pid(&self) -> Fallible<Pid> {
        let id = self.child.id().ok_or_else(|| format!("{} ended", self.name))?;
        Ok(Pid::from_raw(id.cast_signed()))
    }

    /// The one-letter state in `/proc/PID/stat`, behind the name in parentheses.
    fn state(&self) -> Fallible<char> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()?))?;
        let letter = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
        letter.ok_or_else(|| format!("unreadable /proc entry of {}", self.name).into())
    }
}
