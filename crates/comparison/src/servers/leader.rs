//! Which node of a cluster leads, as its nodes say themselves.
//!
//! Owns the question and the reading of the answer for each kind. Refuses to guess: when no node says so, there is none.

use std::net::SocketAddr;

use serde_json::Value;

use super::ready::ask;
use super::{Server, ServerKind};

const OURS: &str = "GET /v1/cluster HTTP/1.1\r\nHost: holdfast\r\nConnection: close\r\n\r\n";
const ETCD: &str = "POST /v3/maintenance/status HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
const ZOOKEEPER: &str = "srvr";

/// The place of the leader among the nodes of a cluster; none if none of them says it leads, or the kind has no leader.
pub async fn leader(kind: ServerKind, servers: &[Server]) -> Option<usize> {
    for (at, server) in servers.iter().enumerate() {
        if leads(kind, at, server.address()).await {
            return Some(at);
        }
    }
    None
}

async fn leads(kind: ServerKind, at: usize, address: SocketAddr) -> bool {
    match kind {
        ServerKind::Holdfast => json(address, OURS).await.is_some_and(|said| we_lead(&said, at)),
        ServerKind::Etcd => json(address, ETCD).await.is_some_and(|said| etcd_leads(&said)),
        ServerKind::ZooKeeper => {
            ask(address, ZOOKEEPER).await.is_some_and(|said| said.contains("Mode: leader"))
        }
        ServerKind::Redis
        | ServerKind::RedisSynced
        | ServerKind::Postgres
        | ServerKind::MariaDb => false,
    }
}

/// Nodes are numbered from 1; only the leader's own word counts, a follower's may be old.
fn we_lead(said: &Value, at: usize) -> bool {
    said.get("leader").and_then(Value::as_u64) == u64::try_from(at + 1).ok()
}

fn etcd_leads(said: &Value) -> bool {
    let own = said.get("header").and_then(|header| header.get("member_id"));
    own.is_some() && own == said.get("leader")
}

/// The body of an answer, whatever way it was cut into pieces.
async fn json(address: SocketAddr, question: &str) -> Option<Value> {
    let said = ask(address, question).await?;
    let (start, end) = (said.find('{')?, said.rfind('}')?);
    serde_json::from_str(said.get(start..=end)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_node_that_says_so_itself_leads() {
        let said = serde_json::json!({ "leader": 2 });
        assert!(we_lead(&said, 1));
        assert!(!we_lead(&said, 0));
        assert!(!we_lead(&serde_json::json!({ "leader": null }), 0));
        let said = serde_json::json!({ "header": { "member_id": "7" }, "leader": "7" });
        assert!(etcd_leads(&said));
        let said = serde_json::json!({ "header": { "member_id": "7" }, "leader": "9" });
        assert!(!etcd_leads(&said));
        assert!(!etcd_leads(&serde_json::json!({})));
    }
}
