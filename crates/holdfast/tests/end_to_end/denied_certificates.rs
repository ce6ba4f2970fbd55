//! A denied certificate: its connections end on every port of every node, and no new one is accepted.

use std::process::{Child, Command, Stdio};

use holdfast_tls::{CertificateInfo, certificates_of};
use holdfast_types::CertificateId;

use crate::program::{eventually, holdfast};
use crate::tls::SecureCluster;

/// The serial number and the fingerprint of a certificate.
fn ids(file: &str) -> [CertificateId; 2] {
    let pem = std::fs::read(file).unwrap();
    CertificateInfo::of(&certificates_of(&pem).unwrap()[0]).unwrap().ids
}

/// A call to node 1 with a client certificate.
fn call(cluster: &SecureCluster, certificate: &str, method: &str, target: &str) -> Child {
    let pki = cluster.path("pki");
    let mut curl = Command::new("curl");
    curl.args(["-sf", "-X", method, "--cacert", &format!("{pki}/ca.pem")]);
    curl.args(["--cert", &format!("{pki}/{certificate}.pem")]);
    curl.args(["--key", &format!("{pki}/{certificate}.key")]);
    curl.arg(format!("https://127.0.0.1:{}{target}", cluster.port()));
    curl.stdout(Stdio::null()).spawn().unwrap()
}

fn succeeds(cluster: &SecureCluster, certificate: &str) -> bool {
    call(cluster, certificate, "GET", "/version").wait().unwrap().success()
}

#[test]
fn a_denied_certificate_ends_on_every_port_until_it_is_allowed() {
    let flags = ["--set", "http.client_certificates=request"];
    let cluster = SecureCluster::start_all(&flags);
    let pki = cluster.path("pki");
    let ca = format!("{pki}/ca.pem");
    cluster.wait_healthy(3, &["--cacert", &ca]);
    for name in ["ci", "web"] {
        holdfast(&["certs", "client", name, "--dir", &pki]).assert_code(0);
    }
    let (address, token) = (format!("127.0.0.1:{}", cluster.port()), cluster.path("admin.token"));
    let run = |args: &[&str]| {
        let end = holdfast(&[args, &["--addr", &address, "--cacert", &ca]].concat());
        assert_eq!(end.code, Some(0), "{args:?}: {}", end.stderr);
        end.stdout
    };
    let owned = cluster.path("data-1");
    run(&["auth", "bootstrap", "--data-dir", &owned, "--mode", "shadow", "--out", &token]);
    let as_admin = |args: &[&str]| run(&[args, &["--access-token-file", &token]].concat());
    let deny = |id: &CertificateId| {
        as_admin(&["auth", "certificate", "deny", id.as_str(), "--reason", "stolen"])
    };
    assert!(call(&cluster, "web", "PUT", "/v1/locks/a?session=web").wait().unwrap().success());
    let mut waiting = call(&cluster, "ci", "PUT", "/v1/locks/a?session=ci&wait=60s");
    eventually("the waiter", || as_admin(&["who", "a"]).contains("ci"));
    let [serial, fingerprint] = ids(&format!("{pki}/ci.pem"));
    deny(&serial);
    eventually("the end of the waiting call", || waiting.try_wait().unwrap().is_some());
    assert!(!waiting.wait().unwrap().success());
    eventually("the refusal", || !succeeds(&cluster, "ci"));
    assert!(succeeds(&cluster, "web"));
    assert!(as_admin(&["auth", "certificate", "ls"]).contains("stolen"));
    as_admin(&["auth", "certificate", "allow", serial.as_str()]);
    eventually("the end of the denial", || succeeds(&cluster, "ci"));
    deny(&fingerprint);
    eventually("the refusal", || !succeeds(&cluster, "ci"));

    // The key of a node was stolen.
    let [node, _] = ids(&format!("{pki}/node-3.pem"));
    deny(&node);
    eventually("the lost node", || {
        let alarms = holdfast(&[
            "alarms",
            "--addr",
            &address,
            "--cacert",
            &ca,
            "--access-token-file",
            &token,
        ]);
        alarms.stdout.contains("node 3") || alarms.stderr.contains("node 3")
    });
    as_admin(&["auth", "certificate", "allow", node.as_str()]);
    cluster.wait_healthy(3, &["--cacert", &ca]);
}
