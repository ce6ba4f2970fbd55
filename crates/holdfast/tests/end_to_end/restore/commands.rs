//! `holdfast backup` and `holdfast restore`: files, errors and exit codes.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::{TestNode, acquire, assert_all_of_the_service, give_to_a_service, json, members, text};
use nix::sys::signal::Signal;

use crate::program::{End, eventually, holdfast, send, spawn};

/// A node with some state, and a backup of it.
struct Desk {
    dir: tempfile::TempDir,
    node: TestNode,
    backup: String,
}

impl Desk {
    async fn set_up() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let node = TestNode::start(1, &members(&[1]), &dir.path().join("node1"));
        node.wait_ready();
        for lock in ["a", "b"] {
            acquire(&node.http(), lock, "web1").await;
        }
        let queued = ["lock", "b", "--session", "web2", "--wait", "50ms"];
        assert_eq!(node.client(&queued).code, Some(75));
        let backup = text(&dir.path().join("prod.backup"));
        let made = node.client(&["backup", "--out", &backup]).assert_code(0);
        assert!(made.stdout.contains("2 held locks"), "{}", made.stdout);
        Self { dir, node, backup }
    }
}

#[tokio::test]
async fn a_backup_is_a_secret_file_that_is_not_overwritten() {
    let Desk { node, backup, dir } = Desk::set_up().await;
    let mode = std::fs::metadata(&backup).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let first = std::fs::read(&backup).unwrap();
    let refused = node.client(&["backup", "--out", &backup]).assert_code(2);
    assert!(refused.stderr.contains("exists") && refused.stderr.contains("--force"), "{refused:?}");
    assert_eq!(std::fs::read(&backup).unwrap(), first);
    let forced = node.client(&["backup", "--out", &backup, "--force", "-o", "json"]).assert_code(0);
    assert!(forced.stdout.contains("\"last_token\":2"), "{}", forced.stdout);
    let files = std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().file_name());
    assert!(files.into_iter().all(|file| !file.to_string_lossy().contains("partial")));
}

#[tokio::test]
async fn a_backup_goes_through_a_pipe_and_is_the_response_of_the_call() {
    let Desk { node, dir, .. } = Desk::set_up().await;
    let (piped, called) = (dir.path().join("piped"), dir.path().join("called"));
    let line = format!(
        "{} backup --addr {address} > {} && curl -sS http://{address}/v1/cluster/backup -o {}",
        env!("CARGO_BIN_EXE_holdfast"),
        piped.display(),
        called.display(),
        address = node.address()
    );
    let output = Command::new("sh").args(["-c", &line]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for file in [piped, called] {
        let verified = json(&["backup", "verify", &text(&file)]);
        assert_eq!(verified["locks_held"], 2, "{verified}");
    }
}

/// As a node that is killed while it sends a backup.
#[test]
fn a_response_that_ends_early_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 4_096]).unwrap() > 0, "a request");
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(format!("{head}4\r\nHF\u{1}\u{16}\r\n").as_bytes()).unwrap();
    });
    let out = text(&dir.path().join("b"));
    let end = holdfast(&["backup", "--out", &out, "--addr", &address]);
    serve.join().unwrap();
    assert_eq!(end.code, Some(1));
    end.assert_stderr_contains(["ended its answer early"]);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn verify_and_show_read_a_file_without_a_cluster() {
    let Desk { mut node, backup, dir: _dir } = Desk::set_up().await;
    node.kill();
    let verified = json(&["backup", "verify", &backup]);
    assert_eq!(verified["cluster"], "prod", "{verified}");
    assert_eq!((&verified["last_token"], &verified["node"]), (&2.into(), &1.into()), "{verified}");
    assert_eq!(verified["sha256"].as_str().unwrap().len(), 64);
    let printed = holdfast(&["backup", "verify", &backup]).stdout;
    assert!(printed.contains("can be restored"), "{printed}");
    let digest = holdfast(&["backup", "verify", &backup, "-o", "value"]).stdout;
    assert_eq!(digest.trim(), verified["state_digest"].as_str().unwrap());
    let shown = json(&["backup", "show", &backup]);
    let lock = |number: usize| {
        let lock = &shown["locks"][number];
        (
            lock["lock"].as_str().unwrap().to_owned(),
            lock["token"].as_u64(),
            lock["waiters"].as_u64(),
        )
    };
    assert_eq!(
        [lock(0), lock(1)],
        [("a".into(), Some(1), Some(0)), ("b".into(), Some(2), Some(0))]
    );
    let printed = holdfast(&["backup", "show", &backup]).stdout;
    assert!(printed.contains("held locks") && printed.contains("web1"), "{printed}");
}

