//! One candidate of an election: campaigns, leads for a while and resigns.
//!
//! `leader ADDR[,ADDR] ELECTION VALUE TTL_MS [MS]` prints `leads TOKEN` when it is elected, and `resigned` after MS
//! milliseconds. If the leadership is lost, it prints `lost REASON` and exits with code 3. To see a failover, start two
//! processes, stop the leader with `kill -9` or `kill -STOP`, and wait until the TTL has passed.

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
    let lead_for = rest.first().map_or(Ok(u64::MAX), |ms| ms.parse()).map(Duration::from_millis)?;
    let client = Client::new(addresses.split(','))?;
    let election = client.election(election).ttl(Duration::from_millis(ttl.parse()?));
    let leadership = election.campaign(value).await?;
    print_line(&format!("leads {}", leadership.token()))?;
    tokio::select! {
        loss = leadership.lost() => {
            print_line(&format!("lost {loss}"))?;
            return Ok(ExitCode::from(3));
        }
        () = tokio::time::sleep(lead_for) => {}
    }
    leadership.resign().await?;
    print_line("resigned")?;
    Ok(ExitCode::SUCCESS)
}

fn print_line(line: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{line}")
}
