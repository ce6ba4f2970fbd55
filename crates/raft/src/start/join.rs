//! The invitation of a node that joins a running cluster: a file in its data directory.
//!
//! `holdfast join` writes it into an empty directory. The node proves with the secret that it is the invited member. A
//! node with this file never forms a new cluster.

use std::path::Path;

use holdfast_codec::Kind;
use holdfast_types::{ClusterId, NodeId};
use serde::{Deserialize, Serialize};

use crate::error::StartError;
use crate::start::identity::{JOIN_FILE, create_data_dir, read_file};

/// An invitation, as the invited node has it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRequest {
    /// The name of the cluster.
    pub cluster: String,
    pub cluster_id: ClusterId,
    /// The id of the invited member.
    pub node: NodeId,
    pub secret: [u8; 32],
}

/// The secret is left out.
impl std::fmt::Debug for JoinRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cluster, cluster_id, node, secret: _ } = self;
        f.debug_struct("JoinRequest")
            .field("cluster", cluster)
            .field("cluster_id", cluster_id)
            .field("node", node)
            .finish_non_exhaustive()
    }
}

/// Writes the file into a data directory, and creates the directory. Blocks the thread.
///
/// # Errors
/// The directory has files, or cannot be written.
pub fn write_join_request(dir: &Path, request: &JoinRequest) -> Result<(), StartError> {
    let failed = |source| StartError::DataDir { dir: dir.to_owned(), source };
    create_data_dir(dir)?;
    if std::fs::read_dir(dir).map_err(failed)?.next().is_some() {
        return Err(StartError::NotEmpty(dir.to_owned()));
    }
    write(dir, request)
}

/// Writes the file into a directory that exists. Blocks the thread.
pub(crate) fn write(dir: &Path, request: &JoinRequest) -> Result<(), StartError> {
    let store = |error: &dyn std::fmt::Display| StartError::Store(error.to_string());
    let bytes =
        holdfast_codec::encode(Kind::JoinRequest, request).map_err(|error| store(&error))?;
    holdfast_storage::write_file(&dir.join(JOIN_FILE), &bytes).map_err(|error| store(&error))
}

/// Reads the file of a data directory, if it exists.
pub(crate) fn read_any(dir: &Path) -> Result<Option<JoinRequest>, StartError> {
    let advice = "run holdfast join again, with an empty directory";
    read_file(&dir.join(JOIN_FILE), Kind::JoinRequest, advice)
}

/// Reads the file of the data directory of a node, if it exists.
pub(crate) fn read(
    dir: &Path,
    cluster: &str,
    node: NodeId,
) -> Result<Option<JoinRequest>, StartError> {
    let Some(request) = read_any(dir)? else { return Ok(None) };
    if request.cluster != cluster {
        let (found, expected) = (request.cluster, cluster.to_owned());
        return Err(StartError::OtherCluster { dir: dir.to_owned(), found, expected });
    }
    if request.node != node {
        let (cluster, found) = (request.cluster, request.node);
        return Err(StartError::OtherNode { dir: dir.to_owned(), cluster, found, expected: node });
    }
    Ok(Some(request))
}
