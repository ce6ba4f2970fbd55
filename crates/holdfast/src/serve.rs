//! `holdfast serve`: one node, from its configuration to its last answer.
//!
//! Owns the order of things: configuration, telemetry, sockets, raft and service, the doors; and backwards when it ends.
//! A node that cannot trust its disk stops serving at once and exits with its reason (code 70): it never guesses.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use holdfast_http::{HttpConfig, HttpMetrics};
use holdfast_raft::{PeerListen, RaftConfig, StartError, Timing};
use holdfast_service::{Service, ServiceConfig, ServiceMetrics};
use holdfast_zk::{ZkConfig, ZkMember, ZkMetrics};
use prometheus_client::registry::Registry;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::cli::ServeArgs;
use crate::config::{Address, Config, Sources, ZooKeeperDoor};
use crate::exit::Stop;
use crate::telemetry;

/// How long a graceful end may take in all; what is still busy then is cut.
const END_MAX: Duration = Duration::from_secs(20);

/// What a door waits for.
type BoxFuture = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// SIGINT and SIGTERM: the wish that we end.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From now on these signals no longer end the process by themselves. Needs a runtime.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub(crate) fn install() -> std::io::Result<Self> {
        let (interrupt, terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate })
    }

    /// Resolves with the name of the next one.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

/// Runs one node until it is told to end, or fails.
///
/// # Errors
/// [`Stop::Failed`] if it cannot start, [`Stop::Halted`] if it cannot go on.
pub(crate) fn run(args: &ServeArgs) -> Result<(), Stop> {
    let config = Config::load(&sources(args)).map_err(Stop::failed)?;
    telemetry::start(config.node, &config.log_level, config.log_format).map_err(Stop::Failed)?;
    raise_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(config.threads)
        .enable_all()
        .build()
        .map_err(Stop::failed)?;
    let end = runtime.block_on(node(config, args));
    // A thread that still reads stdin must not keep us.
    runtime.shutdown_background();
    end
}

fn sources(args: &ServeArgs) -> Sources {
    let mut sources = Sources::of_process(args.config.clone())
        .with_flag("--node", "node", args.node.clone())
        .with_flag("--data-dir", "data_dir", args.data_dir.clone())
        .with_flag("--log-level", "log.level", args.log_level.clone())
        .with_flag("--log-format", "log.format", args.log_format.clone());
    for (key, value) in &args.set {
        sources = sources.with_flag("--set", key, Some(value.clone()));
    }
    sources
}

/// Every client and peer is an open file: as many as this process may have.
pub(crate) fn raise_open_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, most)| setrlimit(Resource::RLIMIT_NOFILE, most, most).map(|()| most));
    match raised {
        Ok(most) => tracing::debug!(open_files = most, "raised the limit of open files"),
        Err(error) => tracing::warn!(%error, "cannot raise the limit of open files"),
    }
}

async fn node(config: Config, args: &ServeArgs) -> Result<(), Stop> {
    let mut signals = Signals::install().map_err(Stop::failed)?;
    let http = listen(&config.http_listen, "http", &config).await?;
    let peer = listen(&config.peer_listen, "peer", &config).await?;
    let http = tokio::net::TcpListener::from_std(http).map_err(Stop::failed)?;
    let zookeeper = match &config.zookeeper {
        Some(door) => {
            let listener = listen(&door.listen, "zookeeper", &config).await?;
            Some((door, tokio::net::TcpListener::from_std(listener).map_err(Stop::failed)?))
        }
        None => None,
    };

    let mut registry = Registry::with_prefix("holdfast");
    let metrics = ServiceMetrics::register(&mut registry);
    let http_metrics = HttpMetrics::register(&mut registry);
    let zk_metrics = ZkMetrics::register(&mut registry);
    let raft = RaftConfig { bootstrap: args.bootstrap, ..raft_config(&config, peer) };
    let tunables =
        ServiceConfig { tree_bytes_max: config.tree_bytes_max, ..ServiceConfig::default() };
    let service =
        Service::start(tunables, raft, metrics).await.map_err(|error| not_started(&error))?;
    tracing::info!(cluster = config.cluster, http = %config.http_listen, peer = %config.peer_listen,
        data_dir = %config.data_dir.display(), "started");

    let mut doors = Doors::default();
    let (to, registry) = (service.clone(), Arc::new(registry));
    doors.open(|shut| {
        holdfast_http::serve(http, HttpConfig::default(), to, http_metrics, registry, shut)
    });
    if let Some((door, listener)) = zookeeper {
        let (zk_config, to) = (zk_config(&config, door), service.clone());
        doors.open(|shut| holdfast_zk::serve(listener, zk_config, to, zk_metrics, shut));
    }
    tokio::select! {
        name = signals.next() => tracing::info!(signal = name, "stopping"),
        () = parent_gone(args.exit_with_parent) => tracing::warn!("the process that started this node is gone: stopping"),
        reason = service.wait_failed() => {
            tracing::error!(reason, "this node cannot go on and stops");
            return Err(Stop::Halted(format!("this node cannot go on: {reason}")));
        }
    }
    end(service, doors).await
}

