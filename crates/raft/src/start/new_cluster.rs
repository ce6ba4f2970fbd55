//! Writes the data directory of the only node of a restored cluster. It has the initial members, a snapshot, a log and an
//! identity. The snapshot has the state and a membership of one voter, and the log is purged up to the snapshot.
//!
//! The first file is a marker, and the identity is written last. A directory without it does not start, so an interrupted
//! restore never becomes an empty cluster. No thread of the log is left running.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use holdfast_codec::Kind;
use holdfast_machine::{Machine, RestoreError, RestoreOptions, RestorePoint};
use holdfast_storage::{CompletionCallback, Log, LogOptions, QueueFull, RaftMeta, StoreError};
use holdfast_types::{ClusterId, Incarnation, NodeId, RestoreSource, Revision};
use nix::sys::time::TimeValLike as _;
use nix::time::ClockId;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::config::wall_clock;
use crate::error::StartError;
use crate::failure::Failure;
use crate::start::identity::{
    self, Identity, InitialMembersFile, LOCK_FILE, LOG_DIR, LOST_AND_FOUND, SNAPSHOT_DIR,
};
use crate::store::disk::DiskGauge;
use crate::store::snapshot::SnapshotStore;
use crate::type_config::{LeaderId, LogId, Membership, SnapshotMeta, StoredMembership};
use crate::wire::{InitialMembers, LogIdDto, VoteDto};

/// The term of the snapshot. The node elects itself in a later one.
const TERM: u64 = 1;
/// The longest time of one sync of the new log.
const SYNC_BOUND: Duration = Duration::from_mins(1);
/// The random number of a start of a Linux machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// The first file of a restore.
const MARKER: &str = "restore.partial";

/// A cluster that continues the state of another one, with one node.
#[derive(Clone, Debug)]
pub struct NewCluster {
    /// Absent or empty.
    pub data_dir: PathBuf,
    /// The name of the cluster.
    pub cluster: String,
    pub node: NodeId,
    /// The largest token that is known to have been minted outside of the state.
    pub token_floor: u64,
    /// Keeps the sessions of a sealed cluster.
    pub keeps_sessions: bool,
    /// Deletes all access tokens.
    pub revokes_tokens: bool,
    pub source: RestoreSource,
}

/// A cluster whose directory is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoredCluster {
    pub cluster_id: ClusterId,
    pub revision: Revision,
    /// The tokens continue above this one.
    pub last_token: u64,
    /// The sessions that were kept.
    pub sessions: u64,
}

/// Why no directory was written.
#[derive(Debug, Error)]
pub enum RestoreFailure {
    #[error("{} exists and is not empty: nothing was written", .0.display())]
    NotEmpty(PathBuf),
    #[error(transparent)]
    State(#[from] RestoreError),
    #[error(transparent)]
    Directory(#[from] StartError),
    /// The stored entries do not follow from each other.
    #[error("{} is damaged: {reason}", dir.display())]
    Damaged { dir: PathBuf, reason: String },
    #[error("cannot write {}: {reason}", dir.display())]
    Write { dir: PathBuf, reason: String },
}

impl NewCluster {
    /// Writes the directory. Blocks the thread.
    ///
    /// # Errors
    /// [`RestoreFailure`]; the directory is then as it was, or not usable if even its removal failed.
    pub fn write(&self, machine: Machine) -> Result<RestoredCluster, RestoreFailure> {
        self.check_empty()?;
        let (cluster_id, incarnation) = (random_id()?, Incarnation(random_u64()?));
        let machine = machine.restored(&RestoreOptions {
            cluster_id,
            node: self.node,
            incarnation,
            point: restore_point()?,
            token_floor: self.token_floor,
            keeps_sessions: self.keeps_sessions,
            revokes_tokens: self.revokes_tokens,
            source: self.source.clone(),
        })?;
        let was_absent = !self.data_dir.exists();
        identity::create_data_dir(&self.data_dir)?;
        // Only the process with the lock may write and remove files.
        let _lock = self.mark_and_lock()?;
        self.check_empty()?;
        self.write_files(&machine, cluster_id, incarnation).inspect_err(|_| {
            self.remove_files(was_absent);
        })?;
        self.remove_marker();
        let counts = machine.counts();
        let (last_token, sessions) = (counts.grants, counts.sessions);
        Ok(RestoredCluster { cluster_id, revision: machine.revision(), last_token, sessions })
    }

    /// # Errors
    /// [`RestoreFailure::NotEmpty`].
    pub fn check_empty(&self) -> Result<(), RestoreFailure> {
        let failed = |error: io::Error| self.failed(&error);
        if !self.data_dir.exists() {
            return Ok(());
        }
        for entry in self.data_dir.read_dir().map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if name != LOST_AND_FOUND && name != LOCK_FILE && name != MARKER {
                return Err(RestoreFailure::NotEmpty(self.data_dir.clone()));
            }
        }
        Ok(())
    }

    /// Marks the directory as incomplete, and locks it. The marker is the first file, so that no node starts after a kill.
    fn mark_and_lock(&self) -> Result<File, RestoreFailure> {
        let marked = File::create_new(self.data_dir.join(MARKER));
        let is_new = marked.is_ok();
        if let Err(error) = marked
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(self.failed(&error));
        }
        let lock = identity::lock(&self.data_dir);
        if lock.is_err() && is_new {
            self.remove_marker();
        }
        Ok(lock?)
    }

