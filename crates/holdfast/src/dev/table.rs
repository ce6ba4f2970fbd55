//! What `holdfast dev` prints when its cluster serves. The last line is a promise to scripts: `ready http://...`.

use holdfast_api::ClusterBody;

use super::Cluster;
use crate::output;

/// The table of nodes, the calls to try, and the ready line.
pub(crate) fn announce(view: &ClusterBody, cluster: &Cluster, temporary: bool) -> String {
    let rows = view.nodes.iter().map(|node| {
        [
            node.id.to_string(),
            cluster.pid(node.id.0).map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
            node.role.clone(),
            node.http.clone(),
            node.peer.clone(),
            node.zookeeper.clone(),
        ]
    });
    let table = output::table(["node", "pid", "role", "http", "peer", "zookeeper"], rows);
    let address = cluster.layout().http(1);
    let zookeeper: Vec<&str> = view.nodes.iter().map(|node| node.zookeeper.as_str()).collect();
    let zookeeper = zookeeper.join(",");
    let kept = if temporary { "removed at the end; keep it with --data DIR" } else { "kept" };
    format!(
        "{table}\n\n\
         curl -X PUT    '{address}/v1/locks/orders?session=me&ttl=30s&wait=10s'   # queue, take it; JSON with \"token\"\n\
         curl -X PUT    '{address}/v1/locks/orders?session=me'                    # the same call renews\n\
         curl           '{address}/v1/locks/orders'                               # who holds it, who waits\n\
         curl -X DELETE '{address}/v1/locks/orders?session=me'                    # release\n\
         zkCli.sh -server {zookeeper}   # any ZooKeeper client, in the same queues\n\n\
         data and logs: {} ({kept}); stop with ^C\n\
         ready http://{address}",
        cluster.layout().dir().display()
    )
}
