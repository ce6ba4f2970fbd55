//! The state that all handlers share: the service, the configuration, the metrics, and the rendered documentation.

use std::sync::Arc;

use bytes::Bytes;
use holdfast_api::ErrorCode;
use holdfast_service::Service;
use holdfast_trace::Sampler;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use crate::body::LargeBodies;
use crate::head::RequestIds;
use crate::{HttpConfig, HttpMetrics};

/// Renderers of the documentation, which is derived from all operations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Documentation {
    pub(crate) openapi: fn() -> Bytes,
    pub(crate) page: fn(bool) -> Bytes,
    pub(crate) error_page: fn(ErrorCode) -> Bytes,
}

#[derive(Debug)]
pub(crate) struct HttpState {
    pub(crate) config: Arc<HttpConfig>,
    pub(crate) service: Service,
    pub(crate) metrics: HttpMetrics,
    /// The registry that `/metrics` encodes.
    pub(crate) registry: Arc<Registry>,
    pub(crate) request_ids: RequestIds,
    /// `None` if the node exports no traces.
    pub(crate) trace_sampler: Option<Sampler>,
    pub(crate) large_bodies: LargeBodies,
    pub(crate) shutdown: watch::Receiver<ShutdownPhase>,
    pub(crate) documentation: Documentation,
}

impl HttpState {
    pub(crate) fn new(
        config: Arc<HttpConfig>,
        service: Service,
        metrics: HttpMetrics,
        registry: Arc<Registry>,
        shutdown: watch::Receiver<ShutdownPhase>,
        documentation: Documentation,
    ) -> Self {
        let request_ids = RequestIds::new(service.node().0);
        let trace_sampler = config.trace_sample.map(Sampler::new);
        let large_bodies = LargeBodies::new(&config);
        Self {
            config,
            service,
            metrics,
            registry,
            request_ids,
            trace_sampler,
            large_bodies,
            shutdown,
            documentation,
        }
    }
}

/// The phase of the front-end, for its connections and streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShutdownPhase {
    Serving,
    /// A connection closes after its call in flight; a stream ends.
    Draining,
    /// A connection closes at once.
    Closed,
}

/// Resolves when the shutdown begins.
pub(crate) async fn begun(phase: &mut watch::Receiver<ShutdownPhase>) {
    drop(phase.wait_for(|phase| *phase != ShutdownPhase::Serving).await);
}
