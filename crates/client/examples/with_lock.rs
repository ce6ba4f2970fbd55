//! Cancels work when its lock is lost, and reports progress of the work.
//!
//! `with_lock ADDR[,ADDR] LOCK` acquires the lock, works in small steps, prints the sum and releases the lock. Each
//! step reports progress. If a step took longer than the progress timeout, the client would release the lock.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use holdfast_client::{Client, Hold, Loss};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [addresses, lock] = args.as_slice() else {
        return Err("usage: with_lock ADDR[,ADDR] LOCK".into());
    };
    let client = Client::builder(addresses.split(',')).label("purpose", "example").build()?;
    let lock =
        client.lock(lock).timeout(Duration::from_secs(10)).progress_timeout(Duration::from_secs(5));
    let sum = lock.with_lock(work).await??;
    writeln!(std::io::stdout(), "sum {sum}")?;
    client.close().await?;
    Ok(())
}

async fn work(hold: Hold) -> Result<u64, Loss> {
    let mut sum = 0;
    for step in 1..=10 {
        tokio::task::yield_now().await;
        sum += step;
        hold.report_progress()?;
    }
    Ok(sum)
}
