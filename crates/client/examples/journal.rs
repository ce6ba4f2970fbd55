//! Appends lines to a file under a lock, and stops when the lock is lost.
//!
//! `journal ADDR[,ADDR] LOCK TTL_MS FILE [LINES [KIND]]` prints `held TOKEN`, appends a line about every millisecond,
//! and prints `writing` after the first line. Each line has the token and the time of the preceding check of the lock,
//! in microseconds since 1970. The program exits with code 0 after LINES lines (`-`: no limit). If the lock is lost, it
//! prints the reason and exits with code 3. KIND is `exclusive`, `shared`, `upgradable`, `permits` (two of two),
//! `leader` (of the election LOCK) or `several` (a multi-lock of LOCK and LOCK/too).
//!
//! To cause a loss, stop the program with `kill -STOP` until the TTL has passed, then resume it with `kill -CONT`. If
//! it stopped between a check and a write, it still writes that line. Only a store that checks the token rejects it.

use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_client::{Client, FencingToken, Guard, Loss, MultiGuard};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [addresses, lock, ttl, file, rest @ ..] = args.as_slice() else {
        return Err("usage: journal ADDR[,ADDR] LOCK TTL_MS FILE [LINES [KIND]]".into());
    };
    let lines = rest.first().filter(|lines| *lines != "-");
    let lines = lines.map_or(Ok(u64::MAX), |lines| lines.parse())?;
    let client = Client::new(addresses.split(','))?;
    let ttl = Duration::from_millis(ttl.parse()?);
    let held = Held::take(&client, lock, ttl, rest.get(1).map(String::as_str)).await?;
    print_line(&format!("held {}", held.token()))?;
    match append(&held, file, lines).await? {
        Ok(()) => {
            held.release().await?;
            print_line("released")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(loss) => {
            print_line(&format!("lost {loss}"))?;
            Ok(ExitCode::from(3))
        }
    }
}

/// The guard of the writer.
enum Held {
    One(Box<Guard>),
    Many(MultiGuard),
}

impl Held {
    async fn take(
        client: &Client,
        lock: &str,
        ttl: Duration,
        kind: Option<&str>,
    ) -> Result<Self, Box<dyn Error>> {
        let one = client.lock(lock).ttl(ttl);
        let one = match kind {
            None | Some("exclusive") => one,
            Some("shared") => one.shared(),
            Some("upgradable") => one.upgradable(),
            Some("permits") => one.limit(2).permits(2),
            Some("leader") => {
                let leadership = client.election(lock).ttl(ttl).campaign("journal").await?;
                return Ok(Self::One(Box::new(leadership.into_guard())));
            }
            Some("several") => {
                let locks = client.lock_many([lock.to_owned(), format!("{lock}/too")]).ttl(ttl);
                return Ok(Self::Many(locks.acquire().await?));
            }
            Some(other) => {
                return Err(format!("unknown KIND `{other}`: see the top of this file").into());
            }
        };
        Ok(Self::One(Box::new(one.acquire().await?)))
    }

    /// The token of LOCK, the first lock in name order.
    fn token(&self) -> FencingToken {
        match self {
            Self::One(guard) => guard.token(),
            Self::Many(guard) => guard.tokens().into_values().next().unwrap_or_default(),
        }
    }

    fn ensure(&self) -> Result<(), Loss> {
        match self {
            Self::One(guard) => guard.ensure(),
            Self::Many(guard) => guard.ensure(),
        }
    }

    async fn release(self) -> Result<(), holdfast_client::Error> {
        match self {
            Self::One(guard) => guard.release().await,
            Self::Many(guard) => guard.release().await,
        }
    }
}

async fn append(held: &Held, file: &str, lines: u64) -> std::io::Result<Result<(), Loss>> {
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    for line in 0..lines {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let checked_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // The check must come right before each write.
        if let Err(loss) = held.ensure() {
            return Ok(Err(loss));
        }
        file.write_all(format!("{} {}\n", held.token(), checked_at.as_micros()).as_bytes())?;
        if line == 0 {
            print_line("writing")?;
        }
    }
    Ok(Ok(()))
}

fn print_line(line: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{line}")
}
