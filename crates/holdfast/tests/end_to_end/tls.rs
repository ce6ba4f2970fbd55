//! The commands of docs/security.md, TLS on all ports, and new certificates under load.

use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, SystemTime};

use holdfast_client::Client;
use holdfast_client::http::ClientTls;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair, SanType};

use crate::program::{PortRange, Program, eventually, holdfast, spawn};

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
    std::fs::read_to_string(path).unwrap()
}

/// The blocks of one language in a page.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).map(|block| block.split("```").next().unwrap()).collect()
}

/// A directory with the files of the page, whose node has free ports.
pub(crate) struct SecureNode {
    dir: tempfile::TempDir,
    ports: PortRange,
}

impl SecureNode {
    pub(crate) fn new() -> Self {
        let node = Self { dir: tempfile::tempdir().unwrap(), ports: PortRange::reserve() };
        let page = page();
        let config = node.with_ports(blocks(&page, "toml")[0]);
        std::fs::write(node.path("node.toml"), config).unwrap();
        node
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Replaces the ports of the page.
    fn with_ports(&self, text: &str) -> String {
        (0..3).fold(text.to_owned(), |text, n| {
            text.replace(
                &format!("127.0.0.1:{}", 7400 + n),
                &format!("127.0.0.1:{}", self.ports.first() + n),
            )
        })
    }

    /// Runs each command of a block, and compares its output with the page.
    fn run(&self, block: &str) {
        let bin = Path::new(env!("CARGO_BIN_EXE_holdfast")).parent().unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        // Each command runs in a new shell.
        let mut exports = String::new();
        for step in block.split("$ ").skip(1) {
            let (command, expected) = step.split_once('\n').unwrap();
            if command.starts_with("export ") {
                exports = format!("{exports}{command}; ");
            }
            let mut shell = Command::new("sh");
            for (name, _) in std::env::vars_os() {
                if name.to_string_lossy().starts_with("HOLDFAST_") {
                    shell.env_remove(name);
                }
            }
            shell
                .args(["-c", &self.with_ports(&format!("{exports}{command}"))])
                .current_dir(self.dir.path());
            let output = shell.env("PATH", &path).output().unwrap();
            let (stdout, stderr) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            let stdout = with_fixed_times(&stdout);
            assert_eq!(stdout.trim_end(), expected.trim_end(), "$ {command}\n{stderr}");
        }
    }

    pub(crate) fn certs(&self, args: &[&str]) {
        let pki = self.path("pki").display().to_string();
        holdfast(&[&["certs"], args, &["--dir", &pki]].concat()).assert_code(0);
    }

    /// Starts the node in its directory, and waits until it is ready.
    pub(crate) fn start(&self) -> Program {
        let config = std::fs::read_to_string(self.path("node.toml")).unwrap();
        let dir = self.dir.path().display().to_string();
        let absolute = config.replace("\"pki/", &format!("\"{dir}/pki/"));
        let absolute = absolute.replace("\"data\"", &format!("\"{dir}/data\""));
        std::fs::write(self.path("absolute.toml"), absolute).unwrap();
        let config = self.path("absolute.toml").display().to_string();
        let node = spawn(&["serve", "--config", &config], &[]);
        let (address, ca) = (self.address(), self.path("pki/ca.pem").display().to_string());
        eventually("a ready node", || {
            let status = holdfast(&["status", "--addr", &address, "--cacert", &ca]);
            status.code == Some(0)
        });
        node
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports.first())
    }

    /// The certificate that the node serves, in PEM form.
    fn served_certificate(&self) -> String {
        let mut curl = Command::new("curl");
        curl.args(["-s", "-o", "/dev/null", "-w", "%{certs}", "--cacert"]);
        curl.arg(self.path("pki/ca.pem")).arg(format!("https://{}/livez", self.address()));
        let output = curl.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let start = text.find("-----BEGIN CERTIFICATE-----").unwrap();
        let end = text.find("-----END CERTIFICATE-----").unwrap();
        format!("{}-----END CERTIFICATE-----\n", &text[start..end])
    }

    fn client(&self) -> Client {
        let ca = Some(std::fs::read(self.path("pki/ca.pem")).unwrap());
        let tls = ClientTls { ca, identity: None };
        Client::builder([self.address()]).tls(tls).build().unwrap()
    }
}

