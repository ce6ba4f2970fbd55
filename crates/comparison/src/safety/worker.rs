//! A worker process of the sale: it takes the lock, sells a piece, gives the lock back, as ordered.
//!
//! Owns its connections. Refuses to decide: orders come on stdin, reports go to stdout, and it ends with its stdin.
//! At most [`ORDERS_MAX`] orders wait. Between two sales it attends to something else for a while, so that one that is
//! quick to ask again does not keep out those that poll.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use crate::{Hold, LockError};
use holdfast_fence::FenceError;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::caller::Caller;
use super::inventory::{self, Counter};
use super::message::{Ended, Halt, Order, Plan, Report};
use super::participant::Participant;
use crate::servers::clock::now_ns;

/// Orders that wait.
pub const ORDERS_MAX: usize = 16;
/// Before a connection is tried again.
const PAUSE: Duration = Duration::from_millis(20);
/// Before the next sale.
const BETWEEN: Duration = Duration::from_millis(10);

/// Works until stdin ends. What goes wrong is the last report.
pub async fn work() -> ExitCode {
    match read_and_work().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(words) => {
            // Nobody may listen any more.
            drop(say(&Report::LockError { words }));
            ExitCode::FAILURE
        }
    }
}

async fn read_and_work() -> Result<(), String> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let plan = lines.next_line().await.map_err(words)?.ok_or("no plan on stdin")?;
    let plan: Plan = serde_json::from_str(&plan).map_err(words)?;
    let (orders, queue) = mpsc::channel(ORDERS_MAX);
    let (go_on, go) = mpsc::channel(1);
    tokio::select! {
        worked = obey(plan, queue, go) => worked,
        ended = hear(lines, orders, go_on) => ended,
    }
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

async fn hear(
    mut lines: Lines<BufReader<Stdin>>,
    orders: mpsc::Sender<Order>,
    go_on: mpsc::Sender<()>,
) -> Result<(), String> {
    while let Some(line) = lines.next_line().await.map_err(words)? {
        match serde_json::from_str(&line).map_err(words)? {
            // One that waits already is enough.
            Order::GoOn => drop(go_on.try_send(())),
            order @ (Order::Sell(_) | Order::Halt(_)) => orders.send(order).await.map_err(words)?,
        }
    }
    Ok(())
}

async fn obey(
    plan: Plan,
    mut orders: mpsc::Receiver<Order>,
    go: mpsc::Receiver<()>,
) -> Result<(), String> {
    let database = inventory::connect(&plan.store, &plan.name).await.map_err(words)?;
    let fence = plan.fenced.then(|| plan.lock.clone());
    let counter = Counter::new(database, plan.name.clone(), fence);
    let lease = Duration::from_millis(plan.lease_ms);
    let participant = Participant::named(&plan.system).ok_or("no lock of this name")?;
    let system = participant.system(&plan.addresses, lease).map_err(words)?;
    let mut caller = Caller::new(system);
    caller.connect().await.map_err(words)?;
    let mut worker = Worker { plan, caller, counter, go };
    say(&Report::Ready)?;
    while let Some(order) = orders.recv().await {
        match order {
            Order::Sell(most) => worker.sell(most).await?,
            Order::Halt(halt) => drop(worker.sale(Some(halt)).await?),
            Order::GoOn => continue,
        }
        say(&Report::Idle)?;
    }
    Ok(())
}

fn say(report: &Report) -> Result<(), String> {
    let line = serde_json::to_string(report).map_err(words)?;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).map_err(words)
}

struct Worker {
    plan: Plan,
    caller: Caller,
    counter: Counter,
    go: mpsc::Receiver<()>,
}

impl Worker {
    async fn sell(&mut self, most: u32) -> Result<(), String> {
        let mut sold = 0;
        while sold < most {
            match self.sale(None).await? {
                Ended::Sold => sold += 1,
                Ended::Empty => break,
                Ended::Refused | Ended::GaveUp | Ended::Failed => {}
            }
            sleep(BETWEEN).await;
        }
        Ok(())
    }

    /// One sale, as soon as the lock is there.
    async fn sale(&mut self, halt: Option<Halt>) -> Result<Ended, String> {
        let hold = self.enter().await?;
        say(&Report::Entered { at_ns: now_ns() })?;
        let ended = match self.inside(&hold, halt).await? {
            Ok(ended) => ended,
            Err(FenceError::Stale { .. }) => Ended::Refused,
            Err(error) => {
                say(&Report::LockError { words: format!("the store: {error}") })?;
                Ended::Failed
            }
        };
        say(&Report::Left { at_ns: believed_until(&hold, ended), ended })?;
        self.leave(hold).await?;
        Ok(ended)
    }

    async fn enter(&mut self) -> Result<Hold, String> {
        say(&Report::Asks)?;
        loop {
            match self.caller.take(&self.plan.lock).await {
                Ok(hold) => return Ok(hold),
                Err(LockError::Busy) => {}
                Err(trouble) => {
                    say(&Report::LockError { words: trouble.to_string() })?;
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Read, think, look, write.
    async fn inside(
        &mut self,
        hold: &Hold,
        halt: Option<Halt>,
    ) -> Result<Result<Ended, FenceError>, String> {
        let stock = match self.counter.read(hold.fence).await {
            Ok(stock) if stock <= 0 => return Ok(Ok(Ended::Empty)),
            Ok(stock) => stock,
            Err(error) => return Ok(Err(error)),
        };
        sleep(Duration::from_millis(self.plan.think_ms)).await;
        if halt == Some(Halt::BeforeLook) {
            self.stop().await?;
        }
        if !hold.is_believed() {
            return Ok(Ok(Ended::GaveUp));
        }
        if halt == Some(Halt::AfterLook) {
            self.stop().await?;
        }
        Ok(self.counter.write(stock, hold.fence).await.map(|()| Ended::Sold))
    }

    async fn stop(&mut self) -> Result<(), String> {
        say(&Report::MidSale)?;
        self.go.recv().await.ok_or_else(|| "nobody says to go on".to_owned())
    }

    async fn leave(&mut self, hold: Hold) -> Result<(), String> {
        if let Err(trouble) = self.caller.give_back(hold).await {
            say(&Report::LockError { words: trouble.to_string() })?;
        }
        Ok(())
    }
}

/// Now; or when its worker stopped to believe in it, if it looked and gave up.
fn believed_until(hold: &Hold, ended: Ended) -> u64 {
    let now = now_ns();
    let over = hold.until.filter(|_| ended == Ended::GaveUp).map(|until| until.elapsed());
    over.map_or(now, |over| now.saturating_sub(u64::try_from(over.as_nanos()).unwrap_or(0)))
}
