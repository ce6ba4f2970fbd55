//! New certificates, a new CA, and the way to TLS and back, under load: no call fails and no lock is lost.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use holdfast_api::GrantBody;
use holdfast_client::http::{ClientTls, Method};
use holdfast_client::{Call, Client};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::program::{eventually, holdfast};
use crate::tls::SecureCluster;

const WORKERS: usize = 3;

/// How clients reach the nodes at the moment.
#[derive(Clone, Debug, Default)]
struct ClientAccess {
    /// `None` without TLS.
    ca: Option<Vec<u8>>,
}

/// Clients that acquire and release locks, and one lock that is held all the time.
struct RotationLoad {
    access: Arc<Mutex<ClientAccess>>,
    cycles: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Result<(), String>>>,
}

impl RotationLoad {
    fn start(port: u16, access: ClientAccess) -> Self {
        let access = Arc::new(Mutex::new(access));
        let (cycles, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let mut tasks = Vec::new();
        for number in 0..WORKERS {
            let (access, cycles, stop) = (access.clone(), cycles.clone(), stop.clone());
            tasks.push(tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    // A new client opens new connections.
                    let client = client(port, &access.lock().clone());
                    cycle(&client, number).await.map_err(|error| format!("{error:?}"))?;
                    cycles.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }));
        }
        let (current, ended) = (access.clone(), stop.clone());
        tasks.push(tokio::spawn(keep(port, current, ended)));
        Self { access, cycles, stop, tasks }
    }

    fn switch(&self, access: ClientAccess) {
        *self.access.lock() = access;
    }

    /// Waits for cycles that began after the call.
    fn wait_for_cycles(&self) {
        let before = self.cycles.load(Ordering::Relaxed);
        let enough = before + 3 * u64::try_from(WORKERS).unwrap();
        eventually("more cycles", || self.cycles.load(Ordering::Relaxed) >= enough);
        assert!(self.tasks.iter().all(|task| !task.is_finished()), "a client has failed");
    }

    /// Ends the load. No call has failed, and the lock is still held.
    async fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap().unwrap();
        }
    }
}

fn client(port: u16, access: &ClientAccess) -> Client {
    let scheme = if access.ca.is_some() { "https" } else { "http" };
    let addresses = (0..3).map(|node| format!("{scheme}://127.0.0.1:{}", port + 3 * node));
    let mut builder = Client::builder(addresses);
    if let Some(ca) = &access.ca {
        builder = builder.tls(ClientTls { ca: Some(ca.clone()), identity: None });
    }
    builder.build().unwrap()
}

async fn cycle(client: &Client, number: usize) -> Result<(), holdfast_client::Error> {
    for _ in 0..5 {
        client.lock(format!("rotation/{number}")).acquire().await?.release().await?;
    }
    client.close().await
}

/// Holds a lock with one session, and renews it. Each answer has the first token.
async fn keep(
    port: u16,
    access: Arc<Mutex<ClientAccess>>,
    stop: Arc<AtomicBool>,
) -> Result<(), String> {
    let mut token = None;
    let mut renewals = tokio::time::interval(Duration::from_millis(200));
    while !stop.load(Ordering::Relaxed) {
        renewals.tick().await;
        let client = client(port, &access.lock().clone());
        let call = Call::new(Method::PUT, "/v1/locks/kept?session=keeper&ttl=20s");
        let grant: GrantBody = client.call(&call).await.map_err(|error| format!("{error:?}"))?;
        if *token.get_or_insert(grant.token) != grant.token {
            return Err(format!("the lock was lost: token {} after {token:?}", grant.token));
        }
    }
    Ok(())
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
    let with_tls = ClientAccess { ca: Some(std::fs::read(&ca_file).unwrap()) };
    let load = RotationLoad::start(cluster.port, ClientAccess::default());
    load.wait_for_cycles();

    restart_all(&mut cluster, &ports("allow"), &[]);
    load.switch(with_tls);
    load.wait_for_cycles();
    restart_all(&mut cluster, &ports("require"), &["--cacert", &ca_file]);
    load.wait_for_cycles();
    let refused = cluster.status(&[]);
    assert!(!refused.contains("healthy"), "a port that requires TLS answered without: {refused}");

    restart_all(&mut cluster, &ports("allow"), &["--cacert", &ca_file]);
    load.switch(ClientAccess::default());
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
    let end = holdfast(&[&["certs"], args].concat());
    assert_eq!(end.code, Some(0), "{}", end.stderr);
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
    let load = RotationLoad::start(cluster.port, ClientAccess { ca: Some(both.clone()) });
    load.wait_for_cycles();

    let all_trust = |cluster: &SecureCluster, certificate: &str, expected: bool| {
        let what = format!("trust in {certificate}: {expected}");
        eventually(&what, || {
            (0..3).all(|id| trusts(cluster.port + 3 * id, &both_file, certificate) == expected)
        });
    };
    let (old_client, new_client) = (cluster.path("pki/old"), format!("{new}/new"));
    assert!(!trusts(cluster.port, &both_file, &new_client));
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
        let port = cluster.port + 3 * (id - 1);
        eventually("a certificate of the new CA", || trusts(port, &new_ca_file, &new_client));
        load.wait_for_cycles();
    }

    std::fs::write(&ca_file, &new_ca).unwrap();
    all_trust(&cluster, &old_client, false);
    load.switch(ClientAccess { ca: Some(new_ca) });
    load.wait_for_cycles();
    let flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    restart_all(&mut cluster, &flags, &["--cacert", &ca_file]);
    load.wait_for_cycles();
    load.finish().await;
}
