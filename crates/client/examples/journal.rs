//! Appends lines to a file, one writer at a time, and stops by itself when the lock is lost.
//!
//! `journal ADDR[,ADDR] LOCK TTL_MS FILE [LINES [KIND]]`: prints `held TOKEN`, then appends a line about every millisecond,
//! and says `writing` after the first. A line is the token, and when the writer last asked whether it still holds, in
//! microseconds since 1970. Ends with exit code 0 after so many lines (`-`: as many as it can), with 3 and the reason when
//! the lock is lost. KIND is `exclusive`, `shared`, `upgradable`, `permits` (two of two), `leader` (of the election LOCK) or
//! `several` (LOCK and LOCK/too). Try it: stop it with `kill -STOP`, let the ttl pass, wake it with `kill -CONT`; not one
//! more line is asked for. If it stood still between question and write, that one line still comes: only a file that
//! checks the token refuses it.

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
    say(&format!("held {}", held.token()))?;
    match append(&held, file, lines).await? {
        Ok(()) => {
            held.release().await?;
            say("released")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(loss) => {
            say(&format!("lost {loss}"))?;
            Ok(ExitCode::from(3))
        }
    }
}

/// What the writer holds while it writes.
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
                return Err(format!("no kind `{other}`: see the top of this file").into());
            }
        };
        Ok(Self::One(Box::new(one.acquire().await?)))
    }

    /// The token of LOCK.
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
        let asked = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Right before each write.
        if let Err(loss) = held.ensure() {
            return Ok(Err(loss));
        }
        file.write_all(format!("{} {}\n", held.token(), asked.as_micros()).as_bytes())?;
        if line == 0 {
            say("writing")?;
        }
    }
    Ok(Ok(()))
}

fn say(line: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{line}")
}
