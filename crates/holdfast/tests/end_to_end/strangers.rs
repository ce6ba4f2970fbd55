//! Callers that prove no identity flood each port of a secure cluster, while a known client works.
//!
//! `HOLDFAST_SECONDS` sets the length of each flood, and `HOLDFAST_CONNECTIONS` the number of its connections;
//! `HOLDFAST_IDLE_STRANGERS=1` measures. `scripts/campaign strangers` prints a table. Times are only printed: the machine of the test may be busy.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use holdfast_client::http::ClientTls;
use holdfast_client::{AccessToken, Client};
use holdfast_tls::{
    ClientCertificates, MaybeTlsStream, PeerTls, TlsConfig, TlsConnector, TlsFiles, TlsMode,
    TlsVersion,
};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::program::{eventually, holdfast};
use crate::tls::SecureCluster;

/// The strangers have an address of their own.
const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// An access token that no cluster has.
const UNKNOWN: &str = "hf_0000000000007_CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkeio2AQ";
/// The time limit of one connection of a stranger.
const CONNECTION: Duration = Duration::from_secs(10);
/// The growth of a node's memory that the test allows, KiB, beside the share that the campaign prints.
const GROWTH_MAX: u64 = 100 << 10;
/// Lines a second that strangers may cause in the log of a node.
const LINES_MAX: u64 = 10;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The ports of a node, by their distance from its HTTP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    Http = 0,
    Peer = 1,
    ZooKeeper = 2,
}

/// What each connection of the strangers does, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flood {
    /// Opens a connection, and closes it.
    Connects,
    /// Completes a TLS handshake, or fails it, and closes the connection.
    Handshakes,
    /// Sends bytes of no protocol.
    Garbage,
    /// Sends small calls on one connection.
    SmallCalls,
    /// Sends transactions of 1.9 MB.
    LargeBodies,
    /// Opens a ZooKeeper session, and sends a credential if it has one.
    Sessions,
}

const FLOODS: [(Port, bool, Flood); 15] = [
    (Port::Http, false, Flood::Connects),
    (Port::Http, false, Flood::Handshakes),
    (Port::Http, false, Flood::Garbage),
    (Port::Http, false, Flood::SmallCalls),
    (Port::Http, true, Flood::SmallCalls),
    (Port::Http, false, Flood::LargeBodies),
    (Port::Http, true, Flood::LargeBodies),
    (Port::ZooKeeper, false, Flood::Connects),
    (Port::ZooKeeper, false, Flood::Handshakes),
    (Port::ZooKeeper, false, Flood::Sessions),
    (Port::ZooKeeper, true, Flood::Sessions),
    (Port::Peer, false, Flood::Connects),
    (Port::Peer, false, Flood::Handshakes),
    (Port::Peer, true, Flood::Handshakes),
    (Port::Peer, false, Flood::Garbage),
];

/// Strangers at one port. With `wrong`, they have a credential that the cluster does not know.
struct Strangers {
    address: SocketAddr,
    wrong: bool,
    flood: Flood,
    tls: TlsConnector,
    /// A node of another CA.
    foreign: Option<PeerTls>,
    attempts: AtomicU64,
}

impl Strangers {
    async fn run(&self) {
        loop {
            self.attempts.fetch_add(1, Ordering::Relaxed);
            drop(timeout(CONNECTION, self.attempt()).await);
            // An attempt that fails at once must not keep the thread.
            tokio::task::yield_now().await;
        }
    }

    async fn attempt(&self) -> std::io::Result<()> {
        let socket = TcpSocket::new_v4()?;
        // A reset leaves no socket that waits for late packets.
        socket.set_zero_linger()?;
        socket.bind((SOURCE, 0).into())?;
        let mut plain = socket.connect(self.address).await?;
        match self.flood {
            Flood::Connects => Ok(()),
            Flood::Garbage => {
                plain.write_all(&[b'x'; 4096]).await?;
                plain.read(&mut [0; 4096]).await.map(drop)
            }
            Flood::Handshakes => self.with_tls(plain).await.map(drop),
            Flood::SmallCalls => self.small_calls(self.with_tls(plain).await?).await,
            Flood::LargeBodies => self.large_body(self.with_tls(plain).await?).await,
            Flood::Sessions => self.session(self.with_tls(plain).await?).await,
        }
    }

    async fn with_tls(&self, plain: TcpStream) -> std::io::Result<MaybeTlsStream> {
        let mut stream = match &self.foreign {
            Some(foreign) if self.wrong => foreign.connect(plain).await?,
            Some(_) | None => self.tls.connect("127.0.0.1", plain).await?,
        };
        if self.foreign.is_some() {
            // In TLS 1.3 the server refuses the certificate after the client's part of the handshake.
            drop(stream.read(&mut [0; 16]).await);
        }
        Ok(stream)
    }

    fn authorization(&self) -> String {
        if self.wrong { format!("Authorization: Bearer {UNKNOWN}\r\n") } else { String::new() }
    }

