//! New certificates, a new CA, and the way to TLS and back, under load: no call fails and no lock is lost.

use std::process::Command;

use crate::load::{ClientAccess, ClientLoad};
use crate::program::{eventually, holdfast};
use crate::tls::SecureCluster;

/// Three nodes with ports from `port` on; TLS with a CA.
fn access(port: u16, ca: Option<Vec<u8>>) -> ClientAccess {
    let nodes = (0..3).map(|node| format!("127.0.0.1:{}", port + 3 * node)).collect();
    ClientAccess { nodes, ca }
}

/// The flags of a node whose ports have this mode.
fn ports(mode: &str) -> Vec<String> {
    ["http", "raft", "zookeeper"]
        .iter()
        .flat_map(|port| ["--set".to_owned(), format!("{port}.tls={mode}")])
        .collect()
}

/// Restarts the nodes one after the other.
fn restart_all(cluster: &mut SecureCluster, flags: &[String], status: &[&str]) {
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    for id in 1..=3 {
        let mut node = cluster.nodes.remove(0);
        node.interrupt();
        node.wait();
        cluster.start_node(id, &format!("node-{id}"), &flags);
        cluster.wait_healthy(3, status);
    }
}

/// The steps of "To TLS without a pause" in docs/security.md, and back.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_way_to_tls_and_back_fails_no_call() {
    let off = ports("off");
    let off_flags: Vec<_> = off.iter().map(String::as_str).collect();
    let mut cluster = SecureCluster::start_all(&off_flags);
    cluster.wait_healthy(3, &[]);
    let ca_file = cluster.path("pki/ca.pem");
    let with_tls = access(cluster.port(), Some(std::fs::read(&ca_file).unwrap()));
    let load = ClientLoad::start(access(cluster.port(), None));
    load.wait_for_cycles();

    restart_all(&mut cluster, &ports("allow"), &[]);
    load.switch(with_tls);
    load.wait_for_cycles();
    restart_all(&mut cluster, &ports("require"), &["--cacert", &ca_file]);
    load.wait_for_cycles();
    let refused = cluster.status(&[]);
    assert!(!refused.contains("healthy"), "a port that requires TLS answered without: {refused}");

    restart_all(&mut cluster, &ports("allow"), &["--cacert", &ca_file]);
    load.switch(access(cluster.port(), None));
    load.wait_for_cycles();
    restart_all(&mut cluster, &off, &[]);
    load.wait_for_cycles();
    load.finish().await;
}

/// Whether a node trusts a client certificate.
fn trusts(port: u16, server_ca: &str, certificate: &str) -> bool {
    let mut curl = Command::new("curl");
    curl.args(["-s", "-o", "/dev/null", "--cacert", server_ca]);
    curl.args(["--cert", &format!("{certificate}.pem"), "--key", &format!("{certificate}.key")]);
    curl.arg(format!("https://127.0.0.1:{port}/livez")).status().unwrap().success()
}

fn certs(args: &[&str]) {
    holdfast(&[&["certs"], args].concat()).assert_code(0);
}

/// The steps for a new CA in docs/security.md. At the end a node that restarts joins with the new CA alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_new_ca_fails_no_call() {
    let flags = ["--set", "http.client_certificates=request"];
    let mut cluster = SecureCluster::start_all(&flags);
    let (ca_file, new) = (cluster.path("pki/ca.pem"), cluster.path("new"));
    cluster.wait_healthy(3, &["--cacert", &ca_file]);
    let old_ca = std::fs::read(&ca_file).unwrap();
    certs(&["client", "old", "--dir", &cluster.path("pki")]);
    certs(&["init", "--cluster", "prod", "--dir", &new]);
    certs(&["client", "new", "--dir", &new]);
    let new_ca = std::fs::read(format!("{new}/ca.pem")).unwrap();
    let both = [old_ca, new_ca.clone()].concat();
    let both_file = cluster.path("both.pem");
    std::fs::write(&both_file, &both).unwrap();
    let load = ClientLoad::start(access(cluster.port(), Some(both.clone())));
    load.wait_for_cycles();

    let all_trust = |cluster: &SecureCluster, certificate: &str, expected: bool| {
        let what = format!("trust in {certificate}: {expected}");
        eventually(&what, || {
            (0..3).all(|id| trusts(cluster.port() + 3 * id, &both_file, certificate) == expected)
        });
    };
    let (old_client, new_client) = (cluster.path("pki/old"), format!("{new}/new"));
    assert!(!trusts(cluster.port(), &both_file, &new_client));
    std::fs::write(&ca_file, &both).unwrap();
    all_trust(&cluster, &new_client, true);
    load.wait_for_cycles();

    for id in 1..=3 {
        let name = format!("node-{id}");
        certs(&["node", &name, "--host", "127.0.0.1", "--dir", &new]);
        for kind in ["key", "pem"] {
            let to = cluster.path(&format!("pki/{name}.{kind}"));
            std::fs::copy(format!("{new}/{name}.{kind}"), format!("{to}.new")).unwrap();
            std::fs::rename(format!("{to}.new"), to).unwrap();
        }
        let new_ca_file = format!("{new}/ca.pem");
        let port = cluster.port() + 3 * (id - 1);
        eventually("a certificate of the new CA", || trusts(port, &new_ca_file, &new_client));
        load.wait_for_cycles();
    }

    std::fs::write(&ca_file, &new_ca).unwrap();
    all_trust(&cluster, &old_client, false);
    load.switch(access(cluster.port(), Some(new_ca)));
    load.wait_for_cycles();
    let flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    restart_all(&mut cluster, &flags, &["--cacert", &ca_file]);
    load.wait_for_cycles();
    load.finish().await;
}
