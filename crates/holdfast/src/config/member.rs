//! The `[[member]]` blocks: the nodes of the cluster and their addresses.

use std::collections::BTreeMap;

use holdfast_types::NodeId;

use super::address::Address;
use super::error::ConfigError;
use super::source::ConfigLayers;
use super::units;

/// The addresses of one node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfiguredMember {
    /// The address for HTTP clients.
    pub(crate) http: Address,
    /// The address for the other nodes.
    pub(crate) peer: Address,
    /// The address for ZooKeeper clients.
    pub(crate) zookeeper: Address,
}

/// Reads the members. Ids are unique and addresses well-formed.
pub(super) fn read(
    layers: &ConfigLayers,
) -> Result<BTreeMap<NodeId, ConfiguredMember>, ConfigError> {
    let mut members = BTreeMap::new();
    for block in layers.member_blocks() {
        let id = NodeId(layers.member_key(block, "id", units::node_id)?);
        let member = ConfiguredMember {
            http: layers.member_key(block, "http", Address::read)?,
            peer: layers.member_key(block, "peer", Address::read)?,
            zookeeper: layers.member_key(block, "zookeeper", Address::read)?,
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
