//! openraft's state machine, around `holdfast_machine::Machine`.
//!
//! One lock guards the machine, its applied position and the membership at that position, so that readers see them
//! together. The [`Observer`] is notified inside the apply step, before any caller gets its reply. It is not notified of
//! entries that a restart applies again: once the node is ready, it gets the whole machine.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{Stream, TryStreamExt};
use holdfast_machine::Machine;
use holdfast_types::{Applied, FeatureLevel, Member, NodeId, Retirement, Revision, Stamp};
use openraft::OptionalSend;
use openraft::alias::{LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf};
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use parking_lot::RwLock;
use tokio::sync::{Mutex, Notify, OwnedMutexGuard, watch};

use crate::members::ClusterState;
use crate::metrics::RaftMetrics;
use crate::stamps::Stamps;
use crate::store::disk::DiskGauge;
use crate::store::run_in_background;
use crate::store::snapshot::{SnapshotFile, SnapshotStore};
use crate::type_config::{
    Committed, LogId, Payload, RaftEntry, SnapshotMeta, StoredMembership, TypeConfig,
};

/// Receives what this node applies, and the calls of other nodes' services.
pub trait Observer: Send + Sync + 'static {
    /// An entry was applied. Called inside the apply step, with the machine locked for writing: the implementation must be
    /// quick, must not block, and must not read the machine through the node.
    fn applied(&self, machine: &Machine, applied: &Applied);
    /// The machine was replaced, at the start or by a snapshot, without events. The same rules apply.
    fn restored(&self, machine: &Machine);
    /// Another node's service calls. The future is dropped at `deadline`.
    fn called(&self, from: NodeId, request: Bytes, deadline: Instant) -> BoxFuture<'static, Bytes>;
}

/// What one log position determines.
struct AppliedState {
    machine: Machine,
    last: Option<LogId>,
    membership: StoredMembership,
}

/// The state machine of this node, shared by the node and openraft.
pub(crate) struct LocalMachine {
    state: RwLock<AppliedState>,
    applied: watch::Sender<Option<LogId>>,
    observer: RwLock<Option<Arc<dyn Observer>>>,
    /// Whether the observer is notified.
    live: AtomicBool,
    bytes_since_snapshot: AtomicU64,
    snapshot_bytes: u64,
    snapshot_due: Notify,
    /// Continues from every applied stamp.
    stamps: Arc<Stamps>,
    metrics: Arc<RaftMetrics>,
}

impl ClusterState for LocalMachine {
    fn last_applied(&self) -> Option<u64> {
        self.applied_index()
    }

    fn level(&self) -> FeatureLevel {
        self.read(Machine::level)
    }

    fn members(&self) -> BTreeMap<NodeId, Member> {
        self.read(|machine| {
            machine.members().map(|(node, member)| (node, member.clone())).collect()
        })
    }

    fn member(&self, node: NodeId) -> Option<Member> {
        self.read(|machine| machine.member(node).cloned())
    }

    fn highest_member(&self) -> NodeId {
        self.read(Machine::highest_member)
    }

    fn retirement(&self, node: NodeId) -> Option<Retirement> {
        self.read(|machine| machine.retirement(node).cloned())
    }

    fn now(&self) -> Stamp {
        self.read(Machine::now)
    }
}

impl LocalMachine {
    /// An empty machine. A snapshot is due after every `snapshot_bytes` of applied entries.
    pub(crate) fn new(node: NodeId, snapshot_bytes: u64, metrics: Arc<RaftMetrics>) -> Self {
        let state = AppliedState {
            machine: Machine::new(),
            last: None,
            membership: StoredMembership::default(),
        };
        // The nodes take snapshots at different times: a quarter of the interval apart.
        let ahead = snapshot_bytes / 4 * (node.0 % 4);
        Self {
            state: RwLock::new(state),
            applied: watch::Sender::new(None),
            observer: RwLock::new(None),
            live: AtomicBool::new(false),
            bytes_since_snapshot: AtomicU64::new(ahead),
            snapshot_bytes: snapshot_bytes.max(1),
            snapshot_due: Notify::new(),
            stamps: Arc::new(Stamps::new(node)),
            metrics,
        }
    }

