//! openraft's state machine, around `machine`.
//!
//! Owns the machine, the position it has reached and the membership at that position, all three behind one lock, so
//! that nobody ever sees them apart. The observer is told inside the step, before any caller gets its reply. Entries
//! applied again at a restart are not told: when the node is ready, the observer is shown the machine as a whole.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{Stream, TryStreamExt};
use holdfast_machine::Machine;
use holdfast_types::{Applied, NodeId};
use openraft::OptionalSend;
use openraft::alias::{LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf};
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use parking_lot::RwLock;
use tokio::sync::{Mutex, Notify, OwnedMutexGuard, watch};

use crate::counters::Counters;
use crate::snapshot::{SnapshotFile, SnapshotStore};
use crate::stamps::Stamps;
use crate::type_config::{
    BatchReply, LogId, Payload, RaftEntry, SnapshotMeta, StoredMembership, TypeConfig,
};

/// Learns what is applied on this node.
pub trait Observer: Send + Sync + 'static {
    /// An entry was applied. Called inside the apply step, with the machine locked for writing: must be quick, must
    /// not block, and must not read the machine through the node.
    fn applied(&self, machine: &Machine, applied: &Applied);
    /// The machine was loaded as a whole, at the start or from a snapshot: events were skipped. The same rules apply.
    fn restored(&self, machine: &Machine);
    /// A peer's service asks. Bounded by the peer's deadline: the future is dropped then.
    fn called(&self, from: NodeId, request: Bytes) -> BoxFuture<'static, Bytes>;
}

struct Core {
    machine: Machine,
    last: Option<LogId>,
    membership: StoredMembership,
}

/// What the node and openraft share of the machine.
pub(crate) struct LocalMachine {
    core: RwLock<Core>,
    applied: watch::Sender<Option<LogId>>,
    observer: RwLock<Option<Arc<dyn Observer>>>,
    /// Whether the observer is told of each entry.
    live: AtomicBool,
    bytes_since_snapshot: AtomicU64,
    snapshot_bytes: u64,
    snapshot_due: Notify,
    /// Continues from every stamp applied.
    stamps: Arc<Stamps>,
    counters: Arc<Counters>,
}

impl LocalMachine {
    /// The empty machine of `node`, which asks for a snapshot after every `snapshot_bytes` applied.
    pub(crate) fn new(node: NodeId, snapshot_bytes: u64, counters: Arc<Counters>) -> Self {
        let core =
            Core { machine: Machine::new(), last: None, membership: StoredMembership::default() };
        Self {
            core: RwLock::new(core),
            applied: watch::Sender::new(None),
            observer: RwLock::new(None),
            live: AtomicBool::new(false),
            bytes_since_snapshot: AtomicU64::new(0),
            snapshot_bytes: snapshot_bytes.max(1),
            snapshot_due: Notify::new(),
            stamps: Arc::new(Stamps::of(node)),
            counters,
        }
    }

