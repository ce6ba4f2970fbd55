//! Proxies between nodes: one for every direction in which a node connects to another.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(crate) struct Links {
    links: BTreeMap<(u64, u64), Link>,
    targets: BTreeMap<u64, Arc<watch::Sender<Option<SocketAddr>>>>,
}

struct Link {
    address: SocketAddr,
    open: Arc<watch::Sender<bool>>,
    task: JoinHandle<()>,
}

impl Links {
    pub(crate) async fn new(count: u64) -> Self {
        let targets: BTreeMap<_, _> =
            (1..=count).map(|id| (id, Arc::new(watch::Sender::new(None)))).collect();
        let mut links = BTreeMap::new();
        for from in 1..=count {
            for to in 1..=count {
                links.insert((from, to), Link::new(targets[&to].clone()).await);
            }
        }
        Self { links, targets }
    }

    /// The address at which `from` reaches `to`.
    pub(crate) fn address(&self, from: u64, to: u64) -> String {
        self.links[&(from, to)].address.to_string()
    }

    /// Sets the address of a node; `None` closes every connection to it.
    pub(crate) fn point(&self, id: u64, address: Option<SocketAddr>) {
        self.targets[&id].send_replace(address);
    }

    /// Drops all traffic between a node and the others, or lets it pass again.
    pub(crate) fn isolate(&self, id: u64, cut: bool) {
        for ((from, to), link) in &self.links {
            if (*from == id) != (*to == id) {
                link.open.send_replace(!cut);
            }
        }
    }
}

impl Link {
    async fn new(target: Arc<watch::Sender<Option<SocketAddr>>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let open = Arc::new(watch::Sender::new(true));
        let task = tokio::spawn(accept(listener, target, open.clone()));
        Self { address, open, task }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(
    listener: TcpListener,
    target: Arc<watch::Sender<Option<SocketAddr>>>,
    open: Arc<watch::Sender<bool>>,
) {
    let mut tasks = tokio::task::JoinSet::new();
    while let Ok((inbound, _)) = listener.accept().await {
        let (mut target, open) = (target.subscribe(), open.subscribe());
        tasks.spawn(async move {
            let Some(address) = *target.borrow_and_update() else { return };
            let Ok(outbound) = TcpStream::connect(address).await else { return };
            inbound.set_nodelay(true).unwrap();
            outbound.set_nodelay(true).unwrap();
            let (from, to) = (inbound.into_split(), outbound.into_split());
            tokio::select! {
                () = pump(from.0, to.1, open.clone()) => {}
                () = pump(to.0, from.1, open) => {}
                _ = target.changed() => {}
            }
        });
    }
}

/// Forwards bytes while the link is open; holds them back while it is cut.
async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut open: watch::Receiver<bool>) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let Ok(len @ 1..) = from.read(&mut buffer).await else { return };
        if open.wait_for(|open| *open).await.is_err() {
            return;
        }
        if to.write_all(&buffer[..len]).await.is_err() {
            return;
        }
    }
}