    pub(crate) fn stamps(&self) -> Arc<Stamps> {
        self.stamps.clone()
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&Machine) -> T) -> T {
        read(&self.state.read().machine)
    }

    /// The last applied position.
    pub(crate) fn applied(&self) -> watch::Receiver<Option<LogId>> {
        self.applied.subscribe()
    }

    pub(crate) fn applied_index(&self) -> Option<u64> {
        self.applied.borrow().map(|position| position.index)
    }

    pub(crate) fn observer(&self) -> Option<Arc<dyn Observer>> {
        self.observer.read().clone()
    }

    /// Passes the machine to the observer, which is notified of each entry from now on.
    pub(crate) fn start_observing(&self, observer: Arc<dyn Observer>) {
        let state = self.state.write();
        observer.restored(&state.machine);
        *self.observer.write() = Some(observer);
        self.live.store(true, Ordering::Release);
    }

    /// Drops the observer, which may own the node that owns `self`.
    pub(crate) fn stop_observing(&self) {
        self.live.store(false, Ordering::Release);
        self.observer.write().take();
    }

    pub(crate) fn metrics(&self) -> &Arc<RaftMetrics> {
        &self.metrics
    }

    /// Resolves when the next snapshot is due.
    pub(crate) async fn snapshot_due(&self) {
        self.snapshot_due.notified().await;
    }

    fn notify(&self, notify: impl FnOnce(&dyn Observer)) {
        if self.live.load(Ordering::Acquire)
            && let Some(observer) = &*self.observer.read()
        {
            notify(observer.as_ref());
        }
    }

    fn apply(&self, entry: RaftEntry) -> io::Result<Vec<Committed>> {
        let began = Instant::now();
        let mut state = self.state.write();
        let reply = match entry.payload {
            Payload::Blank => Vec::new(),
            Payload::Membership(membership) => {
                state.membership = StoredMembership::new(Some(entry.log_id), membership);
                Vec::new()
            }
            Payload::Normal(batch) => {
                self.count_bytes(batch.bytes().len());
                let _spans = batch.take_spans().children(|| holdfast_trace::span!("apply"));
                let applied = state.machine.apply(batch.take().map_err(io::Error::other)?);
                let by = NodeId(entry.log_id.leader_id.node_id);
                self.stamps.applied(state.machine.now(), Some(by), Instant::now());
                self.metrics.commands_applied.inc_by(applied.outcomes.len() as u64);
                self.notify(|observer| observer.applied(&state.machine, &applied));
                let first = applied.revision.0 + 1 - applied.outcomes.len() as u64;
                let outcomes = applied.outcomes.into_iter().zip((first..).map(Revision));
                outcomes.map(|(outcome, revision)| Committed { outcome, revision }).collect()
            }
        };
        state.last = Some(entry.log_id);
        drop(state);
        self.metrics.entries_applied.inc();
        self.metrics.apply_seconds.observe(began.elapsed().as_secs_f64());
        self.applied.send_replace(Some(entry.log_id));
        Ok(reply)
    }

    fn count_bytes(&self, bytes: usize) {
        let before = self.bytes_since_snapshot.fetch_add(bytes as u64, Ordering::Relaxed);
        let after = before + bytes as u64;
        if before / self.snapshot_bytes != after / self.snapshot_bytes {
            self.snapshot_due.notify_one();
        }
    }

    fn copy(&self) -> (Machine, SnapshotMeta) {
        let state = self.state.read();
        let meta =
            SnapshotMeta { last_log_id: state.last, last_membership: state.membership.clone() };
        (state.machine.clone(), meta)
    }

    fn replace(&self, machine: Machine, meta: &SnapshotMeta) {
        let mut state = self.state.write();
        let replaced = std::mem::replace(&mut state.machine, machine);
        state.last = meta.last_log_id;
        state.membership = meta.last_membership.clone();
        self.stamps.applied(state.machine.now(), None, Instant::now());
        self.notify(|observer| observer.restored(&state.machine));
        drop(state);
        // This takes long for millions of znodes.
        let dropping = std::thread::Builder::new().name("drop".to_owned());
        drop(dropping.spawn(move || drop(replaced)));
        self.bytes_since_snapshot.store(0, Ordering::Relaxed);
        self.applied.send_replace(meta.last_log_id);
    }
}

pub(crate) type Raft = openraft::Raft<TypeConfig, StateMachine>;

