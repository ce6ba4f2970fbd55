//! Sells a stock that is cut into segments, so that sellers do not all stand in one queue: each sale is made under the lock
//! of one segment, and the shop refuses tokens that are older than the newest it has seen of that segment.
//!
//! `stock ADDR[,ADDR] LOCK SEGMENTS SHOP SELLERS`: so many sellers at once, each on a connection of its own to the shop at
//! `SHOP`, until nothing is left. The shop answers lines: `read SEGMENT TOKEN` with `sold N`, `full` or `stale`,
//! `write SEGMENT TOKEN N` with `ok` or `stale`, and `open` with a segment in which something is left, or `none`.

use std::error::Error as StdError;
use std::io::Write;
use std::time::Duration;

use holdfast_client::{Client, Error, Lock};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::JoinSet;

type Failure = Box<dyn StdError + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [addresses, lock, segments, shop, sellers] = args.as_slice() else {
        return Err("usage: stock ADDR[,ADDR] LOCK SEGMENTS SHOP SELLERS".into());
    };
    let client = Client::builder(addresses.split(',')).ttl(Duration::from_secs(1)).build()?;
    let lock = client.lock(lock).segments(segments.parse()?).wait(Duration::from_secs(5));
    let mut selling = JoinSet::new();
    for _ in 0..sellers.parse::<u32>()? {
        selling.spawn(sell(lock.clone(), Shop::at(shop).await?));
    }
    let mut sold = 0;
    while let Some(one) = selling.join_next().await {
        sold += one??;
    }
    client.close().await?;
    writeln!(std::io::stdout(), "sold {sold}, nothing is left")?;
    Ok(())
}

/// Sells one piece after the other. A segment that is sold out may still be the emptiest, so then another one is named.
async fn sell(lock: Lock, mut shop: Shop) -> Result<u32, Failure> {
    let (mut sold, mut named) = (0, None);
    loop {
        let wanted = named.take().into_iter().fold(lock.clone(), Lock::segment);
        let guard = match wanted.acquire().await {
            Ok(guard) => guard,
            Err(error @ (Error::Argument(_) | Error::Refused(_))) => return Err(error.into()),
            // Not in time, or no leader: nothing is held.
            Err(_) => continue,
        };
        let segment = guard.segment().ok_or("the answer names no segment")?;
        let token = guard.token();
        let seen = shop.ask(&format!("read {segment} {token}")).await?;
        if let Some(before) = seen.strip_prefix("sold ") {
            let after = before.parse::<u64>()? + 1;
            let written = shop.ask(&format!("write {segment} {token} {after}")).await?;
            sold += u32::from(written == "ok");
        } else if seen == "full" {
            match shop.ask("open").await?.as_str() {
                "none" => {
                    guard.release().await.ok();
                    return Ok(sold);
                }
                open => named = Some(open.parse()?),
            }
        }
        // Lost is as good as released: the next token is larger.
        guard.release().await.ok();
    }
}

/// A connection to the shop.
struct Shop {
    lines: Lines<BufReader<OwnedReadHalf>>,
    write: OwnedWriteHalf,
}

impl Shop {
    async fn at(address: &str) -> std::io::Result<Self> {
        let (read, write) = TcpStream::connect(address).await?.into_split();
        Ok(Self { lines: BufReader::new(read).lines(), write })
    }

    async fn ask(&mut self, line: &str) -> Result<String, Failure> {
        self.write.write_all(format!("{line}\n").as_bytes()).await?;
        Ok(self.lines.next_line().await?.ok_or("the shop has closed")?)
    }
}