/// A disk that cannot be trusted is no reason to be started again at once; everything else is an error like others.
fn not_started(error: &StartError) -> Stop {
    match error {
        StartError::Store(_) | StartError::NoIdentity(_) => Stop::Halted(error.to_string()),
        StartError::Config(_)
        | StartError::DataDir { .. }
        | StartError::InUse(_)
        | StartError::OtherNode { .. }
        | StartError::OtherCluster { .. }
        | StartError::AlreadyBootstrapped
        | StartError::Listen { .. } => Stop::failed(error),
    }
}

/// The doors that are open, and how they are told to shut.
#[derive(Debug, Default)]
struct Doors {
    shut: watch::Sender<bool>,
    open: Vec<JoinHandle<()>>,
}

impl Doors {
    /// Opens one; it gets what resolves when it is to shut.
    fn open<F>(&mut self, serve: impl FnOnce(BoxFuture) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut shut = self.shut.subscribe();
        let told = async move {
            // Either way it is the end.
            drop(shut.wait_for(|shut| *shut).await);
        };
        self.open.push(tokio::spawn(serve(Box::pin(told))));
    }

    /// Shuts all of them, and waits until they are.
    async fn shut(self) -> Result<(), tokio::task::JoinError> {
        self.shut.send_replace(true);
        for door in self.open {
            door.await?;
        }
        Ok(())
    }
}

/// Waiters first, so that no call keeps a door open; then the doors; then leadership and the log.
async fn end(service: Service, doors: Doors) -> Result<(), Stop> {
    let in_order = async {
        service.drain().await;
        let shut = doors.shut().await;
        service.shutdown().await;
        shut
    };
    match tokio::time::timeout(END_MAX, in_order).await {
        Ok(Ok(())) => {
            tracing::info!("stopped");
            Ok(())
        }
        Ok(Err(error)) => Err(Stop::failed(format!("a door ended badly: {error}"))),
        Err(_) => {
            tracing::warn!("still busy after {END_MAX:?}: stopping all the same");
            Ok(())
        }
    }
}

/// Binds a door, with the key to change in the complaint.
async fn listen(address: &Address, door: &str, config: &Config) -> Result<TcpListener, Stop> {
    let key = match door {
        "http" => "http.listen",
        "zookeeper" => "zookeeper.listen",
        _ => "raft.listen",
    };
    let node = config.node;
    let complaint = |error: std::io::Error| {
        Stop::failed(format!(
            "cannot listen on {address}: {error}; stop what uses it, or change {key}, or {door} of member {node}"
        ))
    };
    let listener = tokio::net::TcpListener::bind(address.to_string()).await.map_err(complaint)?;
    listener.into_std().map_err(complaint)
}

fn zk_config(config: &Config, door: &ZooKeeperDoor) -> ZkConfig {
    let member = |member: &crate::config::Member| ZkMember {
        peer: member.peer.to_string(),
        zookeeper: member.zookeeper.to_string(),
    };
    let members = config.members.iter().map(|(id, known)| (*id, member(known)));
    ZkConfig {
        tick: door.tick,
        connections_per_address_max: door.connections_per_address_max,
        frame_bytes_max: door.frame_max,
        words: door.words.clone(),
        data_dir: config.data_dir.clone(),
        members: members.collect(),
        ..ZkConfig::default()
    }
}

fn raft_config(config: &Config, peer: TcpListener) -> RaftConfig {
    let member = |member: &crate::config::Member| holdfast_raft::MemberAddresses {
        peer: member.peer.to_string(),
        http: member.http.to_string(),
        zookeeper: member.zookeeper.to_string(),
    };
    let members = config.members.iter().map(|(id, address)| (*id, member(address))).collect();
    RaftConfig {
        timing: Timing {
            heartbeat: config.heartbeat,
            election_min: config.election_min,
            election_max: config.election_max,
        },
        disk_reserve_bytes: config.disk_reserve,
        snapshot_log_bytes: config.snapshot_log,
        ..RaftConfig::new(
            config.cluster.clone(),
            config.node,
            members,
            config.data_dir.clone(),
            PeerListen::Bound(peer),
        )
    }
}

/// Resolves when stdin ends, if that is what ends us.
async fn parent_gone(watched: bool) {
    if !watched {
        return std::future::pending().await;
    }
    let (gone, noticed) = oneshot::channel();
    // Its own thread: a blocking read must keep neither the runtime nor its end waiting.
    std::thread::spawn(move || {
        drop(std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()));
        let _ended = gone.send(());
    });
    drop(noticed.await);
}
