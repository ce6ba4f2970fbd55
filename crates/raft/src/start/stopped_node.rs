//! Reads the data directory of a node that does not run: its identity, its log, and the state after its last entry.
//!
//! After the loss of a majority the state of one survivor is all that is left. Its last entries may not be committed; the
//! lost nodes may have acknowledged later ones. The directory is locked meanwhile. As at a start, an open removes an
//! incomplete last write and files of unfinished snapshots; it changes nothing else.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use holdfast_codec::Kind;
use holdfast_machine::Machine;
use holdfast_storage::{Log, LogOptions, RaftMeta, Record};
use holdfast_types::{Incarnation, NodeId, RestoreSource};
use serde::de::DeserializeOwned;

use crate::error::StartError;
use crate::failure::{Failure, old_program};
use crate::start::identity::{
    DataDir, LOG_DIR, RECOVERING_SUFFIX, SNAPSHOT_DIR, configured_id, directory_before_recovery,
    with_suffix, write_configured_id,
};
use crate::start::new_cluster::{NewCluster, RestoreFailure, RestoredCluster, sync_parent};
use crate::store::snapshot::SnapshotStore;
use crate::type_config::{LogId, Payload};
use crate::wire::{LogIdDto, VoteDto, decode_record};

/// The bytes of entries read at once.
const READ_BYTES_MAX: usize = 1 << 20;

/// A position in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    pub term: u64,
    pub index: u64,
}

/// What the directory of a stopped node holds.
#[derive(Debug)]
pub struct StoppedNode {
    pub cluster: String,
    pub node: NodeId,
    pub incarnation: Incarnation,
    /// The term and the node of the last vote.
    pub vote: Option<(u64, NodeId)>,
    /// The last entry; `None` for a node without a log.
    pub last: Option<LogPosition>,
    /// The last index known to be committed.
    pub committed: Option<u64>,
    /// The index of the snapshot.
    pub snapshot: Option<u64>,
    /// The voters of the last membership.
    pub voters: BTreeSet<NodeId>,
    /// The state after the last entry.
    pub machine: Machine,
    _data_dir: DataDir,
}

impl StoppedNode {
    /// Reads a directory and keeps it locked until the drop of the value. Blocks the thread.
    ///
    /// # Errors
    /// [`RestoreFailure::Directory`] if a process uses the directory, or a part of it is missing;
    /// [`RestoreFailure::Damaged`] for a wrong checksum or missing entries.
    pub fn read(dir: &Path) -> Result<Self, RestoreFailure> {
        let data_dir = DataDir::open_existing(dir)?;
        if !holdfast_storage::has_log(&dir.join(LOG_DIR)) {
            return Err(StartError::NoIdentity(dir.to_owned()).into());
        }
        let damaged = |error: io::Error| match old_program(dir.display(), &error) {
            Some(why) => RestoreFailure::Directory(StartError::OldProgram(why)),
            None => RestoreFailure::Damaged { dir: dir.to_owned(), reason: error.to_string() },
        };
        let mut state = StateAfterEntry::open(dir).map_err(damaged)?;
        let log = Log::open(&dir.join(LOG_DIR), LogOptions::default());
        let log = log.map_err(|error| damaged(io::Error::other(error)))?;
        let read = state.apply_all(&log).and_then(|()| {
            let vote = meta::<VoteDto>(&log, RaftMeta::Vote, Kind::Vote)?;
            let committed = meta::<LogIdDto>(&log, RaftMeta::Committed, Kind::Committed)?;
            Ok((vote, committed))
        });
        log.shutdown();
        let (vote, committed) = read.map_err(damaged)?;
        let identity = &data_dir.identity;
        Ok(Self {
            cluster: identity.cluster.clone(),
            node: identity.node,
            incarnation: identity.incarnation,
            vote: vote.map(|vote| (vote.term, NodeId(vote.node))),
            last: state.last.map(|id| LogPosition { term: id.leader_id.term, index: id.index }),
            committed: committed.map(|id| id.index),
            snapshot: state.snapshot,
            voters: state.voters,
            machine: state.machine,
            _data_dir: data_dir,
        })
    }
}

/// A recovery of a cluster from one directory.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// The directory of the stopped node, which the directory of the new cluster replaces.
    pub dir: PathBuf,
    /// The name of the new cluster.
    pub cluster: String,
    pub token_floor: u64,
    pub revokes_tokens: bool,
}

