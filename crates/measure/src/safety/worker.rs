//! A worker process of the sale: it acquires the lock, sells a piece and releases, as ordered.
//!
//! Orders arrive on stdin, reports go to stdout, and the process ends with its stdin. At most [`ORDERS_MAX`] orders
//! wait. A worker pauses between two sales, so that a fast worker does not starve polling workers.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use holdfast_fence::FenceError;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::inventory::{self, InventoryClient};
use super::message::{HaltAt, SaleEnd, WorkerOrder, WorkerPlan, WorkerReport};
use super::participant::Participant;
use super::reconnecting::ReconnectingClient;
use crate::lock::{HeldLock, LockError, LockSettings};
use crate::servers::clock::now_ns;

pub const ORDERS_MAX: usize = 16;
/// The pause after an error.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// The pause before the next sale.
const SALE_PAUSE: Duration = Duration::from_millis(10);

/// Runs until the end of stdin. An error is the last report.
pub async fn run() -> ExitCode {
    match read_and_run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            // The parent may have ended.
            drop(report(&WorkerReport::Error { text }));
            ExitCode::FAILURE
        }
    }
}

async fn read_and_run() -> Result<(), String> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let plan = lines.next_line().await.map_err(text)?.ok_or("no plan on stdin")?;
    let plan: WorkerPlan = serde_json::from_str(&plan).map_err(text)?;
    let (order_sender, orders) = mpsc::channel(ORDERS_MAX);
    let (resume_sender, resume) = mpsc::channel(1);
    tokio::select! {
        done = execute(plan, orders, resume) => done,
        ended = receive(lines, order_sender, resume_sender) => ended,
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

async fn receive(
    mut lines: Lines<BufReader<Stdin>>,
    orders: mpsc::Sender<WorkerOrder>,
    resume: mpsc::Sender<()>,
) -> Result<(), String> {
    while let Some(line) = lines.next_line().await.map_err(text)? {
        match serde_json::from_str(&line).map_err(text)? {
            // One waiting signal is sufficient.
            WorkerOrder::Resume => drop(resume.try_send(())),
            order @ (WorkerOrder::Sell(_) | WorkerOrder::SellAndHalt(_)) => {
                orders.send(order).await.map_err(text)?;
            }
        }
    }
    Ok(())
}

async fn execute(
    plan: WorkerPlan,
    mut orders: mpsc::Receiver<WorkerOrder>,
    resume: mpsc::Receiver<()>,
) -> Result<(), String> {
    let participant = Participant::named(&plan.participant).ok_or("unknown participant")?;
    let database = inventory::connect(&plan.database, &plan.name).await?;
    let fence = participant.fenced.then(|| plan.lock.clone());
    let inventory = InventoryClient::new(database, plan.name.clone(), fence);
    let settings = LockSettings::new(Duration::from_millis(plan.lease_ms));
    let connector = participant.connector(plan.addresses.clone(), settings);
    let mut client = ReconnectingClient::new(connector);
    client.connect().await.map_err(text)?;
    let mut worker = SaleWorker { plan, client, inventory, resume };
    report(&WorkerReport::Connected)?;
    while let Some(order) = orders.recv().await {
        match order {
            WorkerOrder::Sell(most) => worker.sell(most).await?,
            WorkerOrder::SellAndHalt(halt) => drop(worker.sale(Some(halt)).await?),
            WorkerOrder::Resume => continue,
        }
        report(&WorkerReport::Idle)?;
    }
    Ok(())
}

fn report(report: &WorkerReport) -> Result<(), String> {
    let line = serde_json::to_string(report).map_err(text)?;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).map_err(text)
}

struct SaleWorker {
    plan: WorkerPlan,
    client: ReconnectingClient,
    inventory: InventoryClient,
    resume: mpsc::Receiver<()>,
}

impl SaleWorker {
    async fn sell(&mut self, most: u32) -> Result<(), String> {
        let mut sold = 0;
        while sold < most {
            match self.sale(None).await? {
                SaleEnd::Sold => sold += 1,
                SaleEnd::SoldOut => break,
                SaleEnd::Stale | SaleEnd::Expired | SaleEnd::Failed => {}
            }
            sleep(SALE_PAUSE).await;
        }
        Ok(())
    }

    /// Makes one sale under the lock.
    async fn sale(&mut self, halt: Option<HaltAt>) -> Result<SaleEnd, String> {
        let held = self.acquire().await?;
        report(&WorkerReport::Entered { at_ns: now_ns() })?;
        let end = match self.critical_section(&held, halt).await? {
            Ok(end) => end,
            Err(error @ FenceError::Stale { .. }) => {
                report(&WorkerReport::StaleWrite { error: error.to_string() })?;
                SaleEnd::Stale
            }
            Err(error) => {
                report(&WorkerReport::Error { text: format!("the inventory: {error}") })?;
                SaleEnd::Failed
            }
        };
        report(&WorkerReport::Left { at_ns: believed_until_ns(&held, end), end })?;
        if let Err(error) = self.client.release(held).await {
            report(&WorkerReport::Error { text: error.to_string() })?;
        }
        Ok(end)
    }

    async fn acquire(&mut self) -> Result<HeldLock, String> {
        report(&WorkerReport::Acquiring)?;
        loop {
            match self.client.acquire(&self.plan.lock).await {
                Ok(held) => return Ok(held),
                Err(LockError::Busy) => {}
                Err(error) => {
                    report(&WorkerReport::Error { text: error.to_string() })?;
                    sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    /// Reads, waits, checks and writes.
    async fn critical_section(
        &mut self,
        held: &HeldLock,
        halt: Option<HaltAt>,
    ) -> Result<Result<SaleEnd, FenceError>, String> {
        let stock = match self.inventory.read(held.token).await {
            Ok(stock) if stock <= 0 => return Ok(Ok(SaleEnd::SoldOut)),
            Ok(stock) => stock,
            Err(error) => return Ok(Err(error)),
        };
        sleep(Duration::from_millis(self.plan.think_ms)).await;
        if halt == Some(HaltAt::BeforeCheck) {
            self.halt(held, stock).await?;
        }
        if !held.is_presumed_held() {
            return Ok(Ok(SaleEnd::Expired));
        }
        if halt == Some(HaltAt::AfterCheck) {
            self.halt(held, stock).await?;
        }
        Ok(self.inventory.sell(stock, held.token).await.map(|()| SaleEnd::Sold))
    }

    async fn halt(&mut self, held: &HeldLock, stock: i64) -> Result<(), String> {
        report(&WorkerReport::Halted { token: held.token, stock })?;
        self.resume.recv().await.ok_or_else(|| "no order to resume".to_owned())
    }
}

/// Returns the current time, or the deadline of the lock if the worker found it passed.
fn believed_until_ns(held: &HeldLock, end: SaleEnd) -> u64 {
    let passed = held.until.filter(|_| end == SaleEnd::Expired).map(|until| until.elapsed());
    let passed_ns = u64::try_from(passed.unwrap_or_default().as_nanos()).unwrap_or(0);
    now_ns().saturating_sub(passed_ns)
}
