//! Starting and stopping the service of a node.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt;
use holdfast_raft::{Observer, RaftConfig, RaftNode, StartError};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::apply_observer::{AnswerPeer, ApplyObserver};
use crate::auth::access_token::random_bytes;
use crate::auth::refusals::Refusals;
use crate::config::ServiceConfig;
use crate::digests::{StateCheck, entry_check};
use crate::health::clock_check;
use crate::leases::leader_timers;
use crate::leases::restart_time::RestartTime;
use crate::members::leader_priority;
use crate::metrics::ServiceMetrics;
use crate::quotas::local_uses::{CallRates, LocalUses};
use crate::recent::RecentRows;
use crate::recent_sampler;
use crate::request::RequestContext;
use crate::service::{Service, ServiceParts};
use crate::service_call::unavailable;
use crate::stream::{RenewalQueue, StreamEnd, renew_streams};

impl Service {
    /// Starts the node: opens its data and joins its peers. It serves as soon as there is a leader.
    ///
    /// # Errors
    /// [`StartError`] names the problem with the data directory or the configuration, and the remedy.
    pub async fn start(
        config: ServiceConfig,
        raft: RaftConfig,
        metrics: ServiceMetrics,
    ) -> Result<Self, StartError> {
        Self::start_observed(config, raft, metrics, |observer| observer).await
    }

    /// Starts the node with `wrap` around its observer, where tests insert a defect.
    pub(crate) async fn start_observed(
        config: ServiceConfig,
        raft: RaftConfig,
        metrics: ServiceMetrics,
        wrap: impl FnOnce(Arc<ApplyObserver>) -> Arc<dyn Observer>,
    ) -> Result<Self, StartError> {
        let (node, data_dir) = (raft.node, raft.data_dir.clone());
        let disk_reserve = raft.disk_reserve_bytes;
        let cluster = raft.cluster.clone();
        let started = Arc::new(OnceLock::new());
        let answer_peer = answer_peer(started.clone());
        let run = u64::from_le_bytes(
            random_bytes().map_err(|error| StartError::Store(error.to_string()))?,
        );
        let restart_time = RestartTime::new(node, run);
        let observer =
            ApplyObserver::new(&config, &raft.data_dir, metrics, restart_time, answer_peer);
        let raft = RaftNode::start(raft, |_| wrap(observer.clone())).await?;
        let (revision, digest) = raft.read(|machine| (machine.revision(), machine.digest()));
        observer.digests.lock().start(revision, digest);
        raft.refuse_forwarded(true);
        raft.settle_time(None);
        let parts = Arc::new(ServiceParts {
            raft,
            observer,
            stream_renewals: RenewalQueue::default(),
            node,
            data_dir,
            cluster,
            config,
            diverged: tokio::sync::watch::Sender::new(None),
            digests_differ_at: AtomicU64::new(0),
            state_check: tokio::sync::watch::Sender::new(StateCheck::Pending),
            certificates: Mutex::default(),
            memory: Mutex::default(),
            backup_failure: Mutex::default(),
            clocks: Mutex::default(),
            audit_sinks: Mutex::default(),
            disk_reserve,
            draining: CancellationToken::new(),
            stopped: CancellationToken::new(),
            refusals: Refusals::default(),
            call_rates: CallRates::default(),
            local_uses: LocalUses::default(),
            backups: Arc::new(Semaphore::new(1)),
            recent: RecentRows::default(),
        });
        let service = Self { parts, context: Arc::new(RequestContext::anonymous()), call: None };
        let node = service.as_node();
        let _only_once = started.set(node.clone());
        tokio::spawn(leader_timers::run(node.clone()));
        tokio::spawn(entry_check::run(node.clone()));
        tokio::spawn(clock_check::run(node.clone()));
        tokio::spawn(leader_priority::run(node.clone()));
        tokio::spawn(recent_sampler::run(node.clone()));
        tokio::spawn(renew_streams(node));
        Ok(service)
    }

    /// Rejects new waits and streams, and ends parked calls and watches with `ShuttingDown`. Resolves when no call is
    /// parked. Open streams still serve requests that their front-end has read.
    pub async fn drain(&self) {
        self.draining().cancel();
        self.observer().waiter_permits.drained().await;
    }

    /// Drains, ends the streams, hands leadership over and stops.
    pub async fn shutdown(&self) {
        self.drain().await;
        self.observer().streams.end_all(StreamEnd::ShuttingDown);
        self.stopped().cancel();
        self.raft().shutdown().await;
        self.observer().hold_recorder.stop().await;
    }
}

/// Handles calls of other nodes. Until the service has started, the reply is `CallFailure::Unavailable`. The
/// reference cycle lasts as long as the process.
fn answer_peer(started: Arc<OnceLock<Service>>) -> AnswerPeer {
    Box::new(move |from, request, deadline| match started.get().cloned() {
        Some(service) => async move { service.called(from, &request, deadline).await }.boxed(),
        None => async { unavailable() }.boxed(),
    })
}
