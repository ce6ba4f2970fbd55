//! The network between the nodes: one TCP proxy for every ordered pair, controlled by the test.
//!
//! Node *i* reaches *j* through the proxy (i, j), whose address is in *i*'s configuration. A [`Flow`] controls one
//! direction: bytes from *i* to *j*, on connections of either node. A black hole behaves like packet loss: connections
//! stay open, and bytes arrive after the heal. A cut closes and refuses connections. With a seed, every chunk has a
//! reproducible pseudo-random delay. A node that restarts at another address keeps its proxies.
//!
//! Bounds: 16 KiB per direction of a connection; a new connection into a black hole times out after 3 s.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

const CHUNK_LEN: usize = 16 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// What happens to bytes in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The proxy forwards bytes.
    Open,
    /// The proxy keeps bytes until the heal; connections stay open.
    BlackHole,
    /// The proxy closes connections, and accepts new ones only to close them.
    Cut,
    /// The proxy closes connections, and its port refuses new ones, as on a machine where no process listens.
    Refused,
}

impl Flow {
    fn ends_connections(self) -> bool {
        matches!(self, Self::Cut | Self::Refused)
    }
}

type Pair = (u64, u64);

/// The client's id; node ids start at 1.
const CLIENT: u64 = 0;

/// All proxies of a cluster. Dropping the value stops them.
pub struct Links {
    addresses: BTreeMap<Pair, SocketAddr>,
    flows: Arc<BTreeMap<Pair, watch::Sender<Flow>>>,
    targets: BTreeMap<u64, watch::Sender<Option<SocketAddr>>>,
    _proxies: JoinSet<()>,
}

/// Pseudo-random delays, the same for the same seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delays {
    seed: u64,
    max: Duration,
}

impl Delays {
    pub(crate) const NONE: Delays = Delays { seed: 0, max: Duration::ZERO };

    pub(crate) fn new(seed: u64, max: Duration) -> Self {
        Self { seed, max }
    }

    fn next(&mut self) -> Duration {
        // splitmix64
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let span_us = u64::try_from(self.max.as_micros()).unwrap_or(u64::MAX).max(1);
        Duration::from_micros((mixed ^ (mixed >> 31)) % span_us)
    }
}

impl Links {
    /// Starts a proxy for every ordered pair of nodes 1 to `count`; [`Links::point`] sets the node addresses.
    pub async fn between(count: u64) -> Self {
        Self::delayed_between(count, Delays::NONE).await
    }

    pub(crate) async fn delayed_between(count: u64, delays: Delays) -> Self {
        let pairs = (1..=count).flat_map(|from| (1..=count).map(move |to| (from, to)));
        Self::start(pairs.collect(), delays).await
    }

    /// Starts a proxy between one client and each of `nodes`.
    pub async fn of_client(nodes: &[String]) -> Self {
        let ids = || (1..).zip(nodes);
        let links = Self::start(ids().map(|(id, _)| (CLIENT, id)).collect(), Delays::NONE).await;
        for (id, node) in ids() {
            links.point(id, Some(node.parse().expect("an address")));
        }
        links
    }

    async fn start(pairs: Vec<Pair>, delays: Delays) -> Self {
        let directions = pairs.iter().flat_map(|(from, to)| [(*from, *to), (*to, *from)]);
        let flows = directions.map(|pair| (pair, watch::Sender::new(Flow::Open)));
        let flows: Arc<BTreeMap<Pair, _>> = Arc::new(flows.collect());
        let targets: BTreeMap<u64, _> =
            pairs.iter().map(|(_, to)| (*to, watch::Sender::new(None))).collect();
        let (mut addresses, mut proxies) = (BTreeMap::new(), JoinSet::new());
        for pair in pairs {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a proxy port");
            addresses.insert(pair, listener.local_addr().expect("a bound address"));
            let seed = delays.seed ^ (pair.0 << 32) ^ (pair.1 << 40);
            let target = targets[&pair.1].subscribe();
            let link =
                Link { pair, target, flows: flows.clone(), delays: Delays { seed, ..delays } };
            proxies.spawn(link.accept(listener));
        }
        Self { addresses, flows, targets, _proxies: proxies }
    }

    /// Sets the address of a node and closes all connections to it. With `None`, new connections are closed too.
    pub fn point(&self, node: u64, address: Option<SocketAddr>) {
        self.targets[&node].send_replace(address);
    }

    /// Proxy addresses for the client, one per node.
    pub fn client_endpoints(&self) -> Vec<String> {
        self.addresses.values().map(SocketAddr::to_string).collect()
    }

