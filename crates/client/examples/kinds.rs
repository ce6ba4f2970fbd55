//! Shared and exclusive modes, permits of a semaphore, and a progress timeout.
//!
//! `kinds ADDR[,ADDR]` prints one line for each step. All steps run in one process; separate clients behave the same.

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

/// A reader that may write later acquires in upgradable mode. Two shared readers that both wanted to write would
/// deadlock.
async fn read_then_write(client: &Client) -> Result<(), Box<dyn Error>> {
    let reader = client.lock("kinds/page").shared().acquire().await?;
    let mut editor = client.lock("kinds/page").upgradable().acquire().await?;
    print_line(&format!("reading: {} and {}", reader.mode().as_str(), editor.mode().as_str()))?;
    let old = editor.token();
    reader.release().await?;
    let new = editor.upgrade(Duration::from_secs(10)).await?;
    print_line(&format!("writing with a new token: {}", new > old))?;
    editor.downgrade(Mode::Shared).await?;
    print_line(&format!("reading again with the same token: {}", editor.token() == new))?;
    editor.release().await?;
    Ok(())
}

/// A semaphore with four permits. A store keeps one mark for each slot.
async fn permits(client: &Client) -> Result<(), Box<dyn Error>> {
    let pool = client.semaphore("kinds/pool", 4);
    let three = pool.clone().permits(3).acquire().await?;
    print_line(&format!("{} permits: {}", three.permits(), three.fence_resources().join(" ")))?;
    let busy = pool.clone().permits(2).try_acquire().await.is_err();
    print_line(&format!("two more are too many: {busy}"))?;
    three.release().await?;
    Ok(())
}

/// A renewal shows that the process is alive, a report shows that the work makes progress. Without a report within the
/// progress timeout, the client releases the lock.
async fn progress(client: &Client) -> Result<(), Box<dyn Error>> {
    let guard =
        client.lock("kinds/import").progress_timeout(Duration::from_millis(200)).acquire().await?;
    for _row in 0..3 {
        guard.report_progress()?;
    }
    // The work makes no progress from here on.
    print_line(&format!("lost: {}", guard.lost().await))?;
    Ok(())
}

fn print_line(line: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{line}")
}
