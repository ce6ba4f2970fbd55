//! Appends lines to a file, one writer at a time, and stops by itself when the lock is lost.
//!
//! `journal ADDR[,ADDR] LOCK TTL_MS FILE [LINES [KIND]]`: prints `held TOKEN`, then appends a line with the token about every
//! millisecond, and says `writing` after the first. Ends with exit code 0 after so many lines (`-`: as many as it can), with
//! 3 and the reason when the lock is lost. KIND is `exclusive`, `shared`, `upgradable` or `permits` (two of two). Try it:
//! stop it with `kill -STOP`, let the ttl pass, wake it with `kill -CONT`; not one more line is written.

use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use holdfast_client::{Client, Guard, Lock, Loss};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [addresses, lock, ttl, file, rest @ ..] = args.as_slice() else {
        return Err("usage: journal ADDR[,ADDR] LOCK TTL_MS FILE [LINES [KIND]]".into());
    };
    let lines = rest.first().filter(|lines| *lines != "-");
    let lines = lines.map_or(Ok(u64::MAX), |lines| lines.parse())?;
    let client = Client::new(addresses.split(','))?;
    let lock = client.lock(lock).ttl(Duration::from_millis(ttl.parse()?));
    let guard = of_kind(lock, rest.get(1).map(String::as_str))?.acquire().await?;
    say(&format!("held {}", guard.token()))?;
    match append(&guard, file, lines).await? {
        Ok(()) => {
            guard.release().await?;
            say("released")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(loss) => {
            say(&format!("lost {loss}"))?;
            Ok(ExitCode::from(3))
        }
    }
}

fn of_kind(lock: Lock, kind: Option<&str>) -> Result<Lock, String> {
    match kind {
        None | Some("exclusive") => Ok(lock),
        Some("shared") => Ok(lock.shared()),
        Some("upgradable") => Ok(lock.upgradable()),
        Some("permits") => Ok(lock.limit(2).permits(2)),
        Some(other) => Err(format!("no kind `{other}`: exclusive, shared, upgradable, permits")),
    }
}

async fn append(guard: &Guard, file: &str, lines: u64) -> std::io::Result<Result<(), Loss>> {
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    for line in 0..lines {
        tokio::time::sleep(Duration::from_millis(1)).await;
        // Right before each write. What could still come between is caught by a file that checks the token.
        if let Err(loss) = guard.ensure() {
            return Ok(Err(loss));
        }
        file.write_all(format!("{}\n", guard.token()).as_bytes())?;
        if line == 0 {
            say("writing")?;
        }
    }
    Ok(Ok(()))
}

fn say(line: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{line}")
}
