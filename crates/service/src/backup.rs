//! Backups of the cluster and its seal. Backups are made by this node from a copy of its state. Bound: one backup at a time.
//!
//! When the node has sent a whole backup, it records that in the state of the cluster.
//!
//! A seal makes a last backup complete: it has everything that clients have. The state machine rejects changes while it is
//! sealed. The leader's timers propose nothing meanwhile, and renewals work.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use holdfast_machine::Machine;
use holdfast_types::{Command, NodeOperation, Reason, Rejection, Reply, Revision, Right, Seal};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;

use crate::auth::authorization::{CredentialWatch, credential_ended};
use crate::request::{Failure, ReadMode, Response};
use crate::service::Service;

/// The bytes of a backup. The node makes no other backup until the drop of the value.
#[derive(Debug)]
pub struct BackupStream {
    /// The first bytes, until they are taken.
    first: Option<Bytes>,
    rest: mpsc::Receiver<io::Result<Bytes>>,
    draining: CancellationToken,
    credential: Option<CredentialWatch>,
    /// The revision, and the bytes so far; `None` after an error or the end.
    progress: Option<(Revision, u64)>,
    /// Records the backup at its end.
    node: Service,
    _permit: OwnedSemaphorePermit,
}

impl Service {
    /// Makes a backup that contains everything acknowledged before the call. The state is a copy, which costs O(1), so
    /// `apply` continues.
    ///
    /// # Errors
    /// A rejection without the right `cluster backup`; [`Failure::BackupInProgress`]; the errors of any write.
    pub async fn backup(&self) -> Result<Response<BackupStream>, Failure> {
        let allowed = self.read(ReadMode::Linearizable, |machine| self.check_backup(machine));
        allowed.await?;
        let permit = self.parts.backups.clone().try_acquire_owned();
        let permit = permit.map_err(|_| Failure::BackupInProgress)?;
        // Without its record in the audit trail, no backup is made. The backup has the record.
        self.record_operation(NodeOperation::Backup { node: self.node() }).await?;
        let machine = self.read(ReadMode::Linearizable, |machine: &Machine| {
            self.check_backup(machine)?;
            Ok(machine.clone())
        });
        let Response { value: machine, revision, .. } = machine.await?;
        let mut rest = self.raft().stream_backup(machine, self.parts.cluster.clone());
        let ended_early =
            || Err(io::Error::other("the thread of the backup ended without a result"));
        let first = rest.recv().await.unwrap_or_else(ended_early);
        let first = first.map_err(|error| Failure::Failed(format!("no backup: {error}")))?;
        let stream = BackupStream {
            first: Some(first),
            rest,
            draining: self.draining().clone(),
            credential: self.watch_credential(),
            progress: Some((revision, 0)),
            node: self.as_node(),
            _permit: permit,
        };
        Ok(Response::new(stream, revision))
    }

    /// A backup that this node makes for itself. [`Service::record_backup`] records it when it is stored.
    ///
    /// # Errors
    /// As [`Service::backup`].
    pub async fn scheduled_backup(&self) -> Result<(BackupStream, Revision), Failure> {
        let Response { value: mut stream, revision, .. } = self.as_node().backup().await?;
        stream.progress = None;
        Ok((stream, revision))
    }

    /// The age of the last recorded backup; `None` before the first.
    pub fn last_backup_age(&self) -> Option<Duration> {
        let last = self.raft().read(Machine::last_backup)?;
        Some(Duration::from_millis(self.log_time().0.saturating_sub(last.at.0)))
    }

    pub async fn record_backup(&self, revision: Revision, bytes: u64) {
        let command = Command::RecordBackup { revision, bytes };
        if let Err(error) = self.as_node().propose(command, Reply::into_backup_recorded).await {
            tracing::warn!(%error, "a backup is complete, but the cluster has not recorded it");
        }
    }

    /// A backup also has what access lists protect. Once there has been an administrator, it needs the right in every mode.
    fn check_backup(&self, machine: &Machine) -> Result<(), Rejection> {
        let right = Right::ClusterBackup;
        if machine.has_had_administrator() {
            self.rights(machine)?.check(right, "")?;
        }
        self.check(machine, right, "")
    }

    /// Seals the cluster, and returns its seal: the first one, if it was sealed before.
    ///
    /// # Errors
    /// A rejection without the right `cluster manage`, or the errors of any write.
    pub async fn seal(&self, reason: Reason) -> Result<Response<Seal>, Failure> {
        self.require(Right::ClusterManage)?;
        self.propose(Command::Seal { reason }, Reply::into_sealed).await
    }

    /// Ends the seal of a revision.
    ///
    /// # Errors
    /// As [`Service::seal`], and the present seal if it has another revision.
    pub async fn unseal(&self, seal: Revision) -> Result<Response<()>, Failure> {
        self.require(Right::ClusterManage)?;
        self.propose(Command::Unseal { seal }, Reply::into_unsealed).await
    }
}

impl BackupStream {
    /// The next bytes; `None` at the end, after the backup is recorded. After an error the bytes before it are not a
    /// backup.
    pub async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let next = if let Some(first) = self.first.take() {
            Some(Ok(first))
        } else {
            tokio::select! {
                biased;
                denied = credential_ended(&mut self.credential) => {
                    Some(Err(io::Error::other(Failure::Rejected(denied).to_string())))
                }
                next = self.rest.recv() => next,
                () = self.draining.cancelled() => Some(Err(io::Error::other("this node is shutting down"))),
            }
        };
        match (&next, self.progress.take()) {
            (Some(Ok(piece)), Some((revision, bytes))) => {
                self.progress = Some((revision, bytes + piece.len() as u64));
            }
            (None, Some((revision, bytes))) => self.node.record_backup(revision, bytes).await,
            (Some(_), _) | (None, None) => {}
        }
        next
    }
}