    fn remove_marker(&self) {
        if let Err(error) = std::fs::remove_file(self.data_dir.join(MARKER)) {
            tracing::warn!(dir = %self.data_dir.display(), %error, "cannot remove the file restore.partial");
        }
    }

    fn write_files(
        &self,
        machine: &Machine,
        cluster_id: ClusterId,
        incarnation: Incarnation,
    ) -> Result<(), RestoreFailure> {
        let dir = &self.data_dir;
        let initial = InitialMembers {
            cluster_id,
            level: machine.level(),
            initiator: incarnation,
            members: BTreeMap::from([(self.node, incarnation)]),
        };
        InitialMembersFile::open(dir)?.write(initial).map_err(|reason| self.failed(&reason))?;
        let position = LogId::new(LeaderId { term: TERM, node_id: self.node.0 }, 0);
        let snapshots = SnapshotStore::open(&dir.join(SNAPSHOT_DIR), Failure::new());
        let snapshots = snapshots.map_err(|error| self.failed(&error))?;
        let meta = self.meta(position).map_err(|error| self.failed(&error))?;
        snapshots.build(machine, meta, &DiskGauge::new(0)).map_err(|error| self.failed(&error))?;
        write_log(&dir.join(LOG_DIR), position).map_err(|error| self.failed(&error))?;
        let identity = Identity { cluster: self.cluster.clone(), node: self.node, incarnation };
        identity::write(dir, &identity)?;
        sync_parent(dir).map_err(|error| self.failed(&error))
    }

    /// The membership of one voter, as the first entry of a log.
    fn meta(&self, position: LogId) -> io::Result<SnapshotMeta> {
        let only = BTreeSet::from([self.node.0]);
        let membership = Membership::new(vec![only.clone()], only).map_err(io::Error::other)?;
        let last_membership = StoredMembership::new(Some(position), membership);
        Ok(SnapshotMeta { last_log_id: Some(position), last_membership })
    }

    fn remove_files(&self, was_absent: bool) {
        let remove = || -> io::Result<()> {
            if was_absent {
                return std::fs::remove_dir_all(&self.data_dir);
            }
            for entry in self.data_dir.read_dir()? {
                let path = entry?.path();
                if path.is_dir() && !path.ends_with(LOST_AND_FOUND) {
                    std::fs::remove_dir_all(&path)?;
                } else if path.is_file() {
                    std::fs::remove_file(&path)?;
                }
            }
            Ok(())
        };
        if let Err(error) = remove() {
            let dir = self.data_dir.display();
            tracing::warn!(%dir, %error, "cannot remove an incomplete data directory; it does not start");
        }
    }

    fn failed(&self, reason: &dyn std::fmt::Display) -> RestoreFailure {
        RestoreFailure::Write { dir: self.data_dir.clone(), reason: reason.to_string() }
    }
}

/// Makes the name of a directory durable.
pub(crate) fn sync_parent(dir: &Path) -> io::Result<()> {
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Writes a log without entries that continues after `position`, and the vote for its term.
fn write_log(dir: &Path, position: LogId) -> io::Result<()> {
    let log = Log::open(dir, LogOptions::default()).map_err(io::Error::other)?;
    let purged = holdfast_codec::encode(Kind::Purged, &LogIdDto::from(position));
    let purged = purged.map_err(io::Error::other)?;
    let vote = VoteDto { term: TERM, node: position.leader_id.node_id, committed: true };
    let vote = holdfast_codec::encode(Kind::Vote, &vote).map_err(io::Error::other)?;
    let written = wait(|done| log.purge_through(position.index, purged.into(), done))
        .and_then(|()| wait(|done| log.set_meta(RaftMeta::Vote, vote.into(), true, done)));
    log.shutdown();
    written
}

/// Waits for a request of the log.
fn wait(request: impl FnOnce(CompletionCallback) -> Result<(), QueueFull>) -> io::Result<()> {
    let (sender, receiver) = mpsc::channel::<Result<(), StoreError>>();
    let done = Box::new(move |result| drop(sender.send(result)));
    request(done).map_err(|_| io::Error::other("the queue of the log is full"))?;
    receiver.recv_timeout(SYNC_BOUND).map_err(io::Error::other)?.map_err(io::Error::other)
}

fn restore_point() -> Result<RestorePoint, StartError> {
    let random = random_u64()?;
    let drawn = getrandom::u32().map_err(|error| StartError::Store(error.to_string()))?;
    let clock_run = std::fs::read(BOOT_ID).ok().zip(clock_start());
    let clock_run = clock_run.map_or(drawn, |(boot, start)| {
        let hash = Sha256::new().chain_update(boot).chain_update(start.to_le_bytes()).finalize();
        u32::from_le_bytes([hash[0], hash[1], hash[2], hash[3]])
    });
    Ok(RestorePoint { now: wall_clock(), clock_run, random })
}

/// The start of the machine by its present clock, hours: equal until somebody sets the clock. Seconds would also change when
/// the clock is corrected slowly.
fn clock_start() -> Option<i64> {
    let [wall, up] = [ClockId::CLOCK_REALTIME, ClockId::CLOCK_BOOTTIME]
        .map(|clock| nix::time::clock_gettime(clock).map(|time| time.num_milliseconds()));
    Some((wall.ok()? - up.ok()?).div_euclid(60 * 60 * 1000))
}

fn random_id() -> Result<ClusterId, StartError> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| StartError::Store(error.to_string()))?;
    Ok(ClusterId(u128::from_le_bytes(random)))
}

fn random_u64() -> Result<u64, StartError> {
    getrandom::u64().map_err(|error| StartError::Store(error.to_string()))
}