impl Recovery {
    /// Writes the directory of the new cluster, with the id of the stopped node, and gives it the name of the old one. The
    /// old one is kept as [`directory_before_recovery`]. Blocks the thread.
    ///
    /// # Errors
    /// [`RestoreFailure`]; the old directory then has its name.
    pub fn run(&self, stopped: StoppedNode) -> Result<RestoredCluster, RestoreFailure> {
        let (old, new) =
            (directory_before_recovery(&self.dir), with_suffix(&self.dir, RECOVERING_SUFFIX));
        if old.exists() {
            return Err(RestoreFailure::NotEmpty(old));
        }
        let StoppedNode { node, voters, machine, _data_dir: lock, .. } = stopped;
        let lost = voters.into_iter().filter(|voter| *voter != node).collect();
        let cluster = NewCluster {
            data_dir: new.clone(),
            cluster: self.cluster.clone(),
            node,
            token_floor: self.token_floor,
            keeps_sessions: false,
            revokes_tokens: self.revokes_tokens,
            source: RestoreSource::Survivor { node, lost },
        };
        let restored = cluster.write(machine)?;
        if let Some(configured) = configured_id(&self.dir) {
            write_configured_id(&new, configured)?;
        }
        self.exchange(&old, &new).map_err(|error| RestoreFailure::Write {
            dir: self.dir.clone(),
            reason: format!("{error}; the new directory is {}", new.display()),
        })?;
        drop(lock);
        Ok(restored)
    }

    fn exchange(&self, old: &Path, new: &Path) -> io::Result<()> {
        std::fs::rename(&self.dir, old)?;
        if let Err(error) = std::fs::rename(new, &self.dir) {
            std::fs::rename(old, &self.dir)?;
            return Err(error);
        }
        sync_parent(&self.dir)
    }
}

/// The state after an entry.
struct StateAfterEntry {
    machine: Machine,
    last: Option<LogId>,
    snapshot: Option<u64>,
    voters: BTreeSet<NodeId>,
}

impl StateAfterEntry {
    /// The state of the snapshot, or that before the first entry.
    fn open(dir: &Path) -> io::Result<Self> {
        let store = SnapshotStore::open(&dir.join(SNAPSHOT_DIR), Failure::new())
            .map_err(io::Error::other)?;
        let Some(snapshot) = store.current()? else {
            let (machine, voters) = (Machine::new(), BTreeSet::new());
            return Ok(Self { machine, last: None, snapshot: None, voters });
        };
        let meta = snapshot.meta;
        let machine = store.install(snapshot.snapshot, &meta)?;
        let membership = meta.last_membership.membership();
        Ok(Self {
            machine,
            last: meta.last_log_id,
            snapshot: meta.last_log_id.map(|id| id.index),
            voters: membership.voter_ids().map(NodeId).collect(),
        })
    }

    /// Applies all entries of the log, committed or not.
    fn apply_all(&mut self, log: &Log) -> io::Result<()> {
        let mut next = self.last.map_or(0, |id| id.index + 1);
        // Entries are purged only after a snapshot.
        if let Some(purged) = log.purged().filter(|purged| *purged >= next) {
            return Err(io::Error::other(format!(
                "the snapshot of entries {next} to {purged} is missing"
            )));
        }
        let Some(last) = log.bounds().1 else { return Ok(()) };
        while next <= last {
            let records = log.read(next..=last, READ_BYTES_MAX).map_err(io::Error::other)?;
            if records.is_empty() {
                return Err(io::Error::other(format!("entry {next} is missing")));
            }
            for record in records {
                self.apply(&record, next)?;
                next += 1;
            }
        }
        Ok(())
    }

    fn apply(&mut self, record: &Record, expected: u64) -> io::Result<()> {
        let entry = decode_record(&record.bytes).map_err(io::Error::other)?;
        if entry.log_id.index != expected {
            return Err(io::Error::other(format!("entry {expected} is missing")));
        }
        let term = entry.log_id.leader_id.term;
        if self.last.is_some_and(|last| term < last.leader_id.term) {
            return Err(io::Error::other(format!("entry {expected} is of an older term, {term}")));
        }
        match entry.payload {
            Payload::Blank => {}
            Payload::Normal(batch) => {
                drop(self.machine.apply(batch.take().map_err(io::Error::other)?));
            }
            Payload::Membership(membership) => {
                self.voters = membership.voter_ids().map(NodeId).collect();
            }
        }
        self.last = Some(entry.log_id);
        Ok(())
    }
}

fn meta<T: DeserializeOwned>(log: &Log, meta: RaftMeta, kind: Kind) -> io::Result<Option<T>> {
    let bytes: Option<Bytes> = log.meta(meta).map_err(io::Error::other)?;
    bytes.map(|bytes| holdfast_codec::decode(kind, &bytes)).transpose().map_err(io::Error::other)
}
