//! What all connections of the front-end share.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use holdfast_service::Service;
use holdfast_trace::Sampler;
use holdfast_types::{MemberAddresses, NodeId};

use crate::config::ZkConfig;
use crate::connection_table::ConnectionTable;
use crate::metrics::ZkMetrics;

#[derive(Debug)]
pub(crate) struct ServerContext {
    pub(crate) config: ZkConfig,
    pub(crate) service: Service,
    pub(crate) metrics: ZkMetrics,
    pub(crate) connections: Arc<ConnectionTable>,
    /// `None` if the node exports no traces.
    pub(crate) trace_sampler: Option<Sampler>,
    /// The address of the listener.
    pub(crate) address: Option<SocketAddr>,
}

impl ServerContext {
    /// The data shown at `/zookeeper/config`; `None` on a single node.
    pub(crate) fn members_text(&self) -> Option<Arc<str>> {
        members_text(&self.service.members()).map(Arc::from)
    }
}

/// The members in the format of `/zookeeper/config`; `None` on a single node, as in ZooKeeper. A member has one peer port
/// where ZooKeeper has two, and ZooKeeper's Java client rejects equal ones: the election port is that of the clients. The
/// version is constant: ZooKeeper clients cannot change the members.
fn members_text(members: &BTreeMap<NodeId, MemberAddresses>) -> Option<String> {
    let line = |(id, member): (&NodeId, &MemberAddresses)| {
        let MemberAddresses { peer, zookeeper, .. } = member;
        format!("server.{id}={peer}:{}:participant;{zookeeper}\n", zookeeper.port())
    };
    let lines = (members.len() > 1).then(|| members.iter().map(line))?;
    Some(lines.collect::<String>() + "version=0")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shutdown {
    NotStarted,
    /// Connections read no more requests and answer those they have read.
    Draining,
    /// Connections close at once.
    Now,
}

#[cfg(test)]
mod tests {
    use holdfast_types::Address;

    use super::*;

    #[test]
    fn members_have_the_format_of_zookeeper_and_a_single_node_has_none() {
        let member = |n: u64| {
            let address = |port: u16| Address::parse(&format!("h{n}:{port}")).unwrap();
            MemberAddresses { http: address(7400), peer: address(7401), zookeeper: address(7402) }
        };
        let members = |ids: &[u64]| ids.iter().map(|n| (NodeId(*n), member(*n))).collect();
        let text = "server.1=h1:7401:7402:participant;h1:7402\nserver.2=h2:7401:7402:participant;h2:7402\nversion=0";
        assert_eq!(members_text(&members(&[1, 2])).as_deref(), Some(text));
        assert_eq!(members_text(&members(&[1])), None);
    }
}