    /// Black-holes all traffic between the client and the nodes; connections stay open.
    pub fn isolate_client(&self) {
        self.isolate(CLIENT, Flow::BlackHole);
    }

    /// Address of the proxy from `from` to `to`.
    pub fn address(&self, from: u64, to: u64) -> SocketAddr {
        self.addresses[&(from, to)]
    }

    /// Sets the flow of bytes from `from` to `to`.
    pub fn set(&self, from: u64, to: u64, flow: Flow) {
        self.flows[&(from, to)].send_replace(flow);
    }

    /// Sets the flow between a node and all others, in both directions.
    pub fn isolate(&self, node: u64, flow: Flow) {
        for (pair, state) in self.flows.iter() {
            if pair.0 == node || pair.1 == node {
                state.send_replace(flow);
            }
        }
    }

    /// Opens every direction.
    pub fn heal(&self) {
        for state in self.flows.values() {
            state.send_replace(Flow::Open);
        }
    }
}

struct Link {
    pair: Pair,
    target: watch::Receiver<Option<SocketAddr>>,
    flows: Arc<BTreeMap<Pair, watch::Sender<Flow>>>,
    delays: Delays,
}

impl Link {
    async fn accept(mut self, listener: TcpListener) {
        let address = listener.local_addr().expect("a bound address");
        let (mut connections, mut listener) = (JoinSet::new(), Some(listener));
        let mut forth = self.flows[&self.pair].subscribe();
        loop {
            let is_refused = *forth.borrow_and_update() == Flow::Refused;
            if is_refused {
                listener = None;
            } else if listener.is_none() {
                listener = Some(TcpListener::bind(address).await.expect("the port of the proxy"));
            }
            let accepting = async {
                match &listener {
                    Some(listener) => listener.accept().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                accepted = accepting => match accepted {
                    Ok((client, _)) => {
                        connections.spawn(self.connection().carry(client));
                    }
                    Err(_) => return,
                },
                changed = forth.changed() => if changed.is_err() { return },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    fn connection(&mut self) -> Connection {
        self.delays.seed = self.delays.seed.wrapping_add(1);
        let back = (self.pair.1, self.pair.0);
        Connection {
            target: self.target.clone(),
            forth: self.flows[&self.pair].subscribe(),
            back: self.flows[&back].subscribe(),
            delays: self.delays,
        }
    }
}

struct Connection {
    target: watch::Receiver<Option<SocketAddr>>,
    forth: watch::Receiver<Flow>,
    back: watch::Receiver<Flow>,
    delays: Delays,
}

impl Connection {
    /// Forwards bytes in both directions until one side closes or the link is cut.
    async fn carry(mut self, client: TcpStream) {
        let handshake = async {
            open(&mut self.forth).await?;
            open(&mut self.back).await?;
            let target = *self.target.borrow_and_update();
            TcpStream::connect(target?).await.ok()
        };
        let Ok(Some(server)) = tokio::time::timeout(CONNECT_TIMEOUT, handshake).await else {
            return;
        };
        // Nagle's algorithm would add to the configured delays.
        if client.set_nodelay(true).and(server.set_nodelay(true)).is_err() {
            return;
        }
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let forth = pump(from_client, to_server, self.forth, self.delays);
        let back = pump(from_server, to_client, self.back, self.delays);
        // The end of either direction ends both: a request-reply protocol does not use half-closed connections.
        tokio::select! { _ = forth => {}, _ = back => {}, _ = self.target.changed() => {} }
    }
}

/// Waits until the direction is open; `None` if it is cut or the links are dropped.
async fn open(flow: &mut watch::Receiver<Flow>) -> Option<()> {
    let state = *flow.wait_for(|flow| *flow != Flow::BlackHole).await.ok()?;
    (state == Flow::Open).then_some(())
}

async fn cut(flow: &mut watch::Receiver<Flow>) {
    // A dropped sender counts as a cut.
    drop(flow.wait_for(|flow| flow.ends_connections()).await);
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut flow: watch::Receiver<Flow>,
    mut delays: Delays,
) -> Option<()> {
    let mut chunk = vec![0; CHUNK_LEN];
    loop {
        let len = tokio::select! {
            read = from.read(&mut chunk) => read.ok()?,
            () = cut(&mut flow) => return None,
        };
        if !delays.max.is_zero() {
            tokio::time::sleep(delays.next()).await;
        }
        open(&mut flow).await?;
        if len == 0 {
            return to.shutdown().await.ok();
        }
        to.write_all(&chunk[..len]).await.ok()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::until;

    const QUICK: Duration = Duration::from_millis(200);
    const LONG: Duration = Duration::from_secs(5);

    /// Returns the links, a connection from node 1 to an echo server (node 2), and the server task.
    async fn echo() -> (Links, TcpStream, JoinSet<()>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("bind");
        let address = listener.local_addr().expect("address");
        let mut servers = JoinSet::new();
        servers.spawn(async move {
            let mut sessions = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                sessions.spawn(async move {
                    let (mut reader, mut writer) = stream.split();
                    tokio::io::copy(&mut reader, &mut writer).await
                });
            }
        });
        let links = Links::delayed_between(2, Delays::new(7, Duration::from_millis(2))).await;
        links.point(2, Some(address));
        let stream = TcpStream::connect(links.address(1, 2)).await.expect("connect");
        (links, stream, servers)
    }

    async fn ask(stream: &mut TcpStream, deadline: Duration) -> Option<u8> {
        let mut byte = [0];
        stream.write_all(b"x").await.ok()?;
        let read = tokio::time::timeout(deadline, stream.read_exact(&mut byte)).await;
        read.ok()?.ok().map(|_| byte[0])
    }

    #[tokio::test]
    async fn an_open_link_forwards_bytes_in_both_directions() {
        let (_links, mut stream, _servers) = echo().await;
        assert_eq!(ask(&mut stream, LONG).await, Some(b'x'));
    }

    #[tokio::test]
    async fn a_black_hole_in_either_direction_delays_bytes_until_the_heal() {
        for (from, to) in [(1, 2), (2, 1)] {
            let (links, mut stream, _servers) = echo().await;
            assert_eq!(ask(&mut stream, LONG).await, Some(b'x'));
            links.set(from, to, Flow::BlackHole);
            assert_eq!(ask(&mut stream, QUICK).await, None);
            links.heal();
            let mut late = [0];
            let read = tokio::time::timeout(LONG, stream.read_exact(&mut late)).await;
            assert!(read.expect("in time").is_ok(), "the delayed bytes arrive after the heal");
        }
    }

    #[tokio::test]
    async fn a_cut_closes_and_refuses_until_the_heal() {
        let (links, mut stream, _servers) = echo().await;
        assert_eq!(ask(&mut stream, LONG).await, Some(b'x'));
        links.isolate(2, Flow::Cut);
        assert_eq!(ask(&mut stream, LONG).await, None);
        let mut again = TcpStream::connect(links.address(1, 2)).await.expect("the proxy accepts");
        assert_eq!(ask(&mut again, LONG).await, None);
        links.heal();
        let mut healed = TcpStream::connect(links.address(1, 2)).await.expect("connect");
        assert_eq!(ask(&mut healed, LONG).await, Some(b'x'));
    }

    #[tokio::test]
    async fn a_refused_link_closes_connections_and_its_port_refuses_until_the_heal() {
        let (links, mut stream, _servers) = echo().await;
        assert_eq!(ask(&mut stream, LONG).await, Some(b'x'));
        links.isolate(2, Flow::Refused);
        assert_eq!(ask(&mut stream, LONG).await, None);
        let address = links.address(1, 2);
        let refused = async || TcpStream::connect(address).await.is_err();
        until("the port refuses", LONG, refused).await;
        links.heal();
        until("the port accepts", LONG, async || !refused().await).await;
        let mut healed = TcpStream::connect(address).await.expect("connect");
        assert_eq!(ask(&mut healed, LONG).await, Some(b'x'));
    }

    #[tokio::test]
    async fn a_node_at_another_address_keeps_its_proxy_and_loses_its_connections() {
        let (links, mut stream, _servers) = echo().await;
        assert_eq!(ask(&mut stream, LONG).await, Some(b'x'));
        links.point(2, None);
        assert_eq!(ask(&mut stream, LONG).await, None);
        let (other, _stream, _others) = echo().await;
        links.point(2, *other.targets[&2].borrow());
        let mut again = TcpStream::connect(links.address(1, 2)).await.expect("connect");
        assert_eq!(ask(&mut again, LONG).await, Some(b'x'));
    }

    #[test]
    fn the_same_seed_gives_the_same_delays() {
        let draw = |seed| {
            let mut delays = Delays::new(seed, Duration::from_millis(5));
            (0..20).map(|_| delays.next()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(draw(3).iter().all(|delay| *delay < Duration::from_millis(5)));
    }
}
