//! The bootstrap of a cluster. It happens once, and never again after a majority has lost its disks.
//! After the loss of all disks it needs an operator, unless the configuration permits it.
//!
//! A node without a log requests the state of all members. When all are present and none has a log, the member with
//! the lowest id is the *initiator*. It requests that all others store the initial members (`identity.rs`), and
//! writes the first log entry after all have stored them. A node that has stored initial members, or has a log,
//! accepts no other initiator. `decision.rs` holds the rules.
//!
//! Bounds: one request to each member at a time, with the timeout [`REQUEST_TIMEOUT`].

mod decision;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use holdfast_types::{ClusterId, FeatureLevel, Incarnation, NodeId};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use self::decision::{CreatePermission, LocalState, NextStep, PeerState, decide};
use crate::error::{CallError, StartError};
use crate::failure::Failure;
use crate::members::MemberTable;
use crate::peers::Peers;
use crate::start::identity::{
    INITIAL_MEMBERS_FILE, InitialMembersFile, JOIN_FILE, create_data_dir,
};
use crate::state_machine::Raft;
use crate::transport::handshake::{ConnectedPeer, is_other_incarnation};
use crate::wire::{AcceptMembers, BootstrapState, InitialMembers, Purpose, ReadBootstrapState};

/// The timeout of a request to a member.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// The first and the longest pause between two rounds of requests.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// With `--bootstrap`, the initiator omits absent members only after this time, because they may be starting.
const LEAVE_OUT_AFTER: Duration = Duration::from_secs(5);

/// The name of the file within a data directory by which an operator permits a new cluster.
const PERMISSION_FILE: &str = "create-cluster";

/// Permits the node with this empty data directory to create a cluster, once. The node may be running.
///
/// # Errors
/// The directory belongs to a cluster or to an invitation, or cannot be written.
pub fn permit_new_cluster(dir: &Path) -> Result<(), StartError> {
    let failed = |source| StartError::DataDir { dir: dir.to_owned(), source };
    create_data_dir(dir)?;
    if [INITIAL_MEMBERS_FILE, JOIN_FILE].iter().any(|file| dir.join(file).exists()) {
        return Err(StartError::NotBlank(dir.to_owned()));
    }
    std::fs::write(dir.join(PERMISSION_FILE), []).map_err(failed)
}

pub(crate) struct Bootstrap {
    pub(crate) raft: Raft,
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    /// A random id, for a new cluster.
    pub(crate) new_cluster_id: ClusterId,
    pub(crate) members: Arc<MemberTable>,
    /// The node joins a running cluster, and never bootstraps a new one.
    pub(crate) joins: bool,
    pub(crate) file: Arc<InitialMembersFile>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) failure: Failure,
    pub(crate) data_dir: PathBuf,
    /// The configuration permits a new cluster.
    pub(crate) permitted: bool,
    /// An operator requested a cluster without the absent members.
    pub(crate) without_absent: bool,
    /// The condition that a node without a log waits for.
    pub(crate) waiting_for: Mutex<Option<String>>,
    /// Locked while the node checks and stores initial members.
    pub(crate) storing: tokio::sync::Mutex<()>,
}

