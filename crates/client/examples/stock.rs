//! Sells a stock under a sharded lock, so that sellers queue at different shards (shards). Each sale holds the lock
//! of one shard. The shop rejects tokens that are older than the newest token of that shard.
//!
//! `stock ADDR[,ADDR] LOCK SHARDS SHOP SELLERS` runs SELLERS sellers until the stock is sold. Each seller has its own
//! connection to the shop at address SHOP. A request is one line: `read SHARD TOKEN` returns `sold N`, `full` or
//! `stale`; `write SHARD TOKEN N` returns `ok` or `stale`; `open` returns a shard with stock left, or `none`.

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
    let [addresses, lock, shards, shop, sellers] = args.as_slice() else {
        return Err("usage: stock ADDR[,ADDR] LOCK SHARDS SHOP SELLERS".into());
    };
    let client = Client::builder(addresses.split(',')).ttl(Duration::from_secs(1)).build()?;
    let lock = client.lock(lock).shards(shards.parse()?).timeout(Duration::from_secs(5));
    let mut selling = JoinSet::new();
    for _ in 0..sellers.parse::<u32>()? {
        selling.spawn(sell(lock.clone(), Shop::connect(shop).await?));
    }
    let mut sold = 0;
    while let Some(one) = selling.join_next().await {
        sold += one??;
    }
    client.close().await?;
    writeln!(std::io::stdout(), "sold {sold}, nothing is left")?;
    Ok(())
}

/// Sells one piece after the other. The cluster may select a sold-out shard; the seller then names an open one.
async fn sell(lock: Lock, mut shop: Shop) -> Result<u32, Failure> {
    let (mut sold, mut next_shard) = (0, None);
    loop {
        let wanted = next_shard.take().into_iter().fold(lock.clone(), Lock::shard);
        let guard = match wanted.acquire().await {
            Ok(guard) => guard,
            Err(error @ (Error::InvalidArgument(_) | Error::Rejected(_))) => {
                return Err(error.into());
            }
            // The wait ended, or there is no leader: the seller holds no lock.
            Err(_) => continue,
        };
        let shard = guard.shard().ok_or("the grant has no shard number")?;
        let token = guard.token();
        let reply = shop.request(&format!("read {shard} {token}")).await?;
        if let Some(before) = reply.strip_prefix("sold ") {
            let after = before.parse::<u64>()? + 1;
            let written = shop.request(&format!("write {shard} {token} {after}")).await?;
            sold += u32::from(written == "ok");
        } else if reply == "full" {
            match shop.request("open").await?.as_str() {
                "none" => {
                    guard.release().await.ok();
                    return Ok(sold);
                }
                open => next_shard = Some(open.parse()?),
            }
        }
        // The shop also rejects this token after a loss, because the next token is larger.
        guard.release().await.ok();
    }
}

/// A connection to the shop.
struct Shop {
    lines: Lines<BufReader<OwnedReadHalf>>,
    write: OwnedWriteHalf,
}

impl Shop {
    async fn connect(address: &str) -> std::io::Result<Self> {
        let (read, write) = TcpStream::connect(address).await?.into_split();
        Ok(Self { lines: BufReader::new(read).lines(), write })
    }

    async fn request(&mut self, line: &str) -> Result<String, Failure> {
        self.write.write_all(format!("{line}\n").as_bytes()).await?;
        Ok(self.lines.next_line().await?.ok_or("the shop closed the connection")?)
    }
}
