//! No secret of a run is in data directories, logs, metrics, errors or the audit trail.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::program::{DevCluster, eventually};

const PASSWORD: &str = "correct-horse-battery";

/// Everything that the run has written or answered, by its origin.
struct Collected(Vec<(String, Vec<u8>)>);

impl Collected {
    fn add(&mut self, origin: &str, content: impl Into<Vec<u8>>) {
        self.0.push((origin.to_owned(), content.into()));
    }

    fn add_files(&mut self, dir: &Path) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self.add_files(&path);
            } else {
                self.add(&path.display().to_string(), fs::read(&path).unwrap());
            }
        }
    }

    /// Calls every node with right and wrong credentials. `files` have the tokens of the administrator and of the subject.
    fn add_calls(&mut self, port: u16, tokens: &[String], wrong: &str, files: [&str; 3]) {
        let [admin, first, second] = files.map(|file| format!("@{file}"));
        let basic = format!("me:{PASSWORD}");
        let basic_token = format!("scanned:{}", tokens[2]);
        for (target, args) in [
            ("/v1/locks/a?session=s", &["-X", "PUT", "-H", &first][..]),
            ("/v1/locks/a?session=s", &["-X", "PUT", "-u", &basic_token]),
            ("/v1/locks/a?session=s", &["-X", "PUT", "-u", &format!("other:{}", tokens[2])]),
            ("/v1/locks/a", &["-H", &format!("Authorization: Bearer {wrong}")]),
            ("/v1/locks/a", &["-H", &format!("Authorization: Token {wrong}")]),
            ("/v1/tree/a", &["-X", "PUT", "-u", &basic]),
            (&format!("/v1/locks/a?access_token={wrong}"), &[]),
            ("/v1/cluster", &["-H", &second]),
            ("/metrics", &["-H", &admin]),
            ("/v1/auth", &["-H", &admin]),
            ("/v1/auth/tokens", &["-H", &admin]),
            ("/v1/audit", &["-H", &admin]),
        ] {
            for node in 0..3 {
                let reply = curl(port + 10 * node, target, args);
                assert!(reply.starts_with("HTTP/1.1 "), "{target}: {reply}");
                self.add(target, reply);
            }
        }
    }

    /// The origins whose content has these bytes.
    fn origins_of(&self, bytes: &[u8]) -> Vec<&str> {
        let has = |content: &[u8]| content.windows(bytes.len()).any(|window| window == bytes);
        self.0.iter().filter(|(_, content)| has(content)).map(|(origin, _)| &**origin).collect()
    }
}

/// The secret of an access token: its text and its bytes.
fn secret_of(token: &str) -> [Vec<u8>; 2] {
    let text = &token["hf_".len() + 14..][..43];
    [text.into(), URL_SAFE_NO_PAD.decode(text).unwrap()]
}

/// A response with its headers.
fn curl(port: u16, target: &str, args: &[&str]) -> String {
    let url = format!("http://127.0.0.1:{port}{target}");
    let output = Command::new("curl").args(["-si", &url]).args(args).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Sends `addauth digest` on a new ZooKeeper connection, and returns the bytes of the reply.
fn add_auth(port: u16, credentials: &str) -> Vec<u8> {
    let frame = |body: &[u8]| [&u32::try_from(body.len()).unwrap().to_be_bytes(), body].concat();
    let text = |text: &[u8]| frame(text);
    let connect =
        [&[0; 12][..], &10_000_u32.to_be_bytes(), &[0; 8], &frame(&[0; 16]), &[0]].concat();
    let header = [(-4_i32).to_be_bytes(), 100_i32.to_be_bytes(), [0; 4]].concat();
    let auth = [header, text(b"digest"), text(credentials.as_bytes())].concat();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(&frame(&connect)).unwrap();
    let mut reply = vec![0; 41];
    stream.read_exact(&mut reply).unwrap();
    stream.write_all(&frame(&auth)).unwrap();
    let mut reply = vec![0; 20];
    stream.read_exact(&mut reply).unwrap();
    reply
}

#[test]
fn no_secret_of_a_run_is_written_or_answered() {
    let data = tempfile::tempdir().unwrap();
    let kept = tempfile::tempdir().unwrap();
    let dir = data.path().display().to_string();
    let mut cluster = DevCluster::start(&["--data", &dir, "--log-level", "trace"]);
    let port = cluster.port();
    let mut collected = Collected(Vec::new());
    let mut tokens = Vec::new();
    let mut token_file = |name: &str, args: &[&str]| {
        let file = kept.path().join(name).display().to_string();
        cluster.client(&[args, &["--out", &file]].concat()).assert_code(0);
        let header = fs::read_to_string(&file).unwrap();
        tokens.push(header.split_whitespace().last().unwrap().to_owned());
        file
    };
    let (own_dir, address) = (cluster.data_dir(), format!("127.0.0.1:{port}"));
    let bootstrap = ["auth", "bootstrap", "--data-dir", &own_dir, "--addr", &address];
    let admin = token_file("admin", &bootstrap);
    let as_admin = ["--access-token-file", &admin];
    for args in [
        &[
            "auth",
            "role",
            "set",
            "user",
            "--permission",
            "lock acquire *",
            "--permission",
            "tree write *",
        ][..],
        &["auth", "subject", "set", "scanned", "--role", "user"],
    ] {
        assert_eq!(cluster.client(&[args, &as_admin].concat()).code, Some(0));
    }
    let first =
        token_file("first", &[&["auth", "token", "new", "scanned"], &as_admin[..]].concat());
    let id = fs::read_to_string(&first).unwrap();
    let id = id.split("hf_").nth(1).unwrap()[..13].to_owned();
    let second = token_file("second", &[&["auth", "token", "rotate", &id], &as_admin[..]].concat());
    let mut wrong = tokens[1].clone().into_bytes();
    wrong[30] = if wrong[30] == b'A' { b'B' } else { b'A' };
    let wrong = String::from_utf8(wrong).unwrap();
    let basic_token = format!("scanned:{}", tokens[2]);
    collected.add_calls(port, &tokens, &wrong, [&admin, &first, &second]);
    let accepted = add_auth(port + 2, &basic_token);
    assert_eq!(accepted[16..], [0; 4], "the token is accepted");
    collected.add("a ZooKeeper reply", accepted);
    collected.add("a ZooKeeper reply", add_auth(port + 2, &format!("scanned:{wrong}")));
    for args in [&["auth", "status"][..], &["auth", "token", "ls"], &["audit", "ls"]] {
        let end = cluster.client(&[args, &as_admin].concat());
        collected.add(&args.join(" "), end.stdout);
    }
    let program = cluster.program();
    program.interrupt();
    eventually("the cluster has stopped", || program.ended().is_some());
    collected.add_files(data.path());
    // The scan reads the right files: they have the subject and the id of its token.
    assert!(collected.origins_of(b"scanned").len() >= 6, "{:?}", collected.origins_of(b"scanned"));
    assert!(collected.origins_of(id.as_bytes()).iter().any(|origin| origin.ends_with("node.log")));
    tokens.push(wrong);
    let secrets = tokens.iter().flat_map(|token| secret_of(token));
    for secret in secrets.chain([PASSWORD.into()]) {
        let found = collected.origins_of(&secret);
        let expected: &[&str] = &[];
        assert_eq!(found, expected, "{}", String::from_utf8_lossy(&secret));
    }
}