/// The text with the time of the page in place of every time.
fn with_fixed_times(text: &str) -> String {
    let is_time = |word: &str| word.len() == 20 && word.starts_with("20") && word.ends_with('Z');
    let words =
        text.split(' ').map(|word| if is_time(word) { "2026-11-24T09:00:00Z" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_commands_of_the_security_page_print_what_it_shows() {
    let node = SecureNode::new();
    let page = page();
    let blocks = blocks(&page, "console");
    node.run(blocks[0]);
    let _running = node.start();
    for block in &blocks[1..] {
        node.run(block);
    }
}

#[test]
fn a_client_without_the_ca_gets_an_error_that_names_the_option() {
    let node = SecureNode::new();
    node.certs(&["init"]);
    node.certs(&["node", "node-1", "--host", "127.0.0.1"]);
    let _running = node.start();
    let unknown = holdfast(&["status", "--addr", &format!("https://{}", node.address())]);
    assert_ne!(unknown.code, Some(0));
    unknown.assert_stderr_contains(["--cacert"]);
    let plain = holdfast(&["status", "--addr", &node.address()]);
    assert_ne!(plain.code, Some(0));
    plain.assert_stderr_contains(["this port needs TLS"]);
}

#[test]
fn an_unusable_certificate_is_exit_code_1_with_its_file() {
    let node = SecureNode::new();
    node.certs(&["init"]);
    node.certs(&["node", "node-1", "--host", "127.0.0.1"]);
    node.certs(&["node", "other", "--host", "127.0.0.1"]);
    std::fs::copy(node.path("pki/other.key"), node.path("pki/node-1.key")).unwrap();
    let config = node.path("node.toml").display().to_string();
    let set = |key: &str, file: &str| format!("{key}={}", node.path(file).display());
    let (cert, key) = (set("tls.cert", "pki/node-1.pem"), set("tls.key", "pki/node-1.key"));
    let (ca, data) = (set("tls.ca", "pki/ca.pem"), node.path("data").display().to_string());
    let serve = ["serve", "--config", &config, "--data-dir", &data];
    let settings = ["--set", &cert, "--set", &key, "--set", &ca];
    for check in [&[][..], &["--check"]] {
        let end = holdfast(&[&serve[..], &settings, check].concat());
        assert_eq!(end.code, Some(1), "{check:?}");
        let words = ["node-1.key", "does not fit"];
        assert!(words.iter().all(|word| end.stderr.contains(word)), "{check:?}: {}", end.stderr);
    }
}

/// A new certificate fails no call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_certificate_under_load_fails_no_call() {
    let node = SecureNode::new();
    node.certs(&["init"]);
    node.certs(&["node", "node-1", "--host", "127.0.0.1"]);
    let mut running = node.start();
    node.certs(&["node", "node-1", "--host", "127.0.0.1", "--replace"]);
    let mut cycles = 0;
    let until_changed = async {
        loop {
            // A new client opens new connections.
            let client = node.client();
            let guard = client.lock("rotation").acquire().await.unwrap();
            guard.release().await.unwrap();
            client.close().await.unwrap();
            cycles += 1;
            if node.served_certificate()
                == std::fs::read_to_string(node.path("pki/node-1.pem")).unwrap()
            {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_mins(1), until_changed).await.unwrap();
    assert!(cycles > 10, "{cycles} cycles");
    running.kill();
}

/// Three nodes with TLS on every port, in one directory.
pub(crate) struct SecureCluster {
    dir: tempfile::TempDir,
    ports: PortRange,
    pub(crate) nodes: Vec<Program>,
}

impl SecureCluster {
    /// Starts node `n` with the certificate `certificates[n - 1]`, for the hosts `hosts`. With `more` flags, node 1
    /// bootstraps the cluster without absent members.
    fn start(hosts: &str, certificates: [&str; 3], more: &[&str]) -> Self {
        let mut cluster = Self::with_certificates(hosts);
        for (id, certificate) in (1..).zip(certificates) {
            let is_first = id == 1 && !more.is_empty();
            let bootstrap: &[&str] = if is_first { &["--bootstrap"] } else { &[] };
            cluster.start_node(id, certificate, &[more, bootstrap].concat());
        }
        cluster
    }

    /// The HTTP port of node 1.
    pub(crate) fn port(&self) -> u16 {
        self.ports.first()
    }

    /// Starts all nodes with these flags.
    pub(crate) fn start_all(flags: &[&str]) -> Self {
        let mut cluster = Self::with_certificates("127.0.0.1");
        for id in 1..=3 {
            cluster.start_node(id, &format!("node-{id}"), flags);
        }
        cluster
    }

    fn with_certificates(hosts: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cluster = Self { dir, ports: PortRange::reserve(), nodes: Vec::new() };
        let pki = cluster.path("pki");
        let certs = |args: &[&str]| {
            holdfast(&[&["certs"], args, &["--dir", &pki]].concat()).assert_code(0);
        };
        certs(&["init", "--cluster", "prod"]);
        for id in 1..=3 {
            certs(&["node", &format!("node-{id}"), "--host", hosts]);
        }
        let other = cluster.path("other");
        for args in [&["init", "--cluster", "prod"][..], &["node", "stranger", "--host", hosts]] {
            assert_eq!(holdfast(&[&["certs"], args, &["--dir", &other]].concat()).code, Some(0));
        }
        for file in ["stranger.pem", "stranger.key"] {
            std::fs::copy(format!("{other}/{file}"), format!("{pki}/{file}")).unwrap();
        }
        cluster
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    pub(crate) fn start_node(&mut self, id: u16, certificate: &str, more: &[&str]) {
        let (pki, port) = (self.path("pki"), self.port());
        let mut config = format!(
            "cluster = \"prod\"\nnode = {id}\ndata_dir = {:?}\n[tls]\ncert = \"{pki}/{certificate}.pem\"\n\
             key = \"{pki}/{certificate}.key\"\nca = \"{pki}/ca.pem\"\n",
            self.path(&format!("data-{id}"))
        );
        for member in 1..=3 {
            let port = port + 3 * (member - 1);
            let block = format!(
                "[[member]]\nid = {member}\nhttp = \"127.0.0.1:{port}\"\npeer = \"127.0.0.1:{}\"\n\
                 zookeeper = \"127.0.0.1:{}\"\n",
                port + 1,
                port + 2
            );
            config.push_str(&block);
        }
        let file = self.path(&format!("node-{id}.toml"));
        std::fs::write(&file, config).unwrap();
        self.nodes.push(spawn(&[&["serve", "--config", &file], more].concat(), &[]));
    }

    pub(crate) fn status(&self, more: &[&str]) -> String {
        let address = format!("127.0.0.1:{}", self.port());
        let end = holdfast(&[&["status", "--addr", &address, "-o", "json"], more].concat());
        end.stdout
    }

    pub(crate) fn wait_healthy(&self, count: usize, more: &[&str]) {
        let healthy = format!("{count} healthy nodes");
        eventually(&healthy, || self.status(more).matches("\"healthy\":true").count() == count);
    }
}

/// Sends bytes to a port through TLS with the CA of a file, and returns the answer.
fn send_with_tls(port: u16, ca: &str, bytes: &str) -> String {
    let program = format!(
        "import socket, ssl\n\
         context = ssl.create_default_context(cafile={ca:?})\n\
         with socket.create_connection(('127.0.0.1', {port})) as plain:\n\
         \x20   with context.wrap_socket(plain, server_hostname='127.0.0.1') as tls:\n\
         \x20       tls.sendall({bytes:?}.encode())\n\
         \x20       print(tls.recv(100).decode())\n"
    );
    let output = Command::new("python3").args(["-c", &program]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn three_nodes_with_tls_on_every_port_are_a_cluster() {
    let mut cluster = SecureCluster::start("127.0.0.1", ["node-1", "node-2", "node-3"], &[]);
    let ca = cluster.path("pki/ca.pem");
    cluster.wait_healthy(3, &["--cacert", &ca]);
    assert_eq!(send_with_tls(cluster.port() + 2, &ca, "ruok"), "imok");
    let mut plain = TcpStream::connect(("127.0.0.1", cluster.port() + 2)).unwrap();
    let mut answer = String::new();
    std::io::Write::write_all(&mut plain, b"ruok").unwrap();
    drop(std::io::Read::read_to_string(&mut plain, &mut answer));
    assert_eq!(answer, "", "the ZooKeeper port requires TLS");
    for mut node in cluster.nodes.drain(1..) {
        node.kill();
    }
    for id in 2..=3 {
        cluster.start_node(id, &format!("node-{id}"), &[]);
    }
    cluster.wait_healthy(3, &["--cacert", &ca]);
}

#[test]
fn a_peer_with_a_certificate_of_another_ca_or_node_is_rejected() {
    // The names of the certificates fit no address, so only the URI names a node.
    let off = ["--set", "http.tls=off"];
    let certificates = ["node-1", "node-2", "node-2"];
    let mut cluster = SecureCluster::start("nowhere.example", certificates, &off);
    cluster.wait_healthy(2, &[]);
    let mut third = cluster.nodes.pop().unwrap();
    third.kill();
    let said = third.wait().stderr;
    assert!(said.contains("this node's certificate names neither this node"), "{said}");
    cluster.start_node(3, "node-3", &off);
    cluster.wait_healthy(3, &[]);
}

#[test]
fn a_certificate_that_the_own_ca_did_not_sign_does_not_start() {
    let mut cluster = SecureCluster::start("127.0.0.1", ["stranger", "node-2", "node-3"], &[]);
    cluster.nodes[0]
        .wait()
        .assert_code(1)
        .assert_stderr_contains(["is not signed by a certificate in"]);
}

/// Strangers who open connections and never complete a handshake.
struct HalfOpen {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl HalfOpen {
    /// The connections of one round, to both ports.
    const CONNECTIONS: usize = 2_000;

    fn start(ports: [u16; 2]) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let (ended, ready) = (stop.clone(), Arc::new(Barrier::new(2)));
        let first_round = ready.clone();
        let thread = std::thread::spawn(move || {
            let mut open = Vec::new();
            for round in 0.. {
                let before = std::mem::take(&mut open);
                for port in ports.iter().cycle().take(Self::CONNECTIONS) {
                    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", *port)) else { continue };
                    // The begin of a TLS record.
                    drop(stream.write_all(&[22, 3, 1]));
                    open.push(stream);
                }
                drop(before);
                if round == 0 {
                    first_round.wait();
                }
                if ended.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        ready.wait();
        Self { stop, thread }
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

/// New clients connect, and a node that restarts joins its cluster, while strangers hold half-open connections. The
/// ZooKeeper port has a bound for each address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_open_handshakes_keep_no_client_and_no_node_out() {
    let mut cluster = SecureCluster::start_all(&[]);
    let ca_file = cluster.path("pki/ca.pem");
    cluster.wait_healthy(3, &["--cacert", &ca_file]);
    let port = cluster.port();
    let strangers = HalfOpen::start([port, port + 1]);
    let tls = ClientTls { ca: Some(std::fs::read(&ca_file).unwrap()), identity: None };
    for _ in 0..20 {
        // A new client opens new connections.
        let address = format!("https://127.0.0.1:{port}");
        let client = Client::builder([address]).tls(tls.clone()).build().unwrap();
        client.lock("honest").acquire().await.unwrap().release().await.unwrap();
        client.close().await.unwrap();
    }
    cluster.nodes.remove(1).kill();
    cluster.start_node(2, "node-2", &[]);
    cluster.wait_healthy(3, &["--cacert", &ca_file]);
    strangers.stop();
}

/// Replaces `NAME.pem` and `NAME.key` by a certificate of the same CA with a lifetime of seconds.
fn shorten(pki: &str, name: &str, uri: &str, lifetime: Duration) {
    let read = |file: &str| std::fs::read_to_string(format!("{pki}/{file}")).unwrap();
    let ca_key = KeyPair::from_pem(&read("ca.key")).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&read("ca.pem"), ca_key).unwrap();
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    params.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    params.not_before = (SystemTime::now() - Duration::from_mins(1)).into();
    params.not_after = (SystemTime::now() + lifetime).into();
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    std::fs::write(format!("{pki}/{name}.pem"), certificate.pem()).unwrap();
    std::fs::write(format!("{pki}/{name}.key"), key.serialize_pem()).unwrap();
}

/// The other nodes close the connections of a node whose certificate expires. With a new one it is back.
#[test]
fn a_node_with_an_expired_certificate_is_out_until_it_has_a_new_one() {
    let mut cluster = SecureCluster::start_all(&[]);
    let (pki, ca) = (cluster.path("pki"), cluster.path("pki/ca.pem"));
    cluster.wait_healthy(3, &["--cacert", &ca]);
    cluster.nodes.remove(1).kill();
    cluster.wait_healthy(2, &["--cacert", &ca]);
    shorten(&pki, "node-2", "holdfast://prod/node/node-2", Duration::from_secs(20));
    cluster.start_node(2, "node-2", &[]);
    cluster.wait_healthy(3, &["--cacert", &ca]);
    cluster.wait_healthy(2, &["--cacert", &ca]);
    holdfast(&["certs", "node", "node-2", "--host", "127.0.0.1", "--replace", "--dir", &pki])
        .assert_code(0);
    cluster.wait_healthy(3, &["--cacert", &ca]);
}

/// A ZooKeeper session with a client certificate. Its timeout is far later than the expiry of the certificate.
#[test]
fn a_zookeeper_connection_ends_with_the_certificate_of_its_client() {
    let cluster = SecureCluster::start_all(&["--set", "zookeeper.client_certificates=request"]);
    let (pki, ca) = (cluster.path("pki"), cluster.path("pki/ca.pem"));
    cluster.wait_healthy(3, &["--cacert", &ca]);
    shorten(&pki, "short", "holdfast://prod/client/short", Duration::from_secs(10));
    let program = format!(
        "import socket, ssl, struct\n\
         context = ssl.create_default_context(cafile={ca:?})\n\
         context.load_cert_chain('{pki}/short.pem', '{pki}/short.key')\n\
         with socket.create_connection(('127.0.0.1', {port}), timeout=30) as plain:\n\
         \x20   with context.wrap_socket(plain, server_hostname='127.0.0.1') as tls:\n\
         \x20       tls.sendall(struct.pack('>iiqiqi16s', 44, 0, 0, 40000, 0, 16, bytes(16)))\n\
         \x20       print(struct.unpack('>iii', tls.recv(1000)[:12])[2])\n\
         \x20       print(tls.recv(1000))\n",
        port = cluster.port() + 2
    );
    let output = Command::new("python3").args(["-c", &program]).output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(stdout, "40000\nb''\n", "{stderr}");
}

#[test]
fn certificates_that_expire_soon_are_found_and_renewed() {
    let dir = tempfile::tempdir().unwrap();
    let pki = dir.path().display().to_string();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let certs = |args: &[&str]| holdfast(&[&["certs"], args].concat());
    for args in [
        &["init", "--dir", &pki][..],
        &["node", "n1", "--host", "127.0.0.1,node1.example", "--days", "10", "--dir", &pki],
        &["client", "ci", "--dir", &pki],
    ] {
        assert_eq!(certs(args).code, Some(0), "{args:?}");
    }
    let (n1, ci) = (file("n1.pem"), file("ci.pem"));
    let found = certs(&["check", &n1, &ci]);
    assert_eq!(found.code, Some(1), "{}", found.stdout);
    assert!(found.stderr.contains("n1.pem (") && found.stderr.contains("expires in 9 days"));
    assert!(!found.stderr.contains("ci.pem"), "{}", found.stderr);
    assert_eq!(certs(&["check", &n1, &ci, "--days", "5"]).code, Some(0));
    let before = std::fs::read(&n1).unwrap();
    let renewed = certs(&["renew", "--dir", &pki]);
    assert_eq!(renewed.stdout, "ci: kept, valid for 89 days\nn1: renewed, valid for 365 days\n");
    assert_ne!(std::fs::read(&n1).unwrap(), before);
    assert_eq!(certs(&["check", &n1, &ci, &file("ca.pem")]).code, Some(0));
    let shown = certs(&["show", &n1]).stdout;
    assert!(shown.contains("127.0.0.1") && shown.contains("node1.example"), "{shown}");
    // A certificate that another program created, and a directory without the key of its CA.
    std::fs::copy(file("ca.pem"), file("other.pem")).unwrap();
    std::fs::copy(file("ca.key"), file("other.key")).unwrap();
    certs(&["renew", "other", "--within", "36500", "--dir", &pki])
        .assert_code(1)
        .assert_stderr_contains(["not a certificate that"]);
    std::fs::remove_file(file("ca.key")).unwrap();
    certs(&["renew", "n1", "--within", "400", "--dir", &pki])
        .assert_code(1)
        .assert_stderr_contains(["ca.key"]);
}
