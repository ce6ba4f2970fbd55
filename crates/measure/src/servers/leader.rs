//! Finds the leader of a cluster through the replies of the nodes.

use std::net::SocketAddr;

use serde_json::Value;

use super::{Server, ServerKind, request_text};

const HOLDFAST: &str = "GET /v1/cluster HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
const ETCD: &str = "POST /v3/maintenance/status HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
const ZOOKEEPER: &str = "srvr";

/// Returns the index of the leader; `None` if no node reports that it leads, and for servers without a leader.
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
        ServerKind::Holdfast => {
            json(address, HOLDFAST).await.is_some_and(|reply| holdfast_leads(&reply, at))
        }
        ServerKind::Etcd => json(address, ETCD).await.is_some_and(|reply| etcd_leads(&reply)),
        ServerKind::ZooKeeper => request_text(address, ZOOKEEPER)
            .await
            .is_some_and(|reply| reply.contains("Mode: leader")),
        ServerKind::Redis
        | ServerKind::RedisSynced
        | ServerKind::Postgres
        | ServerKind::MariaDb => false,
    }
}

/// Nodes have numbers from 1. Only the leader's own reply counts, because a follower's may be stale.
fn holdfast_leads(reply: &Value, at: usize) -> bool {
    reply.get("leader").and_then(Value::as_u64) == u64::try_from(at + 1).ok()
}

fn etcd_leads(reply: &Value) -> bool {
    let own = reply.get("header").and_then(|header| header.get("member_id"));
    own.is_some() && own == reply.get("leader")
}

/// Returns the body of a reply, chunked or not.
async fn json(address: SocketAddr, request: &str) -> Option<Value> {
    let reply = request_text(address, request).await?;
    let (start, end) = (reply.find('{')?, reply.rfind('}')?);
    serde_json::from_str(reply.get(start..=end)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_node_that_replies_so_itself_leads() {
        let reply = serde_json::json!({ "leader": 2 });
        assert!(holdfast_leads(&reply, 1));
        assert!(!holdfast_leads(&reply, 0));
        assert!(!holdfast_leads(&serde_json::json!({ "leader": null }), 0));
        let reply = serde_json::json!({ "header": { "member_id": "7" }, "leader": "7" });
        assert!(etcd_leads(&reply));
        let reply = serde_json::json!({ "header": { "member_id": "7" }, "leader": "9" });
        assert!(!etcd_leads(&reply));
        assert!(!etcd_leads(&serde_json::json!({})));
    }
}
