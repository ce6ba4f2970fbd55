//! The output of `holdfast dev` when its cluster is ready. Scripts wait for the last line: `ready http://...`.

use holdfast_api::ClusterBody;

use super::supervisor::DevCluster;
use crate::output::{cell, table};

/// The table of nodes, example calls, and the ready line.
pub(crate) fn announce(view: &ClusterBody, cluster: &DevCluster, temporary: bool) -> String {
    let rows = view.nodes.iter().map(|node| {
        [
            node.id.to_string(),
            cell(cluster.pid(node.id.0)),
            node.role.clone(),
            node.http.clone(),
            node.peer.clone(),
            node.zookeeper.clone(),
        ]
    });
    let table = table(["node", "pid", "role", "http", "peer", "zookeeper"], rows);
    let address = cluster.layout().http(1);
    let zookeeper: Vec<&str> = view.nodes.iter().map(|node| node.zookeeper.as_str()).collect();
    let zookeeper = zookeeper.join(",");
    let kept = if temporary { "removed at the end; keep it with --data DIR" } else { "kept" };
    let (curl, scheme) = match cluster.layout().security() {
        None => ("curl".to_owned(), "http"),
        Some(secure) => {
            let (ca, token) = (secure.ca(), &secure.token);
            (format!("curl --cacert {} -H @{}", ca.display(), token.display()), "https")
        }
    };
    let url = if scheme == "http" { address.to_string() } else { format!("https://{address}") };
    format!(
        "{table}\n\n\
         {curl} -X PUT    '{url}/v1/locks/orders?wait=10s'               # queue and acquire; JSON with \"token\" and \"session\"\n\
         {curl} -X PUT    '{url}/v1/locks/orders?session=SESSION'        # the same session renews\n\
         {curl}           '{url}/v1/locks/orders'                        # holders and queue\n\
         {curl} -X DELETE '{url}/v1/locks/orders?session=SESSION'        # release\n\
         zkCli.sh -server {zookeeper}   # any ZooKeeper client, in the same queues\n\n\
         data and logs: {} ({kept}); stop with ^C\n\
         ready {scheme}://{address}",
        cluster.layout().dir().display()
    )
}
