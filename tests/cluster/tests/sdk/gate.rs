//! A network between one client and the nodes that can be closed: bytes then go nowhere, and nothing is said about it.
//!
//! Bounds: as many connections as the client opens.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// One proxy a node, under one switch. Dropping it ends them.
pub(crate) struct Gate {
    endpoints: Vec<String>,
    closed: watch::Sender<bool>,
    _proxies: JoinSet<()>,
}

impl Gate {
    /// An open gate in front of each of these nodes.
    pub(crate) async fn before(nodes: &[String]) -> Self {
        let closed = watch::Sender::new(false);
        let (mut endpoints, mut proxies) = (Vec::new(), JoinSet::new());
        for node in nodes {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
            endpoints.push(listener.local_addr().expect("its address").to_string());
            let target = node.parse().expect("address");
            proxies.spawn(accept(listener, target, closed.clone()));
        }
        Self { endpoints, closed, _proxies: proxies }
    }

    /// Where the client has to connect.
    pub(crate) fn endpoints(&self) -> &[String] {
        &self.endpoints
    }

    /// From now on nothing passes.
    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, closed: watch::Sender<bool>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(carry(client, target, closed.subscribe()));
    }
}

async fn carry(mut client: TcpStream, target: SocketAddr, mut closed: watch::Receiver<bool>) {
    let Ok(mut node) = TcpStream::connect(target).await else { return };
    tokio::select! {
        _end = tokio::io::copy_bidirectional(&mut client, &mut node) => return,
        _closed = closed.wait_for(|closed| *closed) => {}
    }
    // Both ends stay open and hear nothing.
    std::future::pending::<()>().await;
}
