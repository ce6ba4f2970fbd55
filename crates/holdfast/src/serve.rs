//! `holdfast serve`: one node of a cluster.
//!
//! `serve` starts the configuration, the telemetry, the sockets, Raft, the service and the front-ends, and stops them
//! in reverse order. A node that cannot trust its disk stops at once with exit code 70 and the reason.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use clap::Args;
use holdfast_cli::arguments::key_value;
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::output;
use holdfast_cli::signals::StopSignals;
use holdfast_http::{HttpListener, HttpMetrics, LogFilter};
use holdfast_raft::{PeerListen, RaftConfig, StartError, Timing, readmitted_as};
use holdfast_service::{Service, ServiceConfig, ServiceMetrics, StopReason};
use holdfast_tls::{CallerFailures, TlsConfig, TlsMode};
use holdfast_types::Address;
use holdfast_zk::{ZkListener, ZkMetrics};
use prometheus_client::registry::Registry;
use tokio::sync::oneshot;

use crate::certificates::{NodeTls, deny_certificates, reload_certificates};
use crate::config::{Config, ConfigSources, ZooKeeperConfig};
use crate::front_ends::FrontEnds;
use crate::process::{connections_of_port, register_metrics, report_memory};
use crate::scheduled_backup::make_scheduled_backups;
use crate::traces::TraceExport;
use crate::{audit_sink, systemd_and_probes, telemetry};

/// Run one node of a cluster.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct ServeArgs {
    /// The TOML file of the node.
    #[arg(long, env = "HOLDFAST_CONFIG", value_name = "FILE")]
    config: PathBuf,
    /// The id of this member; overrides `node`.
    #[arg(long, value_name = "ID")]
    node: Option<String>,
    /// The directory of the log, the snapshots and the identity; overrides `data_dir`.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Overrides `log.level`.
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// Overrides `log.format`: auto, text or json.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Overrides any key, for example `--set raft.heartbeat=50ms`.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
    /// Create a new cluster; after 5s also while a minority of its members is absent. For the first start of one node; a
    /// node that belongs to a cluster rejects it.
    #[arg(long)]
    bootstrap: bool,
    /// After a failure that a restart does not repair (exit codes 70, 71 and 72), keep the process and answer only the
    /// probes: for Kubernetes, which would start the node again and again.
    #[arg(long)]
    stay_when_halted: bool,
    /// Check the configuration, print it as this node would use it, and stop.
    #[arg(long)]
    check: bool,
    /// Stop at the end of stdin, which means that the parent process has ended.
    #[arg(long, hide = true)]
    exit_with_parent: bool,
}

/// Runs one node until a signal or a failure.
///
/// # Errors
/// [`CommandFailure::Failed`] if it cannot start, [`CommandFailure::Halted`] if it cannot continue.
pub(crate) fn run(args: &ServeArgs) -> Result<(), CommandFailure> {
    let config = Config::load(&sources(args)).map_err(CommandFailure::failed)?;
    if args.check {
        let nowhere = PeerListen::Address((Ipv4Addr::UNSPECIFIED, 0).into());
        raft_config(&config, nowhere).check().map_err(|error| not_started(&error))?;
        NodeTls::open(&config.tls).map_err(CommandFailure::failed)?;
        output::print(&summary(&config));
        return Ok(());
    }
    let kept = config.clone();
    match run_node(config, args) {
        Err(failure) if args.stay_when_halted && failure.forbids_restart() => {
            stay(&kept, &failure);
            Err(failure)
        }
        end => end,
    }
}

fn run_node(config: Config, args: &ServeArgs) -> Result<(), CommandFailure> {
    let config = as_readmitted_as(config)?;
    let traces = trace_export(&config).map_err(CommandFailure::Failed)?;
    let Config { node: id, log_level, log_format, .. } = &config;
    let (log_filter, _log_guard) = telemetry::start(*id, log_level, *log_format, traces.as_ref())
        .map_err(CommandFailure::Failed)?;
    use_small_pages();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(config.threads)
        .enable_all()
        .build()
        .map_err(CommandFailure::failed)?;
    let end = runtime.block_on(node(config, args, log_filter, traces.as_ref()));
    if let Some(traces) = traces {
        traces.shut_down();
    }
    // `shutdown_background` does not wait for the thread that reads stdin.
    runtime.shutdown_background();
    end
}