pub(crate) struct StateMachine {
    local: Arc<LocalMachine>,
    store: SnapshotStore,
    disk: Arc<DiskGauge>,
    /// Held while a snapshot is built or installed, so that an older one never replaces a newer one.
    snapshot_lock: Arc<Mutex<()>>,
}

impl StateMachine {
    pub(crate) fn new(
        local: Arc<LocalMachine>,
        store: SnapshotStore,
        disk: Arc<DiskGauge>,
    ) -> Self {
        Self { local, store, disk, snapshot_lock: Arc::default() }
    }

    fn builder(&self, guard: OwnedMutexGuard<()>) -> SnapshotBuilder {
        let (machine, meta) = self.local.copy();
        self.local.bytes_since_snapshot.store(0, Ordering::Relaxed);
        let (store, disk) = (self.store.clone(), self.disk.clone());
        let local = self.local.clone();
        SnapshotBuilder { copy: Some((machine, meta)), store, disk, local, _guard: guard }
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(
        &mut self,
    ) -> io::Result<(Option<LogIdOf<TypeConfig>>, StoredMembershipOf<TypeConfig>)> {
        let state = self.local.state.read();
        Ok((state.last, state.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            let reply = self.local.apply(entry)?;
            if let Some(responder) = responder {
                responder.send(reply);
            }
        }
        Ok(())
    }

    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<SnapshotBuilder> {
        let guard = if force {
            self.snapshot_lock.clone().lock_owned().await
        } else {
            self.snapshot_lock.clone().try_lock_owned().ok()?
        };
        Some(self.builder(guard))
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        let guard = self.snapshot_lock.clone().lock_owned().await;
        self.builder(guard)
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMetaOf<TypeConfig>,
        snapshot: SnapshotFile,
    ) -> io::Result<()> {
        // A build ends early, so that the node soon answers again.
        self.store.set_superseded(true);
        let _guard = self.snapshot_lock.lock().await;
        self.store.set_superseded(false);
        let (store, expected) = (self.store.clone(), meta.clone());
        let install =
            move || Ok::<_, io::Error>((store.install(snapshot, &expected)?, store.bytes()));
        let installed = tokio::task::spawn_blocking(install).await;
        let (machine, bytes) = installed.map_err(io::Error::other)??;
        self.local.replace(machine, meta);
        self.local.metrics.snapshots_installed.inc();
        self.local.metrics.snapshot_bytes.set(bytes.cast_signed());
        Ok(())
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> io::Result<Option<SnapshotOf<TypeConfig, SnapshotFile>>> {
        let store = self.store.clone();
        tokio::task::spawn_blocking(move || store.current()).await.map_err(io::Error::other)?
    }
}

/// Writes a copy of the machine to a file.
pub(crate) struct SnapshotBuilder {
    copy: Option<(Machine, SnapshotMeta)>,
    store: SnapshotStore,
    disk: Arc<DiskGauge>,
    local: Arc<LocalMachine>,
    _guard: OwnedMutexGuard<()>,
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    type SnapshotData = SnapshotFile;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<TypeConfig, SnapshotFile>> {
        let copy = self.copy.take();
        let (machine, meta) =
            copy.ok_or_else(|| io::Error::other("this snapshot was built already"))?;
        let (store, disk) = (self.store.clone(), self.disk.clone());
        let began = Instant::now();
        let build =
            move || Ok::<_, io::Error>((store.build(&machine, meta, &disk)?, store.bytes()));
        let (snapshot, bytes) = run_in_background("snapshot", build).await??;
        if matches!(snapshot.snapshot, SnapshotFile::Absent) {
            if !self.store.is_superseded() {
                self.local.snapshot_due.notify_one();
            }
            return Ok(snapshot);
        }
        let metrics = &self.local.metrics;
        metrics.snapshots_built.inc();
        metrics.snapshot_seconds.observe(began.elapsed().as_secs_f64());
        metrics.snapshot_bytes.set(bytes.cast_signed());
        Ok(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn nodes_take_snapshots_at_different_times() {
        let until_due = |node| {
            let local = LocalMachine::new(NodeId(node), 400, Arc::default());
            let count = |_: &u64| {
                local.count_bytes(1);
                local.snapshot_due().now_or_never().is_some()
            };
            (1..=400).find(count)
        };
        assert_eq!((1..=5).map(until_due).collect::<Vec<_>>(), [300, 200, 100, 400, 300].map(Some));
    }
}