#[tokio::test]
async fn a_damaged_backup_is_exit_code_1_with_the_part_and_the_offset_and_writes_nothing() {
    let Desk { backup, dir, .. } = Desk::set_up().await;
    let good = std::fs::read(&backup).unwrap();
    let mut flipped = good.clone();
    let middle = good.len() / 2;
    flipped[middle] ^= 1;
    let mut later = good.clone();
    later[2] = 9;
    let cases: [(&str, &[u8], &str); 5] = [
        ("truncated", &good[..good.len() - 20], "the end of the backup, at byte"),
        ("flipped", &flipped, "of the state, at byte"),
        ("later", &later, "later holdfast"),
        ("foreign", b"SQLite format 3\0 and more", "not the bytes of a backup"),
        ("empty", b"", "cut short after 0 bytes"),
    ];
    let data_dir = dir.path().join("restored");
    for (name, bytes, words) in cases {
        let file = dir.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        let restore = ["restore", &text(&file), "--data-dir", &text(&data_dir)];
        for args in
            [&["backup", "verify", &text(&file)][..], &["backup", "show", &text(&file)], &restore]
        {
            let end = holdfast(args);
            assert_eq!(end.code, Some(1), "{name}: {}", end.stderr);
            assert!(end.stderr.contains(words), "{name}: {}", end.stderr);
        }
        assert!(!data_dir.exists(), "{name}");
    }
    holdfast(&["backup", "verify", &text(&dir.path().join("none"))])
        .assert_code(1)
        .assert_stderr_contains(["cannot read"]);
}

#[tokio::test]
async fn a_restore_into_a_directory_with_files_names_a_command_that_works() {
    let Desk { mut node, backup, dir: _dir } = Desk::set_up().await;
    node.stop();
    let refused =
        holdfast(&["restore", &backup, "--data-dir", &text(&node.data_dir)]).assert_code(1);
    let (_, command) = refused.stderr.trim().split_once(": holdfast restore ").unwrap();
    let args: Vec<&str> = ["restore"].into_iter().chain(command.split(' ')).collect();
    let restored = json(&args);
    assert_eq!(restored["sessions_ended"], 2, "{restored}");
    assert!(restored["last_token"].as_u64() > Some(1 << 46), "{restored}");
}

/// A service of another user starts with them.
#[tokio::test]
async fn root_gives_the_files_of_a_node_to_the_owner_of_its_directory() {
    let Desk { node, backup, dir } = Desk::set_up().await;
    let owned = |name: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir(&path).unwrap();
        give_to_a_service(&path);
        path
    };
    let (restored, above, joining) = (owned("restored"), owned("above"), owned("joining"));
    for data_dir in [&restored, &above.join("below")] {
        holdfast(&["restore", &backup, "--data-dir", &text(data_dir)]).assert_code(0);
    }
    holdfast(&["recover", "inspect", &text(&restored)]).assert_code(0);
    let token = text(&dir.path().join("new.join"));
    let member = ["member", "add", "--peer", "127.0.0.1:1", "--http", "127.0.0.1:2"];
    let more = ["--zookeeper", "127.0.0.1:3", "--out", &token];
    node.client(&[&member[..], &more].concat()).assert_code(0);
    let config = text(&dir.path().join("new.toml"));
    let line = ["join", &token, "--config", &config, "--data-dir", &text(&joining)];
    holdfast(&line).assert_code(0);
    for data_dir in [restored, above, joining] {
        assert_all_of_the_service(&data_dir);
    }
}

