//! Backups that a node makes by itself: encrypted, read back, and the oldest removed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::{PortRange, eventually, holdfast, spawn};

/// The backups in a directory, the oldest first.
fn backups(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "age"));
    files.sort();
    files
}

fn ok(args: &[&str]) -> String {
    let end = holdfast(args);
    assert_eq!(end.code, Some(0), "{args:?}: {}", end.stderr);
    end.stdout
}

/// A backup by the command is encrypted in the same way, in a file and in a pipe.
fn by_hand(http: &str, recipient: &str, file: &str, key: &str) {
    let made = ok(&["backup", "--addr", http, "--out", file, "--recipient", recipient]);
    assert!(made.contains(" znodes; encrypted"), "{made}");
    assert!(std::fs::read(file).unwrap().starts_with(b"age-encryption.org/v1\n"));
    let text = ok(&["backup", "verify", file, "--identity", key]);
    assert!(text.contains("the backup is complete and can be restored"), "{text}");
    let mut pipe = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    pipe.args(["backup", "--addr", http, "--recipient", recipient]);
    assert!(pipe.stdout(std::fs::File::create(file).unwrap()).status().unwrap().success());
    ok(&["backup", "verify", file, "--identity", key]);
    let secret =
        holdfast(&["backup", "--addr", http, "--out", file, "--recipient", "AGE-SECRET-KEY-1"]);
    assert!(
        secret.code == Some(2) && secret.stderr.contains("starts with age1"),
        "{}",
        secret.stderr
    );
}

#[test]
fn a_node_makes_encrypted_backups_and_keeps_the_newest() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (target, key) = (dir.path().join("backups"), path("backup.key"));
    std::fs::create_dir(&target).unwrap();
    let recipient = ok(&["backup", "key", "--out", &key]);
    let ports = PortRange::reserve();
    let [http, peer, zookeeper] =
        [0, 1, 2].map(|listener| format!("127.0.0.1:{}", ports.first() + listener));
    let config = format!(
        "cluster = \"kept\"\nnode = 1\ndata_dir = {:?}\n[backup]\nevery = \"1s\"\ndirectory = {:?}\nkeep = 2\n\
         recipient = {:?}\n[[member]]\nid = 1\nhttp = {http:?}\npeer = {peer:?}\nzookeeper = {zookeeper:?}\n",
        path("data"),
        target.display().to_string(),
        recipient.trim(),
    );
    std::fs::write(path("node.toml"), config).unwrap();
    let mut node = spawn(&["serve", "--config", &path("node.toml")], &[]);
    eventually("a leader", || holdfast(&["status", "--addr", &http]).code == Some(0));
    ok(&["tree", "create", "/kept", "data", "--addr", &http]);
    let before = backups(&target);
    // A backup that began after the change, and the removal of an older one.
    eventually("two later backups", || {
        let now = backups(&target);
        now.len() == 2 && now.iter().all(|file| !before.contains(file))
    });
    let newest = backups(&target).pop().unwrap().display().to_string();
    let copy = path("copy.backup.age");
    std::fs::copy(&newest, &copy).unwrap();
    let text = ok(&["backup", "verify", &copy, "--identity", &key]);
    assert!(text.contains("the backup is complete and can be restored"), "{text}");
    holdfast(&["backup", "verify", &copy]).assert_code(2).assert_stderr_contains(["--identity"]);
    ok(&["backup", "key", "--out", &path("other.key")]);
    let other = holdfast(&["backup", "verify", &copy, "--identity", &path("other.key")]);
    assert!(other.code == Some(1) && other.stderr.contains("another key"), "{}", other.stderr);
    ok(&["restore", &copy, "--identity", &key, "--data-dir", &path("restored")]);
    assert!(ok(&["status", "--addr", &http]).contains(", last backup 2"));
    by_hand(&http, recipient.trim(), &path("hand.backup.age"), &key);

    std::fs::rename(&target, dir.path().join("unmounted")).unwrap();
    let alarms = || holdfast(&["alarms", "--addr", &http, "-o", "json"]).stdout;
    eventually("the alarm of a missing directory", || {
        alarms().contains("\"backup-failed\"") && alarms().contains("backups")
    });
    // A backup made by hand does not end the alarm: a cluster of one node has no other node that makes its backups.
    ok(&["backup", "--addr", &http, "--out", &path("other.backup")]);
    assert!(alarms().contains("\"backup-failed\""));
    assert!(holdfast(&["status", "--addr", &http]).code == Some(0), "the node serves");
    // The first one waits for the leader.
    node.interrupt();
    let log = node.wait().stderr;
    assert!(!log.contains("no leader is known"), "{log}");
}
