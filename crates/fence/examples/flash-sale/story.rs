//! The narrator: opens the sale twice, stops the same seller in mid-sale, and judges the books.
//!
//! Owns the order of events, each step after a condition that was seen (a report, a process state, a newer token),
//! and the words. Refuses to touch lock or tables except to look.

use std::time::{Duration, Instant};

use reqwest::Client as Http;
use tokio_postgres::Client;

use crate::Fallible;
use crate::cluster::{Cluster, binary};
use crate::crew::{DEADLINE, Worker};
use crate::judge::{self, Ending};
use crate::lock::{TTL, http, look};
use crate::message::{Order, Plan, Report};
use crate::scratch::{MISSING, Postgres, bin_dir};
use crate::shop::{self, Books, LOCK, PIECES};

/// Sellers in each process; the first has one, so that stopping the process stops exactly one seller.
const SELLERS: [usize; 4] = [1, 4, 4, 4];
/// Left on the shelf when the first seller makes its watched sale.
const SHELF_BEFORE: i64 = 90;
/// Left on the shelf when it wakes.
const SHELF_AT_WAKING: i64 = 40;
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Everything both runs need.
struct Scene {
    cluster: Cluster,
    postgres: Postgres,
    database: Client,
    http: Http,
}

/// Tells the whole story; true if both observations were made.
pub(crate) async fn tell(holdfast: Option<&str>) -> Fallible<bool> {
    let started = Instant::now();
    let scene = set_the_scene(holdfast).await?;
    println!("\nRun 1: the lock alone, no fence");
    let without = run(&scene, false).await?;
    println!("\nRun 2: the same, and the token goes with every write");
    let with = run(&scene, true).await?;
    println!("{}", judge::table(&without, &with));
    let (shown, observations) = judge::judge(&without, &with);
    println!("{}", observations.join("\n"));
    println!("({:.1} s)", started.elapsed().as_secs_f64());
    Ok(shown)
}

async fn set_the_scene(holdfast: Option<&str>) -> Fallible<Scene> {
    let (binary, bin) = (binary(holdfast)?, bin_dir().ok_or(MISSING)?);
    println!(
        "Flash sale: {PIECES} pieces, {} sellers in {} processes, one lock.",
        SELLERS.iter().sum::<usize>(),
        SELLERS.len()
    );
    let database = async { Postgres::start(&bin).await.map_err(Into::into) };
    let (cluster, postgres) = tokio::try_join!(Cluster::start(&binary), database)?;
    let database = postgres.connect("narrator").await?;
    let version: String = database.query_one("SHOW server_version", &[]).await?.get(0);
    println!("  holdfast    {}; the leader is node {}", cluster.nodes.join("  "), cluster.leader);
    println!("  PostgreSQL  {version}");
    println!("  lock        {LOCK}, sessions live {} s without a sign of life", TTL.as_secs());
    Ok(Scene { cluster, postgres, database, http: http()? })
}

async fn run(scene: &Scene, fenced: bool) -> Fallible<Ending> {
    shop::open(&scene.database, fenced).await?;
    let (mut sleeper, mut others) = hire(scene, fenced)?;
    sell_down_to(SHELF_BEFORE, &mut others).await?;
    println!("  {} pieces are sold, the shelf says {SHELF_BEFORE}.", PIECES - SHELF_BEFORE);
    let stale = stop_in_mid_sale(&mut sleeper).await?;
    let moving = wait_for_newer_holder(scene, stale);
    let (moved, sold) = tokio::join!(moving, sell_down_to(SHELF_AT_WAKING, &mut others));
    println!("{}", moved?);
    sold?;
    println!("  The others have sold on: {}.", describe(shop::books(&scene.database).await?));
    let refused = wake(&mut sleeper).await?;
    sleeper.order(Order::SellDownTo(0)).await?;
    let (late, others) = tokio::join!(sleeper.idle(), sell_down_to(0, &mut others));
    println!(
        "  Everybody sells until the shelf is empty; w1 takes the lock anew and sells {} more.",
        late?.0
    );
    others?;
    Ok(Ending { books: shop::books(&scene.database).await?, refused, stale })
}