    async fn small_calls(&self, mut stream: MaybeTlsStream) -> std::io::Result<()> {
        let head = self.authorization();
        let call = format!("PUT /v1/locks/stolen HTTP/1.1\r\nHost: x\r\n{head}\r\n");
        let mut answer = [0; 4096];
        loop {
            stream.write_all(call.as_bytes()).await?;
            stream.flush().await?;
            if stream.read(&mut answer).await? == 0 {
                return Ok(());
            }
            self.attempts.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn large_body(&self, mut stream: MaybeTlsStream) -> std::io::Result<()> {
        let (head, length) = (self.authorization(), LARGE.len());
        let head =
            format!("POST /v1/txn HTTP/1.1\r\nHost: x\r\n{head}Content-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(&LARGE).await?;
        stream.flush().await?;
        stream.read(&mut [0; 4096]).await.map(drop)
    }

    async fn session(&self, mut stream: MaybeTlsStream) -> std::io::Result<()> {
        let mut request = 44_i32.to_be_bytes().to_vec();
        request.extend([0; 12]);
        request.extend(40_000_i32.to_be_bytes());
        request.extend([0; 8]);
        request.extend(16_i32.to_be_bytes());
        request.extend([0; 16]);
        if self.wrong {
            let auth = format!("ci:{UNKNOWN}");
            let mut frame = [-4_i32, 100, 0].map(i32::to_be_bytes).concat();
            for text in ["digest", &auth] {
                frame.extend(i32::try_from(text.len()).unwrap().to_be_bytes());
                frame.extend(text.as_bytes());
            }
            request.extend(i32::try_from(frame.len()).unwrap().to_be_bytes());
            request.extend(frame);
        }
        stream.write_all(&request).await?;
        stream.flush().await?;
        let mut answers = Vec::new();
        drop(timeout(Duration::from_secs(1), stream.read_to_end(&mut answers)).await);
        Ok(())
    }
}

/// A secure cluster with an administrator, and the client that it knows.
struct Guarded {
    cluster: SecureCluster,
    token: String,
    leader: u16,
    started: Instant,
}

impl Guarded {
    fn start() -> Self {
        let (cluster, started) = (SecureCluster::start_all(&[]), Instant::now());
        let (ca, token) = (cluster.path("pki/ca.pem"), cluster.path("admin"));
        cluster.wait_healthy(3, &["--cacert", &ca]);
        let address = format!("127.0.0.1:{}", cluster.port());
        let common = ["--addr", &address, "--cacert", &ca];
        let dir = cluster.path("data-1");
        let bootstrap = ["auth", "bootstrap", "--data-dir", &dir, "--mode", "on", "--out", &token];
        holdfast(&[&bootstrap[..], &common].concat()).assert_code(0);
        let mut guarded = Self { cluster, token, leader: 0, started };
        guarded.leader = u16::try_from(guarded.status()["leader"].as_u64().unwrap()).unwrap();
        guarded
    }

    fn status(&self) -> Value {
        let ca = self.cluster.path("pki/ca.pem");
        let mut status = Value::Null;
        eventually("a status", || {
            let text = self.cluster.status(&["--cacert", &ca, "--access-token-file", &self.token]);
            status = serde_json::from_str(&text).unwrap_or_default();
            status["leader"].is_u64()
        });
        status
    }

    /// A port of the leader.
    fn port(&self, port: Port) -> SocketAddr {
        let first = self.cluster.port() + 3 * (self.leader - 1);
        (Ipv4Addr::LOCALHOST, first + port as u16).into()
    }

    fn resident_kib(&self) -> u64 {
        let process = self.cluster.nodes[usize::from(self.leader) - 1].id();
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().split(' ').next().unwrap().parse().unwrap()
    }

    fn client(&self) -> Client {
        let ca = Some(std::fs::read(self.cluster.path("pki/ca.pem")).unwrap());
        let token = AccessToken::file(PathBuf::from(&self.token)).unwrap();
        let address = format!("https://{}", self.port(Port::Http));
        let builder = Client::builder([address]).tls(ClientTls { ca, identity: None });
        builder.access_token(token).build().unwrap()
    }

    fn strangers(&self, (port, wrong, flood): (Port, bool, Flood)) -> Strangers {
        let tls = TlsConnector::open(&PathBuf::from(self.cluster.path("pki/ca.pem"))).unwrap();
        let foreign = (port == Port::Peer).then(|| {
            let both = self.cluster.path("both.pem");
            let read = |name: &str| std::fs::read_to_string(self.cluster.path(name)).unwrap();
            std::fs::write(&both, read("pki/ca.pem") + &read("other/ca.pem")).unwrap();
            let file = |name: &str| PathBuf::from(self.cluster.path(name));
            let files = TlsFiles {
                certificate: file("pki/stranger.pem"),
                key: file("pki/stranger.key"),
                ca: Some(both.into()),
            };
            let (mode, min_version) = (TlsMode::Require, TlsVersion::V12);
            let client_certificates = ClientCertificates::Require;
            PeerTls::open(TlsConfig { files, mode, client_certificates, min_version }).unwrap()
        });
        let (address, attempts) = (self.port(port), AtomicU64::new(0));
        Strangers { address, wrong, flood, tls, foreign, attempts }
    }

    /// The sum of a metric of the leader, over its series with this text.
    fn refused(&self, port: &str) -> f64 {
        let ca = self.cluster.path("pki/ca.pem");
        let header = std::fs::read_to_string(&self.token).unwrap();
        let url = format!("https://{}/metrics", self.port(Port::Http));
        let mut curl = std::process::Command::new("curl");
        let output =
            curl.args(["-sS", "--cacert", &ca, "-H", header.trim(), &url]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let series = format!("holdfast_callers_refused_total{{port=\"{port}\"");
        let values = text.lines().filter(|line| line.starts_with(&series));
        values.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }
}

/// The times of the known client's cycles of an acquire and a release.
async fn cycles(client: &Client, lasts: Duration) -> Vec<Duration> {
    let (began, mut took) = (Instant::now(), Vec::new());
    while began.elapsed() < lasts || took.is_empty() {
        let start = Instant::now();
        client.lock("honest").acquire().await.unwrap().release().await.unwrap();
        took.push(start.elapsed());
    }
    took
}

/// The 99th percentile, in milliseconds.
fn p99(mut took: Vec<Duration>) -> f64 {
    took.sort();
    took[(took.len() - 1) * 99 / 100].as_secs_f64() * 1e3
}

/// Made once: copies for each connection would take the caches of the processors from the nodes.
static LARGE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let item = br#"{"create":"/flood","data":"x"},"#;
    [&br#"{"then":["#[..], &item.repeat(1_900_000 / item.len())].concat()
});

/// A runtime for the strangers. Their machines are others: in a measurement they get the processors only while nobody else uses
/// them. In a test, which may share its machine with others, they have a low priority.
fn far_away(idle: bool) -> Runtime {
    let builder = &mut Builder::new_multi_thread();
    let yields = move || {
        let thread = nix::unistd::gettid().to_string();
        let (program, args) = if idle {
            ("chrt", ["--idle", "--pid", "0", &*thread])
        } else {
            ("renice", ["--priority", "10", "--pid", &*thread])
        };
        let done = std::process::Command::new(program).args(args).output();
        assert!(
            done.is_ok_and(|done| done.status.success()),
            "{program} of util-linux or bsdutils"
        );
    };
    builder.worker_threads(2).enable_all().on_thread_start(yields).build().unwrap()
}

#[test]
fn a_flood_of_strangers_at_each_port_deposes_no_leader_and_fills_no_memory() {
    let seconds = Duration::from_secs(setting("HOLDFAST_SECONDS", 1));
    let connections = setting("HOLDFAST_CONNECTIONS", 50);
    let mut guarded = Guarded::start();
    let (runtime, far) = (
        Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap(),
        far_away(setting("HOLDFAST_IDLE_STRANGERS", 0) > 0),
    );
    let client = runtime.block_on(async { guarded.client() });
    let term = guarded.status()["term"].as_u64();
    runtime.block_on(cycles(&client, seconds));
    eprintln!(
        "| port | credential | flood | attempts | p99 before, ms | p99 during | ratio | terms | MiB before | MiB most |"
    );
    for (port, wrong, flood) in FLOODS {
        let before = p99(runtime.block_on(cycles(&client, seconds)));
        let (memory, strangers) = (guarded.resident_kib(), guarded.strangers((port, wrong, flood)));
        let strangers = Arc::new(strangers);
        let tasks: Vec<_> = (0..connections)
            .map(|_| {
                far.spawn({
                    let strangers = strangers.clone();
                    async move { strangers.run().await }
                })
            })
            .collect();
        let mut most = memory;
        let mut during = Vec::new();
        for _ in 0..seconds.as_secs().max(1) {
            during.extend(runtime.block_on(cycles(&client, Duration::from_secs(1))));
            most = most.max(guarded.resident_kib());
        }
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        let during = p99(during);
        let now = guarded.status()["term"].as_u64();
        let (attempts, credential) =
            (strangers.attempts.load(Ordering::Relaxed), if wrong { "wrong" } else { "none" });
        eprintln!(
            "| {port:?} | {credential} | {flood:?} | {attempts} | {before:.1} | {during:.1} | {:.1} | {} | {} | {} |",
            during / before,
            now.unwrap() - term.unwrap(),
            memory >> 10,
            most >> 10
        );
        assert!(attempts > 0, "{port:?} {flood:?}");
        assert_eq!(now, term, "{port:?} {flood:?}: the leader has changed");
        assert!(most < memory + GROWTH_MAX, "{port:?} {flood:?}: {memory} KiB, then {most} KiB");
    }
    for port in ["http", "zookeeper", "peer"] {
        assert!(guarded.refused(port) > 0.0, "{port}");
    }
    let lasted = guarded.started.elapsed().as_secs() + 1;
    let node = &mut guarded.cluster.nodes[usize::from(guarded.leader) - 1];
    node.kill();
    let log = node.wait().stderr;
    let lines = log.lines().filter(|line| line.contains("a caller proved no identity"));
    let lines = lines.count() as u64;
    assert!((3..=lasted * LINES_MAX).contains(&lines), "{lines} lines in {lasted} s");
}