impl Bootstrap {
    /// Runs until this node has a log.
    pub(crate) async fn run(self: Arc<Self>) {
        let began = Instant::now();
        let mut pause = PAUSE_MIN;
        while self.is_blank().await {
            let peers = self.read_peer_states().await;
            let local = LocalState {
                node: self.node,
                incarnation: self.incarnation,
                members: self.members.configured_ids(),
                joins: self.joins,
                initial_members: self.file.current(),
                new_cluster_id: self.new_cluster_id,
                permission: self.permission(began.elapsed()),
            };
            match decide(&local, &peers) {
                NextStep::Bootstrap(initial) => self.bootstrap(initial).await,
                NextStep::Join(initial) => self.join(initial).await,
                NextStep::Wait(reason) => self.wait_for(reason),
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        self.waiting_for.lock().take();
        // An error leaves a file that has no effect on a node with a log.
        std::fs::remove_file(self.data_dir.join(PERMISSION_FILE)).ok();
    }

    fn permission(&self, waited: Duration) -> CreatePermission {
        if self.without_absent && waited >= LEAVE_OUT_AFTER {
            CreatePermission::WithoutAbsent
        } else if self.permitted {
            // Two initiators can block each other.
            CreatePermission::IfLowest
        } else if self.without_absent || self.data_dir.join(PERMISSION_FILE).exists() {
            CreatePermission::Given
        } else {
            CreatePermission::None
        }
    }

    async fn is_blank(&self) -> bool {
        // An error means that openraft has stopped.
        !self.raft.is_initialized().await.unwrap_or(true)
    }

    fn wait_for(&self, reason: String) {
        let mut waiting_for = self.waiting_for.lock();
        if waiting_for.as_ref() != Some(&reason) {
            tracing::info!(reason, "waiting: this node has no log yet");
            *waiting_for = Some(reason);
        }
    }

    async fn read_peer_states(&self) -> BTreeMap<NodeId, PeerState> {
        let members = self.members.configured_ids();
        let others = members.into_iter().filter(|id| *id != self.node);
        join_all(others.map(|id| async move { (id, self.read_peer_state(id).await) }))
            .await
            .into_iter()
            .collect()
    }

    async fn read_peer_state(&self, node: NodeId) -> PeerState {
        let deadline = Instant::now() + REQUEST_TIMEOUT;
        match self.peers.call(node, Purpose::Bootstrap, ReadBootstrapState, deadline).await {
            Ok(state) => PeerState::Replied(state),
            Err(CallError::NotSent(reason)) if is_other_incarnation(&reason) => {
                PeerState::OtherIncarnation
            }
            Err(
                CallError::NotSent(reason)
                | CallError::Refused(reason)
                | CallError::Unknown(reason),
            ) => PeerState::Unreachable(reason),
        }
    }

    /// Makes all initial members store the list, this node last; then writes the first log entry.
    async fn bootstrap(&self, initial: InitialMembers) {
        let others = initial.members.keys().filter(|id| **id != self.node);
        let requests = others.map(|id| self.request_acceptance(*id, &initial));
        if let Some(reason) = join_all(requests).await.into_iter().find_map(Result::err) {
            return self.wait_for(reason);
        }
        let _storing = self.storing.lock().await;
        let other = self.file.current().is_some_and(|old| old.initiator != initial.initiator);
        if other || !self.is_blank().await || self.store(initial).await.is_err() {
            return;
        }
        let members = self.members.configured_ids();
        let ids: BTreeSet<u64> = members.iter().map(|id| id.0).collect();
        match self.raft.initialize(ids).await {
            Ok(()) => {
                tracing::warn!(members = %list_ids(&members), "bootstrapped a new cluster");
            }
            Err(error) => tracing::warn!(%error, "failed to bootstrap a new cluster"),
        }
    }

    async fn request_acceptance(
        &self,
        node: NodeId,
        initial: &InitialMembers,
    ) -> Result<(), String> {
        let deadline = Instant::now() + REQUEST_TIMEOUT;
        let call = AcceptMembers(initial.clone());
        let accepted = self.peers.call(node, Purpose::Bootstrap, call, deadline).await;
        accepted.map_err(|error| format!("waiting for node {node}: {error}"))
    }

    /// Stores the initial members of the cluster that has registered this node, so that its members may connect.
    async fn join(&self, initial: InitialMembers) {
        let _storing = self.storing.lock().await;
        if self.is_blank().await && self.store(initial).await.is_ok() {
            tracing::info!("joining the cluster that has registered this node");
        }
    }

    async fn store(&self, initial: InitialMembers) -> Result<(), ()> {
        let file = self.file.clone();
        let written = tokio::task::spawn_blocking(move || file.write(initial)).await;
        written.unwrap_or_else(|error| Err(error.to_string())).map_err(|reason| {
            self.failure.report(format!("failed to store the initial members: {reason}"));
        })
    }

    /// Returns the state of this node to a member without a log.
    pub(crate) async fn state(&self, peer: ConnectedPeer) -> BootstrapState {
        BootstrapState {
            incarnation: self.incarnation,
            blank: self.is_blank().await,
            has_registered_caller: self.members.incarnation(peer.node) == Some(peer.incarnation),
            level_max: FeatureLevel::NEWEST,
            initial_members: self.known_members(),
        }
    }

    /// The initial members of a new cluster; the registered members of a running one.
    fn known_members(&self) -> Option<InitialMembers> {
        let initial = self.file.current()?;
        if self.members.state().members().is_empty() {
            return Some(initial);
        }
        let members = self.members.registered();
        Some(InitialMembers { level: self.members.state().level(), members, ..initial })
    }

    /// Stores the initial members durably, unless this node has a log or has accepted another initiator.
    pub(crate) async fn accept_members(
        &self,
        peer: ConnectedPeer,
        initial: InitialMembers,
    ) -> Result<(), String> {
        let _storing = self.storing.lock().await;
        if self.joins {
            return Err("it was invited to a running cluster".into());
        }
        if initial.initiator != peer.incarnation
            || initial.members.get(&self.node) != Some(&self.incarnation)
        {
            return Err("the initial members name other data directories".into());
        }
        if initial.level > FeatureLevel::NEWEST {
            return Err(format!("its program knows feature levels up to {}", FeatureLevel::NEWEST));
        }
        if self.file.current().is_some_and(|old| old.initiator != initial.initiator) {
            return Err("it accepted another initiator".into());
        }
        if !self.is_blank().await {
            return Err("it has a log".into());
        }
        self.store(initial).await.map_err(|()| "its disk failed".into())
    }
}

/// Formats ids for a log line, separated by commas.
pub(crate) fn list_ids<'a>(nodes: impl IntoIterator<Item = &'a NodeId>) -> String {
    let ids: Vec<String> = nodes.into_iter().map(NodeId::to_string).collect();
    ids.join(",")
}