#[tokio::test]
async fn the_floor_of_the_tokens_is_raised_and_bounded() {
    let Desk { backup, dir, .. } = Desk::set_up().await;
    let restore = |name: &str, more: &[&str]| {
        let data_dir = text(&dir.path().join(name));
        holdfast(&[&["restore", &backup, "--data-dir", &data_dir, "-o", "value"], more].concat())
    };
    let number = |end: End| end.stdout.trim().parse::<u64>().unwrap();
    let floor = 1_u64 << 52;
    let raised = number(restore("raised", &["--token-floor", &floor.to_string()]));
    // Another restore with the same floor repeats no token, either.
    let again = number(restore("again", &["--token-floor", &floor.to_string()]));
    assert!(floor < raised.min(again) && raised.abs_diff(again) > 8, "{raised} {again}");
    let low = number(restore("low", &["--token-floor", "5"]));
    assert!(low > 1 << 46 && low < floor, "{low}");
    let last = ((1_u64 << 53) - 1).to_string();
    restore("beyond", &["--token-floor", &last]).assert_code(1).assert_stderr_contains(["2^53"]);
    assert!(!dir.path().join("beyond").exists());
}

#[tokio::test]
async fn the_tokens_continue_above_the_marks_of_a_store() {
    let Desk { backup, dir, .. } = Desk::set_up().await;
    let (high, low) = ((1_i64 << 51) + 500, 3);
    let database = dir.path().join("app.db");
    let connection = rusqlite::Connection::open(&database).unwrap();
    connection.execute_batch(holdfast_fence::recipes::SQLITE_SCHEMA).unwrap();
    for (resource, token) in [("orders", high), ("stock", low)] {
        let insert = "INSERT INTO fence (resource, token) VALUES (?1, ?2)";
        connection.execute(insert, (resource, token)).unwrap();
    }
    let store = format!("sqlite:{}", database.display());
    let restored = json(&[
        "restore",
        &backup,
        "--data-dir",
        &text(&dir.path().join("r")),
        "--floor-from",
        &store,
    ]);
    assert!(restored["last_token"].as_i64() > Some(high), "{restored}");
    assert_eq!(restored["fence_marks"][0]["token"], high, "{restored}");
    // A store that cannot be read gives no safe floor.
    let unknown = ["restore", &backup, "--data-dir", &text(&dir.path().join("t"))];
    for store in ["sqlite:/nowhere/app.db", "postgres://127.0.0.1:1/app", "redis://127.0.0.1:1/0"] {
        holdfast(&[&unknown[..], &["--floor-from", store]].concat())
            .assert_code(1)
            .assert_stderr_contains(["cannot read the fence marks of"]);
    }
    // Nor does one without marks.
    connection.execute_batch("DELETE FROM fence").unwrap();
    holdfast(&[&unknown[..], &["--floor-from", &store]].concat())
        .assert_code(1)
        .assert_stderr_contains(["it has none", "--token-floor"]);
    assert!(!dir.path().join("t").exists());
}

/// A cron job with a date in the name, and `timeout`.
#[tokio::test]
async fn a_backup_that_a_signal_ends_leaves_no_file() {
    let Desk { node, dir, .. } = Desk::set_up().await;
    let out = tempfile::tempdir_in(dir.path()).unwrap();
    let files = || std::fs::read_dir(out.path()).unwrap().count();
    send(node.process.as_ref().unwrap().id(), Signal::SIGSTOP);
    let path = text(&out.path().join("2026-12-01.backup"));
    let mut backup = spawn(&["backup", "--out", &path, "--addr", &node.address()], &[]);
    eventually("the partial file", || files() == 1);
    backup.signal(Signal::SIGTERM);
    let end = backup.wait();
    send(node.process.as_ref().unwrap().id(), Signal::SIGCONT);
    assert_eq!((files(), end.code), (0, Some(143)), "{}", end.stderr);
}
