//! Access tokens that expire or are deleted while a command waits: the command goes on with the token that its file has
//! then. And the first token, of a user that does not own the data directory.

use std::fs::{Permissions, copy, metadata, set_permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::program::{DevCluster, End, Program, eventually};

/// A node whose calls need a token, and the directory of the token files.
struct TokenCluster {
    cluster: DevCluster,
    dir: tempfile::TempDir,
}

impl TokenCluster {
    fn start() -> Self {
        let new = Self {
            cluster: DevCluster::start(&["--nodes", "1"]),
            dir: tempfile::tempdir().unwrap(),
        };
        new.cluster.bootstrap(&["--out", &new.path("admin")]).assert_code(0);
        let permissions = ["--permission", "lock acquire *", "--permission", "lock read *"];
        new.as_admin(&[&["auth", "role", "set", "worker"], &permissions[..]].concat());
        new.as_admin(&["auth", "subject", "set", "ci", "--role", "worker"]);
        new
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn succeed(&self, args: &[&str]) -> End {
        let end = self.cluster.client(args);
        assert_eq!(end.code, Some(0), "{args:?}: {}", end.stderr);
        end
    }

    fn as_admin(&self, args: &[&str]) -> End {
        self.succeed(&[args, &["--access-token-file", &self.path("admin")]].concat())
    }

    /// Creates the first token of the worker.
    fn first_token(&self) {
        self.as_admin(&["auth", "token", "new", "ci", "--out", &self.path("ci")]);
    }

    /// Replaces the token of the worker, and waits until the old one has expired. Its file has the old one.
    fn expire_token(&self) {
        let tokens = self.as_admin(&["auth", "token", "ls", "-o", "jsonl"]).stdout;
        let mut tokens = tokens.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let token = tokens.find(|token| token["subject"] == "ci").unwrap();
        let id = token["id"].as_str().unwrap();
        self.as_admin(&[
            "auth",
            "token",
            "rotate",
            id,
            "--grace",
            "1ms",
            "--out",
            &self.path("new"),
        ]);
        eventually("a rejected token", || {
            self.spawn(&["ls"]).wait().stderr.contains("The access token has expired")
        });
    }

    /// Puts the new token into the file.
    fn replace_file(&self) {
        std::fs::rename(self.path("new"), self.path("ci")).unwrap();
    }

    fn spawn(&self, args: &[&str]) -> Program {
        let at = args.iter().position(|arg| *arg == "--").unwrap_or(args.len());
        let file = self.path("ci");
        let token = ["--access-token-file", file.as_str()];
        self.cluster.spawn_client(&[&args[..at], &token, &args[at..]].concat())
    }

    /// The sessions in the queue of a lock, in order.
    fn queue(&self, lock: &str) -> Vec<String> {
        let who = self.as_admin(&["who", lock, "-o", "json"]);
        let body: Value = serde_json::from_str(&who.stdout).unwrap();
        let session = |waiter: &Value| waiter["session"].as_str().unwrap().to_owned();
        body["queue"].as_array().unwrap().iter().map(session).collect()
    }
}

#[test]
fn a_waiter_goes_on_with_the_new_token_of_its_file_and_keeps_its_place() {
    let cluster = TokenCluster::start();
    let admin = cluster.path("admin");
    let hold = |lock| {
        let line = ["lock", lock, "--access-token-file", &admin];
        let mut holder = cluster.cluster.spawn_client(&line);
        holder.next_stdout_line();
        holder
    };
    let mut holders = [hold("nightly"), hold("elections/primary"), hold("elections/always")];
    cluster.first_token();
    let mut waiters = Vec::new();
    for (place, args) in [
        &["run", "nightly", "-q", "--", "echo", "granted"][..],
        &["lock", "nightly", "-q"],
        &["elect", "primary", "-q", "--", "echo", "granted"],
        &["elect", "always", "-q", "--forever", "--", "sh", "-c", "echo granted; sleep 60"],
    ]
    .iter()
    .enumerate()
    {
        waiters.push(cluster.spawn(args));
        let lock = ["nightly", "nightly", "elections/primary", "elections/always"][place];
        let length = if place == 1 { 2 } else { 1 };
        eventually("a place in the queue", || cluster.queue(lock).len() == length);
    }
    let mut free = cluster.spawn(&["wait", "elections/primary", "--free"]);
    let before = cluster.queue("nightly");
    cluster.expire_token();
    cluster.replace_file();
    assert_eq!(cluster.queue("nightly"), before);
    for holder in &mut holders {
        holder.interrupt();
        assert_eq!(holder.wait().code, Some(0));
    }
    assert_eq!(waiters[0].next_stdout_line(), "granted");
    assert!(waiters[1].next_stdout_line().parse::<u64>().unwrap() > 0);
    assert_eq!(waiters[2].next_stdout_line(), "granted");
    assert_eq!(waiters[3].next_stdout_line(), "granted");
    assert_eq!(free.wait().code, Some(0));
    for waiter in [1, 3] {
        waiters[waiter].interrupt();
    }
    for mut waiter in waiters {
        let end = waiter.wait();
        assert!(!end.stderr.contains("expired"), "{}", end.stderr);
    }
}

/// The token of the file stays invalid for longer than the session lives.
#[test]
fn a_candidate_for_ever_outlives_its_token_and_a_first_call_fails_at_once() {
    let cluster = TokenCluster::start();
    let admin = cluster.path("admin");
    let mut holder =
        cluster.cluster.spawn_client(&["lock", "elections/db", "--access-token-file", &admin]);
    holder.next_stdout_line();
    cluster.first_token();
    let line = ["elect", "db", "-q", "--forever", "--ttl", "1s", "--timeout", "1s"];
    let mut candidate =
        cluster.spawn(&[&line[..], &["--", "sh", "-c", "echo leads; sleep 60"]].concat());
    eventually("a place in the queue", || cluster.queue("elections/db").len() == 1);
    cluster.expire_token();
    let said = candidate.next_stderr_line();
    assert!(said.starts_with("holdfast: The access token has expired"), "{said}");
    eventually("the end of the session", || cluster.queue("elections/db").is_empty());
    let mut first = cluster.spawn(&["elect", "db", "--forever", "--", "true"]);
    assert_eq!(first.wait().code, Some(1));
    holder.interrupt();
    holder.wait();
    cluster.replace_file();
    assert_eq!(candidate.next_stdout_line(), "leads");
    candidate.interrupt();
    candidate.wait();
}

#[test]
fn the_document_of_a_token_in_a_file_has_no_secret() {
    let cluster = TokenCluster::start();
    let file = cluster.path("ci");
    let end = cluster.as_admin(&["auth", "token", "new", "ci", "--out", &file, "-o", "json"]);
    let body: Value = serde_json::from_str(&end.stdout).unwrap();
    assert_eq!(body["subject"], "ci", "{body}");
    assert_eq!(body.get("token"), None, "{body}");
    let header = std::fs::read_to_string(&file).unwrap();
    assert!(header.contains(body["id"].as_str().unwrap()), "{body}");
}

/// Otherwise the only copy of the secret would be lost.
#[test]
fn a_secret_is_created_only_if_its_file_can_be_written() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("no-directory/token").display().to_string();
    let out = ["--out", &nowhere];
    let refused = |end: End| {
        end.assert_code(1).assert_stderr_contains([nowhere.as_str()]);
    };
    refused(cluster.bootstrap(&out));
    let cluster = TokenCluster { cluster, dir };
    cluster.cluster.bootstrap(&["--out", &cluster.path("admin")]).assert_code(0);
    let list = |noun: &[&str]| cluster.as_admin(&[noun, &["ls", "-o", "jsonl"]].concat()).stdout;
    let state = || (list(&["auth", "token"]), list(&["member"]));
    let before = state();
    let id = serde_json::from_str::<Value>(&before.0).unwrap()["id"].as_str().unwrap().to_owned();
    let data_dir = cluster.cluster.data_dir();
    let admin = cluster.path("admin");
    let addresses =
        ["--peer", "127.0.0.1:1", "--http", "127.0.0.1:2", "--zookeeper", "127.0.0.1:3"];
    for command in [
        &["auth", "token", "new", "admin"][..],
        &["auth", "token", "rotate", &id],
        &["auth", "recover", "--data-dir", &data_dir],
        &[&["member", "add"], &addresses[..]].concat(),
    ] {
        let line = [command, &out, &["--access-token-file", &admin]].concat();
        refused(cluster.cluster.client(&line));
    }
    assert_eq!(state(), before);
}

/// Only the node of the data directory can check the proof.
#[test]
fn an_administrator_is_added_through_the_right_one_of_several_addresses() {
    let cluster = DevCluster::start(&["--nodes", "3"]);
    let dir = cluster.data_dir();
    let [first, second, third] =
        [0, 10, 20].map(|offset| format!("127.0.0.1:{}", cluster.port() + offset));
    let run = |command: &str, addresses: &str| {
        cluster.client(&["auth", command, "--data-dir", &dir, "--addr", addresses])
    };
    let others = format!("{second},{third}");
    for command in ["bootstrap", "recover"] {
        let refused = run(command, &others).assert_code(1);
        let names = |address: &String| refused.stderr.contains(&format!("{address}: "));
        assert!(names(&second) && names(&third), "{}", refused.stderr);
        let added = run(command, &format!("{others},{first}")).assert_code(0);
        assert!(added.stdout.starts_with("hf_"), "{}", added.stdout);
    }
}

/// On Kubernetes, root owns the volume of a pod, and the pod writes to it by its group.
#[test]
fn a_user_that_writes_to_the_data_directory_by_its_group_adds_the_first_administrator() {
    const USER: u32 = 65_532;
    if metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("SKIPPED: not root: no volume of another user");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let cluster = DevCluster::start(&["--nodes", "1", "--data", &dir.path().display().to_string()]);
    let data = cluster.data_dir();
    let all = |path: &Path| set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    Path::new(&data)
        .ancestors()
        .skip(1)
        .take_while(|path| path.starts_with(dir.path()))
        .for_each(all);
    chown(&data, None, Some(USER)).unwrap();
    set_permissions(&data, Permissions::from_mode(0o2770)).unwrap();
    let program = dir.path().join("holdfast");
    copy(env!("CARGO_BIN_EXE_holdfast"), &program).unwrap();
    all(&program);
    let address = format!("127.0.0.1:{}", cluster.port());
    let args = ["auth", "bootstrap", "--mode", "off", "--data-dir", &data, "--addr", &address];
    let output = Command::new(program).args(args).env_clear().uid(USER).gid(USER).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("hf_"));
}
