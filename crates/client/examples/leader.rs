//! Stands for an election, and says who leads: one process of many that do the same.
//!
//! `leader ADDR[,ADDR] ELECTION VALUE TTL_MS [MS]`: prints `leads TOKEN` when it is elected, `resigned` after so many
//! milliseconds, and `lost REASON` when the leadership is lost, with exit code 3. Try it: start two, stop the leader with
//! `kill -9` or `kill -STOP`, and let the ttl pass.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use holdfast_client::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [addresses, election, value, ttl, rest @ ..] = args.as_slice() else {
        return Err("usage: leader ADDR[,ADDR] ELECTION VALUE TTL_MS [MS]".into());
    };
    let leads = rest.first().map_or(Ok(u64::MAX), |ms| ms.parse()).map(Duration::from_millis)?;
    let client = Client::new(addresses.split(','))?;
    let election = client.election(election).ttl(Duration::from_millis(ttl.parse()?));
    let leadership = election.campaign(value).await?;
    say(&format!("leads {}", leadership.token()))?;
    tokio::select! {
        loss = leadership.lost() => {
            say(&format!("lost {loss}"))?;
            return Ok(ExitCode::from(3));
        }
        () = tokio::time::sleep(leads) => {}
    }
    leadership.resign().await?;
    say("resigned")?;
    Ok(ExitCode::SUCCESS)
}

fn say(line: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{line}")
}