fn hire(scene: &Scene, fenced: bool) -> Fallible<(Worker, Vec<Worker>)> {
    let run = if fenced { "b" } else { "a" };
    let mut workers = Vec::with_capacity(SELLERS.len());
    for (index, sellers) in SELLERS.into_iter().enumerate() {
        let mut nodes = scene.cluster.nodes.clone();
        let first = index % nodes.len().max(1);
        nodes.rotate_left(first);
        let (name, database) = (format!("w{}{run}", index + 1), scene.postgres.url());
        workers.push(Worker::start(&Plan { name, sellers, database, nodes, fenced })?);
    }
    let sleeper = workers.remove(0);
    Ok((sleeper, workers))
}

/// Everybody sells until the shelf says at most `floor`. Another seller than the stopped one may be refused only if
/// the machine was so slow that its session expired; it is said, and it costs nothing.
async fn sell_down_to(floor: i64, workers: &mut [Worker]) -> Fallible<()> {
    for worker in workers.iter_mut() {
        worker.order(Order::SellDownTo(floor)).await?;
    }
    for worker in workers.iter_mut() {
        for refusal in worker.idle().await?.1 {
            println!("  (on the way: {refusal})");
        }
    }
    Ok(())
}

/// Stops the sleeper's process between its read and its write; answers the token it holds.
async fn stop_in_mid_sale(sleeper: &mut Worker) -> Fallible<u64> {
    sleeper.order(Order::SellOneWatched).await?;
    let Report::MidSale { seller, token, stock } = sleeper.report().await? else {
        return Err("the watched sale did not get to its middle".into());
    };
    sleeper.stop().await?;
    println!("  {seller} holds the lock with token {token}, has read {stock} from the shelf ...");
    println!("  ... and is stopped before it writes (SIGSTOP to process {}).", sleeper.pid()?);
    Ok(token)
}

/// Waits until the lock has been granted after token `stale`; says to whom.
async fn wait_for_newer_holder(scene: &Scene, stale: u64) -> Fallible<String> {
    let started = Instant::now();
    let node = scene.cluster.nodes.first().ok_or("a cluster without nodes")?;
    while started.elapsed() < DEADLINE {
        let seen = look(&scene.http, node, LOCK).await?;
        if seen.last_token > stale {
            let holder = seen.holder.unwrap_or_else(|| "somebody else".into());
            let (seconds, token) = (started.elapsed().as_secs_f64(), seen.last_token);
            return Ok(format!(
                "  After {seconds:.1} s its session has expired and the lock has moved on: {holder} has token {token}."
            ));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Err(format!("the lock did not move on within {DEADLINE:?}").into())
}

/// Wakes the sleeper, which goes on to its write; answers the refusal, if there was one.
async fn wake(sleeper: &mut Worker) -> Fallible<Option<String>> {
    sleeper.order(Order::GoOn).await?;
    sleeper.wake()?;
    println!(
        "  The sleeper wakes (SIGCONT) in the middle of its sale and writes what it had computed:"
    );
    let report = sleeper.report().await?;
    sleeper.idle().await?;
    match report {
        Report::Sold { token, stock, .. } => {
            println!(
                "    accepted: the shelf now says {stock}, and there is an order with token {token}"
            );
            Ok(None)
        }
        Report::Refused { error, .. } => {
            println!("    REFUSED: {error}");
            Ok(Some(error))
        }
        Report::MidSale { .. } | Report::Idle { .. } | Report::Failed { .. } => {
            Err("the woken seller did not write".into())
        }
    }
}

fn describe(books: Books) -> String {
    format!("{} on the shelf + {} orders = {}", books.stock, books.orders, books.sum())
}
