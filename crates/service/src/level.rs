//! Changes of the feature level.
//!
//! Any node accepts a change. It asks every member first, because a node whose program does not know the level could not
//! apply the commands of that level. A member that joins later proves in its handshake that its program knows the level.

use holdfast_types::{Command, FeatureLevel, Reply, Right};

use crate::cluster::ClusterMember;
use crate::context::Response;
use crate::failure::Failure;
use crate::service::Service;

impl Service {
    /// Raises or lowers the feature level by one. The present level changes nothing.
    ///
    /// # Errors
    /// [`Failure::LevelNotReady`] if a member is unreachable or its program does not know the level; a rejection if the
    /// level changes by more than one, or if the state has anything of the level to leave; the errors of any write.
    pub async fn set_level(&self, level: FeatureLevel) -> Result<Response<FeatureLevel>, Failure> {
        self.require(Right::ClusterManage)?;
        self.read_barrier().await?;
        for member in self.cluster().await.nodes {
            check_program(&member, level).map_err(Failure::LevelNotReady)?;
        }
        let set = self.propose_for(Command::SetLevel(level), Reply::into_level_set).await?;
        Ok(set.map(|()| level))
    }
}

fn check_program(member: &ClusterMember, level: FeatureLevel) -> Result<(), String> {
    let ClusterMember { id, version, level_max, .. } = member;
    let (Some(version), Some(known)) = (version, level_max) else {
        return Err(format!("node {id} is unreachable, so its program is unknown"));
    };
    if *known < level {
        return Err(format!(
            "the program of node {id} ({version}) knows feature levels up to {known}"
        ));
    }
    Ok(())
}
