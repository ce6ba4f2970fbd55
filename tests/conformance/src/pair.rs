//! Runs scripts against the two servers of a differential run.
//!
//! Every run has its own folder, so that runs are independent and a failing run can be repeated with fewer steps.

use holdfast_lab::Cluster;

use crate::compare::{Difference, compare};
use crate::play::{Target, Transcript, play};
use crate::recording::Recording;
use crate::script::Step;
use crate::shrink::shrink;
use crate::zookeeper::ZooKeeper;

/// Limit of runs that shrink a failing script.
const SHRINKING_MAX: usize = 400;

/// A script with different replies.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The smallest script found, with the replies of ZooKeeper.
    pub recording: Recording,
    /// The first difference.
    pub difference: Difference,
}

/// ZooKeeper and holdfast, both running.
pub struct Pair {
    _zookeeper: ZooKeeper,
    cluster: Cluster,
    theirs: Target,
    ours: Target,
    runs: usize,
}

impl Pair {
    /// Starts ZooKeeper and this number of holdfast nodes.
    pub async fn start(nodes: u64) -> Self {
        let (zookeeper, cluster) = tokio::join!(ZooKeeper::start(), Cluster::of(nodes).start());
        let theirs = Target { nodes: vec![zookeeper.address()] };
        let ours = cluster.nodes().iter().map(|node| node.zookeeper).collect();
        Self { _zookeeper: zookeeper, cluster, theirs, ours: Target { nodes: ours }, runs: 0 }
    }

    /// The nodes of holdfast.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Sets other addresses for holdfast, e.g. of a proxy.
    pub fn through(&mut self, ours: Target) -> Target {
        std::mem::replace(&mut self.ours, ours)
    }

    /// Plays a script against both.
    ///
    /// # Errors
    /// One of them cannot be reached any more.
    pub async fn play(&mut self, steps: &[Step]) -> Result<(Transcript, Transcript), String> {
        self.runs += 1;
        let folder = format!("/run{}", self.runs);
        let theirs = async {
            play(&self.theirs, &folder, steps).await.map_err(|e| format!("ZooKeeper: {e}"))
        };
        let ours =
            async { play(&self.ours, &folder, steps).await.map_err(|e| format!("holdfast: {e}")) };
        tokio::try_join!(theirs, ours)
    }

    /// Plays a script, compares the transcripts, and shrinks the script if they differ.
    ///
    /// # Errors
    /// One of them cannot be reached any more.
    pub async fn judge(&mut self, steps: &[Step]) -> Result<Option<Failure>, String> {
        match self.failure(steps).await? {
            Some(failure) => Ok(Some(self.shrink(failure).await)),
            None => Ok(None),
        }
    }

    /// A smaller script that fails.
    pub async fn shrink(&mut self, mut failure: Failure) -> Failure {
        let known = failure.recording.steps.clone();
        shrink(known, SHRINKING_MAX, async |fewer| match self.failure(fewer).await {
            Ok(Some(smaller)) => {
                failure = smaller;
                true
            }
            Ok(None) | Err(_) => false,
        })
        .await;
        failure
    }

    /// Plays a script and compares the transcripts; returns the script up to the first difference.
    ///
    /// # Errors
    /// One of them cannot be reached any more.
    pub async fn failure(&mut self, steps: &[Step]) -> Result<Option<Failure>, String> {
        let (mut transcript, ours) = self.play(steps).await?;
        let Some(difference) = compare(steps, &transcript, &ours) else { return Ok(None) };
        let steps = steps[..=difference.step].to_vec();
        transcript.truncate(steps.len());
        let recording = Recording { about: String::new(), steps, transcript };
        Ok(Some(Failure { recording, difference }))
    }
}
