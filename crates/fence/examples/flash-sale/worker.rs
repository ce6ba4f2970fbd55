//! A worker process: several sellers, orders on stdin, reports on stdout; it ends with its stdin.
//!
//! Owns the process's tasks. Refuses to decide anything: it sells as ordered. Reports queue in a channel of 64
//! lines; a seller with more to say waits.

use std::io::Write;

use futures_util::future::try_join_all;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc;

use crate::Fallible;
use crate::lock::{Locker, http};
use crate::message::{Order, Plan, Report};
use crate::scratch;
use crate::seller::Seller;
use crate::shop::{Counter, LOCK};

const REPORTS_MAX: usize = 64;
const ORDERS_MAX: usize = 8;

/// Works until stdin ends.
pub(crate) async fn run(plan: &str) -> Fallible<()> {
    let plan: Plan = serde_json::from_str(plan)?;
    let (reports, queue) = mpsc::channel(REPORTS_MAX);
    let writer = tokio::task::spawn_blocking(move || write_reports(queue));
    let outcome = work(&plan, &reports).await;
    if let Err(error) = &outcome {
        reports.send(Report::Failed { error: format!("{}: {error}", plan.name) }).await?;
    }
    drop(reports);
    writer.await??;
    outcome
}

async fn work(plan: &Plan, reports: &mpsc::Sender<Report>) -> Fallible<()> {
    let mut sellers = hire(plan, reports).await?;
    let (words, mut word) = mpsc::channel(1);
    let (orders, mut queue) = mpsc::channel(ORDERS_MAX);
    tokio::spawn(read_orders(orders, words));
    while let Some(order) = queue.recv().await {
        let sold = match order {
            Order::SellDownTo(floor) => {
                let sales = sellers.iter_mut().map(|seller| seller.sell_down_to(floor));
                try_join_all(sales).await?.into_iter().sum()
            }
            Order::SellOneWatched => {
                let seller = sellers.first_mut().ok_or("a worker without sellers")?;
                usize::from(seller.sell_one(0, Some(&mut word)).await? == crate::seller::Sale::Sold)
            }
            Order::GoOn => continue,
        };
        reports.send(Report::Idle { sold }).await?;
    }
    Ok(())
}

async fn hire(plan: &Plan, reports: &mpsc::Sender<Report>) -> Fallible<Vec<Seller>> {
    let http = http()?;
    let mut sellers = Vec::with_capacity(plan.sellers);
    for (number, node) in (1..=plan.sellers).zip(plan.nodes.iter().cycle()) {
        let name = format!("{}-s{number}", plan.name);
        let client = scratch::connect(&plan.database, &name).await?;
        let locker = Locker::new(http.clone(), node, LOCK, &name);
        let counter = Counter::new(client, name.clone(), plan.fenced);
        sellers.push(Seller { name, locker, counter, reports: reports.clone() });
    }
    Ok(sellers)
}

/// Hands on what the narrator says; the word for the watched seller overtakes the orders.
async fn read_orders(orders: mpsc::Sender<Order>, words: mpsc::Sender<()>) -> Fallible<()> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match serde_json::from_str(&line)? {
            Order::GoOn => words.send(()).await?,
            order @ (Order::SellDownTo(_) | Order::SellOneWatched) => orders.send(order).await?,
        }
    }
    Ok(())
}

fn write_reports(mut queue: mpsc::Receiver<Report>) -> Fallible<()> {
    let mut stdout = std::io::stdout().lock();
    while let Some(report) = queue.blocking_recv() {
        writeln!(stdout, "{}", serde_json::to_string(&report)?)?;
        stdout.flush()?;
    }
    Ok(())
}
