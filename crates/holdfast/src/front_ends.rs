//! The front-ends of a node for HTTP and ZooKeeper clients: their start, and the end of the node: first the front-ends, then
//! the service.

use std::sync::Arc;
use std::time::Duration;

use holdfast_cli::exit::CommandFailure;
use holdfast_http::{HttpConfig, HttpListener, HttpMetrics, LogFilter};
use holdfast_service::Service;
use holdfast_tls::CallerFailures;
use holdfast_zk::{ZkConfig, ZkListener, ZkMetrics};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};

use crate::config::{Config, ZooKeeperConfig};
use crate::process::COMMIT;

/// The time limit of a graceful shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);

/// Resolves when a front-end must shut down.
type ShutdownSignal = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// The running front-ends, their shutdown signal, and what all of them use.
pub(crate) struct FrontEnds {
    shutdown: watch::Sender<bool>,
    running: Vec<JoinHandle<()>>,
    service: Service,
    connections_max: usize,
    failures: CallerFailures,
}

impl FrontEnds {
    pub(crate) fn new(service: Service, connections_max: usize, failures: CallerFailures) -> Self {
        let shutdown = watch::Sender::default();
        Self { shutdown, running: Vec::new(), service, connections_max, failures }
    }

    /// Starts the HTTP front-end, and the console if the configuration has it.
    pub(crate) fn start_http(
        &mut self,
        config: &Config,
        listener: HttpListener,
        log_filter: LogFilter,
        metrics: HttpMetrics,
        registry: Registry,
    ) {
        let http_config = HttpConfig {
            hosts: config.http_hosts.clone(),
            listens_on_loopback: config.http_listen.is_loopback(),
            commit: COMMIT.map(str::to_owned),
            trace_sample: trace_sample(config),
            connections_max: self.connections_max,
            log_filter,
            failures: self.failures.clone(),
            ..HttpConfig::default()
        };
        #[cfg(feature = "console")]
        let console = config.has_console.then(|| holdfast_console::ConsoleSettings {
            has_tls: holdfast_http::has_tls,
            address: holdfast_http::caller_address,
            stopping: self.shutdown.subscribe(),
        });
        let extend = |api| {
            #[cfg(feature = "console")]
            if let Some(console) = console {
                return holdfast_console::router(api, console);
            }
            api
        };
        let (to, registry) = (self.service.clone(), Arc::new(registry));
        self.start(|shutdown| {
            holdfast_http::serve(listener, http_config, to, metrics, registry, extend, shutdown)
        });
    }

    pub(crate) fn start_zookeeper(
        &mut self,
        config: &Config,
        zookeeper: &ZooKeeperConfig,
        listener: ZkListener,
        metrics: ZkMetrics,
    ) {
        let zk_config = ZkConfig {
            requires_credential: zookeeper.requires_credential,
            tick: zookeeper.tick,
            connections_per_address_max: zookeeper.connections_per_address_max,
            frame_bytes_max: zookeeper.frame_max,
            words: zookeeper.words.clone(),
            trace_sample: trace_sample(config),
            data_dir: config.data_dir.clone(),
            connections_max: self.connections_max,
            failures: self.failures.clone(),
            ..ZkConfig::default()
        };
        let to = self.service.clone();
        self.start(|shutdown| holdfast_zk::serve(listener, zk_config, to, metrics, shutdown));
    }

    fn start<F>(&mut self, serve: impl FnOnce(ShutdownSignal) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut shutdown = self.shutdown.subscribe();
        let signal = async move {
            // A dropped sender also means shutdown.
            drop(shutdown.wait_for(|shutdown| *shutdown).await);
        };
        self.running.push(tokio::spawn(serve(Box::pin(signal))));
    }

    /// Wakes the waiters first, so that pending calls do not delay a front-end; then stops the front-ends, then Raft and
    /// the log.
    pub(crate) async fn end_node(self) -> Result<(), CommandFailure> {
        let in_order = async {
            self.service.drain().await;
            self.shutdown.send_replace(true);
            let ended = async {
                for front_end in self.running {
                    front_end.await?;
                }
                Ok::<(), JoinError>(())
            };
            let result = ended.await;
            self.service.shutdown().await;
            result
        };
        match tokio::time::timeout(SHUTDOWN_TIMEOUT, in_order).await {
            Ok(Ok(())) => {
                tracing::info!("stopped");
                Ok(())
            }
            Ok(Err(error)) => Err(CommandFailure::failed(format!(
                "a front-end failed during the shutdown: {error}"
            ))),
            Err(_) => {
                tracing::warn!("the shutdown took longer than {SHUTDOWN_TIMEOUT:?}; stopping now");
                Ok(())
            }
        }
    }
}

/// The share of the calls that are traced.
fn trace_sample(config: &Config) -> Option<f64> {
    config.traces.as_ref().map(|traces| traces.sample)
}
