//! Readers and a writer, a pool of permits, and work that shows it goes on.
//!
//! `kinds ADDR[,ADDR]`: prints one line a step. Everything happens in one process here; each client could as well be a
//! machine of its own.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use holdfast_client::{Client, Mode};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let addresses = std::env::args().nth(1).ok_or("usage: kinds ADDR[,ADDR]")?;
    let client = Client::new(addresses.split(','))?;
    read_then_write(&client).await?;
    permits(&client).await?;
    progress(&client).await?;
    client.close().await?;
    Ok(())
}

/// A reader that may write later is upgradable: two plain readers that both want to write would wait for each
/// other.
async fn read_then_write(client: &Client) -> Result<(), Box<dyn Error>> {
    let reader = client.lock("kinds/page").shared().acquire().await?;
    let mut editor = client.lock("kinds/page").upgradable().acquire().await?;
    say(&format!("reading: {} and {}", reader.mode().as_str(), editor.mode().as_str()))?;
    let old = editor.token();
    reader.release().await?;
    let new = editor.upgrade(Duration::from_secs(10)).await?;
    say(&format!("writing with a new token: {}", new > old))?;
    editor.downgrade(Mode::Shared).await?;
    say(&format!("reading again with the same token: {}", editor.token() == new))?;
    editor.release().await?;
    Ok(())
}

/// Four permits; a store keeps one mark to each slot.
async fn permits(client: &Client) -> Result<(), Box<dyn Error>> {
    let pool = client.semaphore("kinds/pool", 4);
    let three = pool.clone().permits(3).acquire().await?;
    say(&format!("{} permits: {}", three.permits(), three.fence_resources().join(" ")))?;
    let busy = pool.clone().permits(2).try_acquire().await.is_err();
    say(&format!("two more are too many: {busy}"))?;
    three.release().await?;
    Ok(())
}

/// A renewal shows that the process lives; a touch shows that the work goes on. Without one in time the lock is given back.
async fn progress(client: &Client) -> Result<(), Box<dyn Error>> {
    let guard = client.lock("kinds/import").beacon(Duration::from_millis(200)).acquire().await?;
    for _row in 0..3 {
        guard.touch()?;
    }
    // The work is stuck.
    say(&format!("lost: {}", guard.lost().await))?;
    Ok(())
}

fn say(line: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{line}")
}
