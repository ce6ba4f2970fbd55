//! Backups of the cluster, made by this node from a copy of its state. Bound: one backup at a time.

use std::io;

use bytes::Bytes;
use holdfast_machine::Machine;
use holdfast_types::{Rejection, Right};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;

use crate::context::{ReadMode, Response};
use crate::failure::Failure;
use crate::service::Service;

/// The bytes of a backup. The node makes no other backup until the drop of the value.
#[derive(Debug)]
pub struct BackupStream {
    /// The first bytes, until they are taken.
    first: Option<Bytes>,
    rest: mpsc::Receiver<io::Result<Bytes>>,
    draining: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

impl Service {
    /// Makes a backup that contains everything acknowledged before the call. The state is a copy, which costs O(1), so
    /// `apply` continues.
    ///
    /// # Errors
    /// A rejection without the right `cluster backup`; [`Failure::BackupInProgress`]; the errors of any read.
    pub async fn backup(&self) -> Result<Response<BackupStream>, Failure> {
        let machine = self.read(ReadMode::Linearizable, |machine: &Machine| {
            self.check_backup(machine)?;
            Ok(machine.clone())
        });
        let Response { value: machine, revision, .. } = machine.await?.accepted()?;
        let permit = self.parts.backups.clone().try_acquire_owned();
        let permit = permit.map_err(|_| Failure::BackupInProgress)?;
        let mut rest = self.raft().stream_backup(machine, self.parts.cluster.clone());
        let first = rest.recv().await.unwrap_or_else(|| Err(ended_early()));
        let first = first.map_err(|error| Failure::Failed(format!("no backup: {error}")))?;
        let draining = self.draining().clone();
        let stream = BackupStream { first: Some(first), rest, draining, _permit: permit };
        Ok(Response::new(stream, revision))
    }

    /// A backup also has what access lists protect. Once there has been an administrator, it needs the right in every mode.
    fn check_backup(&self, machine: &Machine) -> Result<(), Rejection> {
        let right = Right::ClusterBackup;
        if machine.has_had_administrator() {
            machine.rights_of(self.actor(), self.log_time())?.check(right, "")?;
        }
        self.check(machine, right, "")
    }
}

impl BackupStream {
    /// The next bytes; `None` at the end. After an error the bytes before it are not a backup.
    pub async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        tokio::select! {
            next = self.rest.recv() => next,
            () = self.draining.cancelled() => Some(Err(io::Error::other("this node is shutting down"))),
        }
    }
}

fn ended_early() -> io::Error {
    io::Error::other("the thread of the backup ended without a result")
}
