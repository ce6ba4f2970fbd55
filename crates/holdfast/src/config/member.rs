//! The `[[member]]` blocks: the nodes of the cluster and their addresses.

use std::collections::BTreeMap;

use holdfast_types::{MemberAddresses, NodeId};

use super::error::ConfigError;
use super::source::ConfigLayers;
use super::units;

/// Reads the members. Ids are unique and addresses well-formed.
pub(super) fn read(
    layers: &ConfigLayers,
) -> Result<BTreeMap<NodeId, MemberAddresses>, ConfigError> {
    let mut members = BTreeMap::new();
    for block in layers.member_blocks() {
        let id = NodeId(layers.member_key(block, "id", units::node_id)?);
        let member = MemberAddresses {
            http: layers.member_key(block, "http", units::address)?,
            peer: layers.member_key(block, "peer", units::address)?,
            zookeeper: layers.member_key(block, "zookeeper", units::address)?,
        };
        if members.insert(id, member).is_some() {
            let problem = format!("{id} is given twice: every node needs its own id");
            return Err(layers.bad_member("member.id", &problem));
        }
    }
    if members.is_empty() {
        let fix = "write one [[member]] block with id, http, peer and zookeeper for each node";
        return Err(layers.missing("member", fix));
    }
    Ok(members)
}