    /// The clock that continues from every stamp applied.
    pub(crate) fn stamps(&self) -> Arc<Stamps> {
        self.stamps.clone()
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&Machine) -> T) -> T {
        read(&self.core.read().machine)
    }

    /// The last applied position.
    pub(crate) fn applied(&self) -> watch::Receiver<Option<LogId>> {
        self.applied.subscribe()
    }

    pub(crate) fn observer(&self) -> Option<Arc<dyn Observer>> {
        self.observer.read().clone()
    }

    /// Shows the observer the machine; from here on it is told of each entry.
    pub(crate) fn go_live(&self, observer: Arc<dyn Observer>) {
        let core = self.core.write();
        observer.restored(&core.machine);
        *self.observer.write() = Some(observer);
        self.live.store(true, Ordering::Release);
    }

    /// Forgets the observer, which may hold the node that holds this.
    pub(crate) fn go_dark(&self) {
        self.live.store(false, Ordering::Release);
        self.observer.write().take();
    }

    /// A peer's snapshot could not be used.
    pub(crate) fn refused_snapshot(&self) {
        self.counters.snapshots_refused.add(1);
    }

    /// Resolves when enough was applied for the next snapshot.
    pub(crate) async fn snapshot_due(&self) {
        self.snapshot_due.notified().await;
    }

    fn tell(&self, tell: impl FnOnce(&dyn Observer)) {
        if self.live.load(Ordering::Acquire)
            && let Some(observer) = &*self.observer.read()
        {
            tell(observer.as_ref());
        }
    }

    fn apply(&self, entry: RaftEntry) -> io::Result<BatchReply> {
        let mut core = self.core.write();
        let reply = match entry.payload {
            Payload::Blank => BatchReply::default(),
            Payload::Membership(membership) => {
                core.membership = StoredMembership::new(Some(entry.log_id), membership);
                BatchReply::default()
            }
            Payload::Normal(batch) => {
                self.grew(batch.bytes().len());
                let applied = core.machine.apply(batch.take().map_err(io::Error::other)?);
                let by = NodeId(entry.log_id.leader_id.node_id);
                self.stamps.applied(core.machine.now(), Some(by), Instant::now());
                self.counters.applied_commands.add(applied.outcomes.len());
                self.tell(|observer| observer.applied(&core.machine, &applied));
                BatchReply { outcomes: applied.outcomes, revision: applied.revision }
            }
        };
        core.last = Some(entry.log_id);
        drop(core);
        self.counters.applied_entries.add(1);
        self.applied.send_replace(Some(entry.log_id));
        Ok(reply)
    }

    fn grew(&self, bytes: usize) {
        let before = self.bytes_since_snapshot.fetch_add(bytes as u64, Ordering::Relaxed);
        let after = before + bytes as u64;
        if before / self.snapshot_bytes != after / self.snapshot_bytes {
            self.snapshot_due.notify_one();
        }
    }

    fn freeze(&self) -> (Machine, SnapshotMeta) {
        let core = self.core.read();
        let meta =
            SnapshotMeta { last_log_id: core.last, last_membership: core.membership.clone() };
        (core.machine.clone(), meta)
    }

    fn replace(&self, machine: Machine, meta: &SnapshotMeta) {
        let mut core = self.core.write();
        core.machine = machine;
        core.last = meta.last_log_id;
        core.membership = meta.last_membership.clone();
        self.stamps.applied(core.machine.now(), None, Instant::now());
        self.tell(|observer| observer.restored(&core.machine));
        drop(core);
        self.bytes_since_snapshot.store(0, Ordering::Relaxed);
        self.applied.send_replace(meta.last_log_id);
    }
}

/// See the module.
pub(crate) struct StateMachine {
    local: Arc<LocalMachine>,
    store: SnapshotStore,
    /// Held while a snapshot is made or installed, so that an older one never replaces a newer one.
    turn: Arc<Mutex<()>>,
}

impl StateMachine {
    pub(crate) fn new(local: Arc<LocalMachine>, store: SnapshotStore) -> Self {
        Self { local, store, turn: Arc::default() }
    }

    fn builder(&self, turn: OwnedMutexGuard<()>) -> SnapshotBuilder {
        let (machine, meta) = self.local.freeze();
        self.local.bytes_since_snapshot.store(0, Ordering::Relaxed);
        let (store, counters) = (self.store.clone(), self.local.counters.clone());
        SnapshotBuilder { frozen: Some((machine, meta)), store, counters, _turn: turn }
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(
        &mut self,
    ) -> io::Result<(Option<LogIdOf<TypeConfig>>, StoredMembershipOf<TypeConfig>)> {
        let core = self.local.core.read();
        Ok((core.last, core.membership.clone()))
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
        let turn = if force {
            self.turn.clone().lock_owned().await
        } else {
            self.turn.clone().try_lock_owned().ok()?
        };
        Some(self.builder(turn))
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        let turn = self.turn.clone().lock_owned().await;
        self.builder(turn)
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMetaOf<TypeConfig>,
        snapshot: SnapshotFile,
    ) -> io::Result<()> {
        let _turn = self.turn.lock().await;
        let (store, expected) = (self.store.clone(), meta.clone());
        let install = move || store.install(snapshot, &expected);
        let machine = tokio::task::spawn_blocking(install).await.map_err(io::Error::other)??;
        self.local.replace(machine, meta);
        self.local.counters.snapshots_installed.add(1);
        Ok(())
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> io::Result<Option<SnapshotOf<TypeConfig, SnapshotFile>>> {
        let store = self.store.clone();
        tokio::task::spawn_blocking(move || store.current()).await.map_err(io::Error::other)?
    }
}

/// A frozen machine on its way to a file.
pub(crate) struct SnapshotBuilder {
    frozen: Option<(Machine, SnapshotMeta)>,
    store: SnapshotStore,
    counters: Arc<Counters>,
    _turn: OwnedMutexGuard<()>,
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    type SnapshotData = SnapshotFile;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<TypeConfig, SnapshotFile>> {
        let frozen = self.frozen.take();
        let (machine, meta) =
            frozen.ok_or_else(|| io::Error::other("this snapshot was made already"))?;
        let store = self.store.clone();
        let build = move || store.build(&machine, meta);
        let snapshot = tokio::task::spawn_blocking(build).await.map_err(io::Error::other)??;
        self.counters.snapshots_built.add(1);
        Ok(snapshot)
    }
}
