//! A ZooKeeper client sets one watch, and two changes follow.
//!
//! `one_shot_watch ADDR PATH` takes the HTTP address of a node of `holdfast dev`; its ZooKeeper port is the second after it.

use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;

use holdfast_lab::zk::{ZkClient, get};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, path] = args.as_slice() else {
        return Err("usage: one_shot_watch ADDR PATH".into());
    };
    let mut address: SocketAddr = address.parse()?;
    address.set_port(address.port() + 2);
    let mut watcher = ZkClient::open(address, 30_000).await;
    let mut writer = ZkClient::open(address, 30_000).await;
    writer.create(path, 0).await;
    watcher.done(get(path, true)).await;
    for data in [b"1", b"2"] {
        writer.set(path, data).await;
    }
    watcher.sync().await;
    let events = watcher.events().await;
    writeln!(std::io::stdout(), "2 changes, {} event: {events:?}", events.len())?;
    Ok(())
}
