//! TLS on the HTTP port: the commands of docs/security.md, and new certificates under load.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use holdfast_client::Client;
use holdfast_client::http::ClientTls;

use crate::program::{Program, eventually, free_ports, holdfast, spawn};

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
struct SecureNode {
    dir: tempfile::TempDir,
    port: u16,
}

impl SecureNode {
    fn new() -> Self {
        let node = Self { dir: tempfile::tempdir().unwrap(), port: free_ports(3) };
        let page = page();
        let config = node.with_ports(blocks(&page, "toml")[0]);
        std::fs::write(node.path("node.toml"), config).unwrap();
        node
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Replaces the ports of the page.
    fn with_ports(&self, text: &str) -> String {
        (0..3).fold(text.to_owned(), |text, n| {
            text.replace(
                &format!("127.0.0.1:{}", 7400 + n),
                &format!("127.0.0.1:{}", self.port + n),
            )
        })
    }

    /// Runs each command of a block, and compares its output with the page.
    fn run(&self, block: &str) {
        let bin = Path::new(env!("CARGO_BIN_EXE_holdfast")).parent().unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        for step in block.split("$ ").skip(1) {
            let (command, expected) = step.split_once('\n').unwrap();
            let mut shell = Command::new("sh");
            for (name, _) in std::env::vars_os() {
                if name.to_string_lossy().starts_with("HOLDFAST_") {
                    shell.env_remove(name);
                }
            }
            shell.args(["-c", &self.with_ports(command)]).current_dir(self.dir.path());
            let output = shell.env("PATH", &path).output().unwrap();
            let (stdout, stderr) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert_eq!(stdout.trim_end(), expected.trim_end(), "$ {command}\n{stderr}");
        }
    }

    fn certs(&self, args: &[&str]) {
        let pki = self.path("pki").display().to_string();
        let end = holdfast(&[&["certs"], args, &["--dir", &pki]].concat());
        assert_eq!(end.code, Some(0), "{}", end.stderr);
    }

    /// Starts the node in its directory, and waits until it is ready.
    fn start(&self) -> Program {
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

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
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
    assert!(unknown.stderr.contains("--cacert"), "{}", unknown.stderr);
    let plain = holdfast(&["status", "--addr", &node.address()]);
    assert_ne!(plain.code, Some(0));
    assert!(plain.stderr.contains("this port needs TLS"), "{}", plain.stderr);
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
    let end = holdfast(&[
        "serve",
        "--config",
        &config,
        "--set",
        &cert,
        "--set",
        &key,
        "--set",
        &ca,
        "--data-dir",
        &data,
    ]);
    assert_eq!(end.code, Some(1));
    assert!(
        end.stderr.contains("node-1.key") && end.stderr.contains("does not fit"),
        "{}",
        end.stderr
    );
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
