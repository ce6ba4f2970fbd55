//! The measured nodes: given addresses, or a cluster that the run starts and removes.

use std::time::Duration;

use holdfast_cli::dev::{DevCluster, DevDataDir, Layout, START_TIMEOUT};
use holdfast_cli::output::write_stderr;

use crate::servers::holdfast_program;

/// The first port of an [`OwnCluster`].
const PORT_FIRST: u16 = 17_400;
/// The number of port ranges, of 100 ports each, to try. Concurrent runs seldom start at the same range.
const PORT_RANGES: u16 = 25;

/// The nodes to measure.
pub(super) enum MeasuredCluster {
    Given(Vec<String>),
    Own(OwnCluster),
}

/// A cluster on free ports in a temporary directory.
pub(super) struct OwnCluster {
    pub(super) cluster: DevCluster,
    data: DevDataDir,
}

impl OwnCluster {
    /// Starts a cluster and waits until it is ready.
    pub(super) async fn start(nodes: u64) -> Result<Self, String> {
        Self::start_as(nodes, |layout| layout).await
    }

    /// Like `start`, with another layout.
    pub(super) async fn start_as(
        nodes: u64,
        plan: impl FnOnce(Layout) -> Layout,
    ) -> Result<Self, String> {
        Self::start_within(START_TIMEOUT, nodes, plan).await
    }

    /// Like `start_as`, with another bound of the time until the cluster is ready.
    pub(super) async fn start_within(
        timeout: Duration,
        nodes: u64,
        plan: impl FnOnce(Layout) -> Layout,
    ) -> Result<Self, String> {
        let data = DevDataDir::open(None)?;
        let layout = free_layout(&data, nodes)?;
        let layout = plan(layout.with_program(&holdfast_program()?));
        let mut cluster = DevCluster::start(layout)?;
        let ready = cluster.wait_ready(timeout).await;
        let mut own = Self { cluster, data };
        match ready {
            Ok(_) => Ok(own),
            Err(reason) => {
                own.cluster.stop().await;
                Err(reason)
            }
        }
    }

    /// Stops the nodes and removes their data.
    pub(super) async fn stop(mut self) {
        self.cluster.stop().await;
        drop(self.data);
    }
}

fn free_layout(data: &DevDataDir, nodes: u64) -> Result<Layout, String> {
    let mut last = String::from("no ports were tried");
    let first = u16::try_from(std::process::id() % u32::from(PORT_RANGES)).unwrap_or(0);
    for range in (0..PORT_RANGES).map(|range| (first + range) % PORT_RANGES) {
        let layout = Layout::new(data, Some(nodes), PORT_FIRST + range * 100, "warn")?;
        match layout.check_ports() {
            Ok(()) => return Ok(layout),
            Err(reason) => last = reason,
        }
    }
    Err(last)
}

impl MeasuredCluster {
    /// Uses the given nodes, or starts a cluster.
    pub(super) async fn open(given: &[String], nodes: u64) -> Result<Self, String> {
        if given.is_empty() {
            write_stderr(&format!(
                "measure: starting {nodes} nodes in a temporary directory; use --addr for running nodes"
            ));
            return OwnCluster::start(nodes).await.map(Self::Own);
        }
        Ok(Self::Given(given.to_vec()))
    }

    pub(super) fn endpoints(&self) -> Vec<String> {
        match self {
            Self::Given(endpoints) => endpoints.clone(),
            Self::Own(own) => own.cluster.layout().endpoints(),
        }
    }

    /// Stops and removes an [`OwnCluster`].
    pub(super) async fn close(self) {
        match self {
            Self::Given(_) => {}
            Self::Own(own) => own.stop().await,
        }
    }
}
