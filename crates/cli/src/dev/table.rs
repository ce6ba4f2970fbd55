//! The output of `holdfast dev` when its cluster is ready. Scripts wait for the last line: `ready http://...`.

use crate::output::{cell, table};
use holdfast_api::ClusterBody;

use super::secure::SecureFiles;
use super::supervisor::DevCluster;

/// The table of nodes, the variables that other commands need, example calls, and the ready line.
pub(super) fn announce(view: &ClusterBody, cluster: &DevCluster, temporary: bool) -> String {
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
    let nodes = table(["node", "pid", "role", "http", "peer", "zookeeper"], rows);
    let layout = cluster.layout();
    let addresses: Vec<&str> = view.nodes.iter().map(|node| node.http.as_str()).collect();
    let exports = exports(&addresses, layout.security().as_ref());
    let scheme = if layout.security().is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}", layout.http(1));
    let calls = calls(&url, layout.security().as_ref());
    let kept = if temporary { "removed at the end; keep it with --data DIR" } else { "kept" };
    let dir = layout.dir().display();
    let zookeeper = match layout.security() {
        None => {
            let addresses: Vec<_> = view.nodes.iter().map(|node| node.zookeeper.as_str()).collect();
            format!("zkCli.sh -server {}\n", addresses.join(","))
        }
        // zkCli.sh needs a Java key store for TLS.
        Some(_) => String::new(),
    };
    format!(
        "{nodes}\n\n{exports}\n{calls}{zookeeper}\ndata and logs: {dir} ({kept}); stop with ^C\nready {url}"
    )
}

/// The variables with which the other commands find this cluster.
fn exports(addresses: &[&str], security: Option<&SecureFiles>) -> String {
    let address = format!("export HOLDFAST_ADDR={}\n", addresses.join(","));
    let Some(secure) = security else { return address };
    let (ca, token) = (secure.ca(), &secure.token);
    format!(
        "{address}export HOLDFAST_CACERT={}\nexport HOLDFAST_ACCESS_TOKEN_FILE={}\n",
        ca.display(),
        token.display()
    )
}

/// Calls for a shell. They name one session and one attempt, so that a repeated call never acquires a lost lock again.
fn calls(url: &str, security: Option<&SecureFiles>) -> String {
    let curl = match security {
        None => "curl",
        Some(_) => "curl --cacert $HOLDFAST_CACERT -H @$HOLDFAST_ACCESS_TOKEN_FILE",
    };
    let lock = format!("{url}/v1/locks/orders");
    format!(
        "ME=\"session=me-$(date +%s)&attempt=1\"   # a session of your own\n\
         {curl} -X PUT    \"{lock}?$ME&wait=10s\"   # queue and acquire; JSON with \"token\"\n\
         {curl} -X PUT    \"{lock}?$ME\"            # renew; 409 or 410 if the lock is lost\n\
         {curl}           \"{lock}\"                # holders and queue\n\
         {curl} -X DELETE \"{lock}?$ME\"            # release\n"
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn another_shell_gets_the_variables_and_calls_of_the_cluster() {
        let secure = SecureFiles::new(Path::new("/data"));
        let shown = exports(&["127.0.0.1:8400", "127.0.0.1:8410"], Some(&secure));
        assert_eq!(
            shown,
            "export HOLDFAST_ADDR=127.0.0.1:8400,127.0.0.1:8410\nexport HOLDFAST_CACERT=/data/pki/ca.pem\n\
             export HOLDFAST_ACCESS_TOKEN_FILE=/data/admin.token\n"
        );
        assert_eq!(exports(&["127.0.0.1:8400"], None), "export HOLDFAST_ADDR=127.0.0.1:8400\n");
        let calls = calls("https://127.0.0.1:8400", Some(&secure));
        assert_eq!(calls.matches("--cacert $HOLDFAST_CACERT").count(), 4);
        assert_eq!(calls.matches("?$ME").count(), 3);
    }
}
