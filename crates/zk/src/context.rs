//! What all connections of the front-end share.

use std::net::SocketAddr;
use std::sync::Arc;

use holdfast_service::Service;

use crate::config::ZkConfig;
use crate::connection_table::ConnectionTable;
use crate::metrics::ZkMetrics;

#[derive(Debug)]
pub(crate) struct ServerContext {
    pub(crate) config: ZkConfig,
    /// The data shown at `/zookeeper/config`; `None` on a single node.
    pub(crate) members: Option<Arc<str>>,
    pub(crate) service: Service,
    pub(crate) metrics: ZkMetrics,
    pub(crate) connections: Arc<ConnectionTable>,
    /// The address of the listener.
    pub(crate) address: Option<SocketAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shutdown {
    NotStarted,
    /// Connections read no more requests and answer those they have read.
    Draining,
    /// Connections close at once.
    Now,
}