/// Keeps the process until a signal. The node has stopped, so the probes have a runtime of their own.
fn stay(config: &Config, failure: &CommandFailure) {
    output::write_stderr(&format!("holdfast: {failure}; staying, because of --stay-when-halted"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    if let Ok(runtime) = runtime {
        runtime.block_on(systemd_and_probes::answer_probes(config, &failure.to_string()));
    }
}

/// A readmitted node has the id of its data directory, and the addresses of the configured one.
fn as_readmitted_as(mut config: Config) -> Result<Config, CommandFailure> {
    if config.rejoin_when_emptied
        && let Some(node) =
            readmitted_as(&config.data_dir, config.node).map_err(|error| not_started(&error))?
        && let Some(addresses) = config.members.remove(&config.node)
    {
        config.members.insert(node, addresses);
        config.node = node;
    }
    Ok(config)
}

fn trace_export(config: &Config) -> Result<Option<TraceExport>, String> {
    let Some(traces) = &config.traces else { return Ok(None) };
    TraceExport::start(&traces.endpoint, traces.headers()?, &config.cluster, config.node).map(Some)
}

/// The settings that decide whether this node is the right one.
fn summary(config: &Config) -> String {
    let tls = config.tls.zookeeper.as_ref();
    let zookeeper = config.zookeeper.as_ref().map(|zookeeper| with_tls(&zookeeper.listen, tls));
    let traces = config.traces.as_ref().map(|traces| traces.endpoint.clone());
    let rows = [
        ("cluster", config.cluster.clone()),
        ("node", config.node.to_string()),
        ("members", config.members.len().to_string()),
        ("http", with_tls(&config.http_listen, config.tls.http.as_ref())),
        ("peer", with_tls(&config.peer_listen, config.tls.raft.as_ref())),
        ("zookeeper", zookeeper.unwrap_or_else(|| "off".to_owned())),
        ("console", if config.has_console { "on" } else { "off" }.to_owned()),
        ("data", config.data_dir.display().to_string()),
        ("traces", traces.unwrap_or_else(|| "off".to_owned())),
    ];
    format!("the configuration is valid\n\n{}", output::facts(["setting", "value"], rows))
}

fn with_tls(address: &Address, tls: Option<&TlsConfig>) -> String {
    let tls = match tls.map(|tls| tls.mode) {
        None => "without TLS",
        Some(TlsMode::Allow) => "with and without TLS",
        Some(TlsMode::Require) => "TLS",
    };
    format!("{address}, {tls}")
}

fn sources(args: &ServeArgs) -> ConfigSources {
    let mut sources = ConfigSources::of_process(args.config.clone())
        .with_flag("--node", "node", args.node.clone())
        .with_flag("--data-dir", "data_dir", args.data_dir.clone())
        .with_flag("--log-level", "log.level", args.log_level.clone())
        .with_flag("--log-format", "log.format", args.log_format.clone());
    for (key, value) in &args.set {
        sources = sources.with_flag("--set", key, Some(value.clone()));
    }
    sources
}

/// Keeps the kernel from backing the heap with huge pages: a waiting call uses only parts of its buffers, and with huge
/// pages all of them are resident.
fn use_small_pages() {
    if let Err(error) = nix::sys::prctl::set_thp_disable(true) {
        tracing::debug!(%error, "cannot disable huge pages");
    }
}

async fn node(
    config: Config,
    args: &ServeArgs,
    log_filter: LogFilter,
    traces: Option<&TraceExport>,
) -> Result<(), CommandFailure> {
    let mut signals = StopSignals::install().map_err(CommandFailure::failed)?;
    let connections_max = connections_of_port(&config);
    let tls = NodeTls::open(&config.tls).map_err(CommandFailure::failed)?;
    let http = listen(&config.http_listen, "http", &config).await?;
    let peer = listen(&config.peer_listen, "peer", &config).await?;
    let peer = peer.into_std().map_err(CommandFailure::failed)?;
    let zookeeper = listen_for_zookeeper(&config).await?;

    let mut metrics = NodeMetrics::register(traces);
    let raft = RaftConfig {
        bootstrap: args.bootstrap,
        tls: tls.raft.clone(),
        failures: metrics.failures.clone(),
        connections_max,
        ..raft_config(&config, PeerListen::Bound(peer))
    };
    let service = Service::start(service_config(&config), raft, metrics.service).await;
    let service = service.map_err(|error| not_started(&error))?;
    tracing::info!(cluster = config.cluster, http = %config.http_listen, peer = %config.peer_listen,
        data_dir = %config.data_dir.display(), "started");
    service.register_raft_metrics(metrics.registry.sub_registry_with_prefix("holdfast"));
    start_background_tasks(&config, &tls, &service)?;

    let mut front_ends = FrontEnds::new(service.clone(), connections_max, metrics.failures);
    let http = HttpListener { listener: http, tls: tls.http };
    front_ends.start_http(&config, http, log_filter, metrics.http, metrics.registry);
    if let Some((zookeeper, listener)) = zookeeper {
        let listener = ZkListener { listener, tls: tls.zookeeper };
        front_ends.start_zookeeper(&config, zookeeper, listener, metrics.zookeeper);
    }
    let reporting = tokio::spawn(systemd_and_probes::report(service.clone()));
    until_stopped(&mut signals, args, &service).await?;
    reporting.abort();
    systemd_and_probes::report_stopping();
    front_ends.end_node().await
}

/// The metrics of this process.
struct NodeMetrics {
    registry: Registry,
    service: ServiceMetrics,
    http: HttpMetrics,
    zookeeper: ZkMetrics,
    failures: CallerFailures,
}

impl NodeMetrics {
    fn register(traces: Option<&TraceExport>) -> Self {
        let mut registry = Registry::default();
        register_metrics(&mut registry);
        let own = registry.sub_registry_with_prefix("holdfast");
        let (service, http) = (ServiceMetrics::register(own), HttpMetrics::register(own));
        let (zookeeper, failures) = (ZkMetrics::register(own), CallerFailures::register(own));
        if let Some(traces) = traces {
            traces.register_metrics(own);
        }
        Self { registry, service, http, zookeeper, failures }
    }
}

/// Waits until a signal or the end of the parent process stops the node. Fails if the node cannot continue.
async fn until_stopped(
    signals: &mut StopSignals,
    args: &ServeArgs,
    service: &Service,
) -> Result<(), CommandFailure> {
    tokio::select! {
        signal = signals.next() => tracing::info!(signal = signal.as_str(), "stopping"),
        () = parent_ended(args.exit_with_parent) => tracing::warn!("the parent process of this node has ended; stopping"),
        reason = service.wait_failed() => {
            tracing::error!(%reason, "this node cannot continue and stops");
            return Err(stopped(reason));
        }
    }
    Ok(())
}

/// Starts what a node does beside its front-ends: certificates, memory, scheduled backups and the audit trail.
fn start_background_tasks(
    config: &Config,
    tls: &NodeTls,
    service: &Service,
) -> Result<(), CommandFailure> {
    if let Some(address) = config.unprotected() {
        tracing::warn!(%address, "other machines can reach this address without TLS (security.mode)");
    }
    service.set_certificates(tls.certificates());
    tls.deny(&service.denied_certificates());
    tokio::spawn(deny_certificates(tls.clone(), service.clone()));
    tokio::spawn(reload_certificates(tls.clone(), service.clone()));
    tokio::spawn(report_memory(service.clone(), config.tree_bytes_max));
    if let Some(backup) = config.backup.clone() {
        let (cluster, node) = (config.cluster.clone(), service.clone());
        tokio::spawn(make_scheduled_backups(backup, config.disk_reserve, cluster, node));
    }
    audit_sink::start(&config.audit, host(config), &config.data_dir, service)
        .map_err(|error| CommandFailure::failed(format!("audit: {error}")))
}

fn service_config(config: &Config) -> ServiceConfig {
    ServiceConfig {
        tree_bytes_max: config.tree_bytes_max,
        requires_authentication: config.requires_authentication(),
        unprotected: config.unprotected().map(ToString::to_string),
        backup_expected_every: config.backup_expect_every,
        durable_hold_alarm_after: config.durable_alarm_after,
        priority: config.priority,
        container_idle: config.container_idle,
        sweep_every: config.sweep_every,
        ..ServiceConfig::default()
    }
}

/// The host of this node in messages to a syslog server.
fn host(config: &Config) -> &str {
    config.members.get(&config.node).map_or("-", |member| member.http.host())
}

fn stopped(reason: StopReason) -> CommandFailure {
    match reason {
        StopReason::Failed(why) => {
            CommandFailure::Halted(format!("this node cannot continue: {why}"))
        }
        StopReason::Removed(why) => CommandFailure::Removed(why),
        StopReason::OldProgram(why) => CommandFailure::OldProgram(why),
        StopReason::Readmitted(why) => CommandFailure::Readmitted(why),
    }
}

/// Maps a start error to an exit code. A supervisor must not restart a node that cannot trust its disk; other errors
/// are ordinary failures.
fn not_started(error: &StartError) -> CommandFailure {
    match error {
        StartError::Store(_)
        | StartError::NoIdentity(_)
        | StartError::InterruptedRecovery { .. } => CommandFailure::Halted(error.to_string()),
        StartError::OldProgram(why) => CommandFailure::OldProgram(why.clone()),
        StartError::Config(_)
        | StartError::DataDir { .. }
        | StartError::InUse(_)
        | StartError::NotEmpty(_)
        | StartError::NotBlank(_)
        | StartError::OtherNode { .. }
        | StartError::OtherCluster { .. }
        | StartError::AlreadyBootstrapped
        | StartError::Listen { .. } => CommandFailure::failed(error),
    }
}

/// Binds the socket of a listener. The error names the key to change.
async fn listen(
    address: &Address,
    listener: &str,
    config: &Config,
) -> Result<tokio::net::TcpListener, CommandFailure> {
    let key = match listener {
        "http" => "http.listen",
        "zookeeper" => "zookeeper.listen",
        _ => "raft.listen",
    };
    let node = config.node;
    let failed = |error: std::io::Error| {
        CommandFailure::failed(format!(
            "cannot listen on {address}: {error}; stop the process that uses it, or change {key}, or {listener} of member {node}"
        ))
    };
    tokio::net::TcpListener::bind(address.to_string()).await.map_err(failed)
}

/// The listener of the ZooKeeper front-end, if the configuration has one.
async fn listen_for_zookeeper(
    config: &Config,
) -> Result<Option<(&ZooKeeperConfig, tokio::net::TcpListener)>, CommandFailure> {
    let Some(zookeeper) = &config.zookeeper else { return Ok(None) };
    let listener = listen(&zookeeper.listen, "zookeeper", config).await?;
    Ok(Some((zookeeper, listener)))
}

fn raft_config(config: &Config, peer: PeerListen) -> RaftConfig {
    RaftConfig {
        timing: Timing {
            heartbeat: config.heartbeat,
            election_min: config.election_min,
            election_max: config.election_max,
        },
        disk_reserve_bytes: config.disk_reserve,
        snapshot_log_bytes: config.snapshot_log,
        scrub_every: config.scrub_every,
        may_create_cluster: config.may_create_cluster(),
        replace_after: config.replace_after,
        rejoin_when_emptied: config.rejoin_when_emptied,
        ..RaftConfig::new(
            config.cluster.clone(),
            config.node,
            config.members.clone(),
            config.data_dir.clone(),
            peer,
        )
    }
}

/// Resolves at the end of stdin, if `watched`.
async fn parent_ended(watched: bool) {
    if !watched {
        return std::future::pending().await;
    }
    let (sender, ended) = oneshot::channel();
    // A separate thread reads stdin: a blocking read must not delay the runtime or its end.
    std::thread::spawn(move || {
        drop(std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()));
        let _dropped = sender.send(());
    });
    drop(ended.await);
}
