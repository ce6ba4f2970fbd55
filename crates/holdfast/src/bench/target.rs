//! What is measured: nodes that were named, or a cluster of our own that goes with the run.

use crate::dev::{Cluster, DataDir, Layout, START_MAX};
use crate::output::complain;

/// The first port of a cluster of our own.
const PORT_FIRST: u16 = 17_400;
/// How many ranges of 100 ports from there are tried, beginning at one that two runs at a time seldom share.
const PORT_RANGES: u16 = 25;

/// Nodes to measure.
pub(super) enum Target {
    /// Running without us.
    Given(Vec<String>),
    /// Ours.
    Own(Own),
}

/// A cluster of our own, on free ports, in a temporary directory.
pub(super) struct Own {
    /// Its processes.
    pub(super) cluster: Cluster,
    data: DataDir,
}

impl Own {
    /// Starts a cluster and waits until it serves.
    ///
    /// # Errors
    /// Why it does not.
    pub(super) async fn start(nodes: u64) -> Result<Self, String> {
        Self::start_as(nodes, |layout| layout).await
    }

    /// The same, as it was planned otherwise.
    ///
    /// # Errors
    /// As [`Own::start`].
    pub(super) async fn start_as(
        nodes: u64,
        plan: impl FnOnce(Layout) -> Layout,
    ) -> Result<Self, String> {
        let data = DataDir::open(None)?;
        let layout = plan(free_layout(&data, nodes)?);
        let mut cluster = Cluster::start(layout)?;
        let ready = cluster.wait_ready(START_MAX).await;
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

fn free_layout(data: &DataDir, nodes: u64) -> Result<Layout, String> {
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

impl Target {
    /// The nodes named, or three of our own.
    ///
    /// # Errors
    /// Why our own do not start.
    pub(super) async fn open(named: &[String]) -> Result<Self, String> {
        if named.is_empty() {
            complain(
                "holdfast: starting three nodes in a temporary directory; name running ones with --addr",
            );
            return Own::start(3).await.map(Self::Own);
        }
        Ok(Self::Given(named.to_vec()))
    }

    /// HTTP addresses.
    pub(super) fn endpoints(&self) -> Vec<String> {
        match self {
            Self::Given(endpoints) => endpoints.clone(),
            Self::Own(own) => own.cluster.layout().endpoints(),
        }
    }

    /// Leaves nothing of ours behind.
    pub(super) async fn close(self) {
        match self {
            Self::Given(_) => {}
            Self::Own(own) => own.stop().await,
        }
    }
}
