//! Copies resume where they stopped, report what they could not write, and fit into their files.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;

use holdfast_lab::{Tmpfs, is_root};
use holdfast_types::{
    AuditAction, AuditEvicted, AuditHash, AuditItem, AuditRecord, ClusterId, Credential, Revision,
    RoleName,
};

use super::*;
use crate::config::SyslogTarget;

const CLUSTER: Option<ClusterId> = Some(ClusterId(7));

fn record(number: u64) -> AuditRecord {
    AuditRecord {
        number,
        revision: Revision(number),
        at: Stamp(1_000 * number),
        subject: None,
        credential: Credential::Node,
        action: AuditAction::SetRole,
        target: AuditItem::Role(RoleName::new("x").unwrap()),
        details: vec![AuditItem::LogFilter { filter: Some("x".repeat(450)), lasts_ms: 1 }],
        reason: None,
        hash: AuditHash::default(),
    }
}

fn batch(numbers: std::ops::RangeInclusive<u64>) -> AuditBatch {
    let newest = *numbers.end();
    let records = numbers.map(record).collect();
    AuditBatch { cluster: CLUSTER, records, evicted: Vec::new(), newest }
}

fn open(directory: &Path, target: CopyTarget) -> AuditCopy {
    AuditCopy::open(target, directory.join("position")).unwrap()
}

fn file(directory: &Path, files: usize) -> CopyTarget {
    CopyTarget::File(FileCopy::new(directory.join("audit.jsonl"), 4_096, files))
}

/// The numbers in a file; 0 for a gap.
fn numbers(path: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(path).unwrap();
    let number = |line: &str| {
        let body: serde_json::Value = serde_json::from_str(line).unwrap();
        body["number"].as_u64().unwrap_or_default()
    };
    text.lines().map(number).collect()
}

/// Writes until there is nothing new.
fn write(copy: &mut AuditCopy, all: &AuditBatch) {
    loop {
        let mut batch = all.clone();
        batch.records.retain(|record| record.number > copy.position.number);
        if !copy.write(batch).unwrap() {
            return;
        }
    }
}

#[test]
fn a_copy_resumes_after_its_last_record() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.jsonl");
    let open = || {
        let file = FileCopy::new(path.clone(), 1 << 20, 9);
        open(directory.path(), CopyTarget::File(file))
    };
    write(&mut open(), &batch(1..=2));
    write(&mut open(), &batch(1..=3));
    assert_eq!(numbers(&path), [1, 2, 3]);
    // The crash came between the sync of the file and the position, and cut a line.
    let position = CopyPosition { cluster: ClusterId(7).to_string(), number: 1 };
    position.write(&directory.path().join("position")).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &text[..text.len() - 20]).unwrap();
    write(&mut open(), &batch(1..=3));
    let text = std::fs::read_to_string(&path).unwrap();
    let whole = text.lines().filter(|line| line.ends_with('}')).count();
    assert_eq!((whole, text.lines().count()), (3, 4), "{text}");
}

#[test]
fn a_restored_cluster_is_written_from_its_first_record() {
    let directory = tempfile::tempdir().unwrap();
    let mut copy = open(directory.path(), file(directory.path(), 9));
    write(&mut copy, &batch(1..=2));
    write(&mut copy, &AuditBatch { cluster: Some(ClusterId(8)), ..batch(1..=1) });
    assert_eq!(numbers(&directory.path().join("audit.jsonl")), [1, 2, 1]);
}

/// The first write fails and the node is killed; the file has larger numbers of the former cluster.
#[test]
fn a_restored_cluster_is_written_from_its_first_record_after_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.jsonl");
    let open = || {
        let file = FileCopy::new(path.clone(), 1 << 20, 9);
        open(directory.path(), CopyTarget::File(file))
    };
    write(&mut open(), &batch(1..=3));
    let restored = AuditBatch { cluster: Some(ClusterId(8)), ..batch(1..=2) };
    let mut copy = open();
    let aside = directory.path().join("aside");
    std::fs::rename(&path, &aside).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(copy.write(restored.clone()).unwrap());
    copy.write(restored.clone()).unwrap_err();
    std::fs::remove_dir(&path).unwrap();
    std::fs::rename(&aside, &path).unwrap();
    write(&mut open(), &restored);
    assert_eq!(numbers(&path), [1, 2, 3, 1, 2]);
}

#[test]
fn a_damaged_position_writes_all_records_again() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("position"), [0xff, 0xfe]).unwrap();
    write(&mut open(directory.path(), file(directory.path(), 9)), &batch(1..=2));
    assert_eq!(numbers(&directory.path().join("audit.jsonl")), [1, 2]);
}

#[test]
fn a_full_file_is_renamed_and_the_oldest_is_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let mut copy = open(directory.path(), file(directory.path(), 2));
    for number in 1..=11 {
        write(&mut copy, &batch(number..=number));
    }
    let of = |name: &str| numbers(&directory.path().join(name));
    let files = ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"].map(of);
    assert_eq!(files, [vec![10, 11], vec![7, 8, 9], vec![4, 5, 6]]);
    assert!(!directory.path().join("audit.jsonl.3").exists());
    // Another program rotates the file.
    std::fs::rename(directory.path().join("audit.jsonl"), directory.path().join("old")).unwrap();
    write(&mut copy, &batch(12..=12));
    assert_eq!(of("audit.jsonl"), [12]);
}

#[test]
fn records_that_were_evicted_before_they_were_written_are_a_gap() {
    let directory = tempfile::tempdir().unwrap();
    let mut copy = open(directory.path(), file(directory.path(), 9));
    write(&mut copy, &batch(1..=1));
    assert_eq!(copy.lost_at, None);
    let evicted = AuditEvicted { count: 5, number: 6, at: Stamp(6_000), evicted_at: Stamp(9_000) };
    let evicted = vec![(AuditClass::Policy, evicted)];
    write(&mut copy, &AuditBatch { evicted, ..batch(3..=3) });
    let path = directory.path().join("audit.jsonl");
    assert_eq!(numbers(&path), [1, 0, 3]);
    let text = std::fs::read_to_string(&path).unwrap();
    let gap =
        r#"{"gap":{"class":"policy","after":1,"newest":6,"newest_at":"1970-01-01T00:00:06.000Z"}}"#;
    assert_eq!(text.lines().nth(1), Some(gap));
    assert!(copy.lost_at.is_some());
}

#[test]
fn a_failed_write_is_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let mut copy =
        open(directory.path(), CopyTarget::File(FileCopy::new(missing.join("a"), 4_096, 1)));
    assert!(copy.write(batch(1..=1)).unwrap());
    copy.write(batch(1..=1)).unwrap_err();
    assert_eq!(copy.position.number, 0);
    std::fs::create_dir(&missing).unwrap();
    write(&mut copy, &batch(1..=1));
    assert_eq!(numbers(&missing.join("a")), [1]);
}

#[test]
fn a_syslog_server_gets_messages_of_rfc_5424() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let server = UnixDatagram::bind(&path).unwrap();
    let target = SyslogCopy::new(SyslogTarget::Unix(path), "node-1".to_owned());
    write(&mut open(directory.path(), CopyTarget::Syslog(target)), &batch(1..=1));
    let mut bytes = [0; 4_096];
    let length = server.recv(&mut bytes).unwrap();
    let text = str::from_utf8(&bytes[..length]).unwrap();
    let process = std::process::id();
    let head = format!("<109>1 1970-01-01T00:00:01.000Z node-1 holdfast {process} audit - {{");
    assert!(text.starts_with(&head) && text.ends_with('}'), "{text}");
}

#[test]
fn a_syslog_server_that_restarts_gets_the_next_messages() {
    let directory = tempfile::tempdir().unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap().to_string();
    let target = SyslogCopy::new(SyslogTarget::Tcp(address), "node-1".to_owned());
    let mut copy = open(directory.path(), CopyTarget::Syslog(target));
    for number in 1..=2 {
        write(&mut copy, &batch(number..=number));
        let mut connection = BufReader::new(server.accept().unwrap().0);
        let mut count = Vec::new();
        connection.read_until(b' ', &mut count).unwrap();
        let count: usize = str::from_utf8(&count).unwrap().trim().parse().unwrap();
        let mut message = vec![0; count];
        connection.read_exact(&mut message).unwrap();
        let message = String::from_utf8(message).unwrap();
        assert!(message.contains(&format!(r#""number":{number},"#)), "{message}");
        // The server closes the connection: the copy must see that before the next message.
        let closed = connection.into_inner();
        let client = copy_connection(&copy);
        drop(closed);
        client.set_nonblocking(false).unwrap();
        assert_eq!(client.peek(&mut [0]).unwrap(), 0);
    }
}

fn copy_connection(copy: &AuditCopy) -> std::net::TcpStream {
    let CopyTarget::Syslog(syslog) = &copy.target else { panic!("no syslog") };
    syslog.connection.as_ref().unwrap().try_clone().unwrap()
}

/// An administrator may make the file append-only.
#[test]
fn a_file_that_cannot_be_renamed_costs_no_older_file() {
    if !is_root("an append-only file") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let attribute = |sign: &str| {
        let mut chattr = std::process::Command::new("chattr");
        let changed = chattr.arg(format!("{sign}a")).arg(path("audit.jsonl")).status();
        changed.is_ok_and(|status| status.success())
    };
    let mut copy = open(directory.path(), file(directory.path(), 3));
    write(&mut copy, &batch(1..=1));
    for (name, content) in [("audit.jsonl.1", "one"), ("audit.jsonl.2", "two")] {
        std::fs::write(path(name), content).unwrap();
    }
    if !attribute("+") {
        eprintln!("SKIPPED: an append-only file: the file system has none");
        return;
    }
    let all = batch(2..=40);
    for _ in 0..4 {
        copy.write(all.clone()).unwrap_err();
    }
    assert!(attribute("-"));
    let kept = ["audit.jsonl.2", "audit.jsonl.3"].map(|name| std::fs::read(path(name)).unwrap());
    assert_eq!(kept, [b"one", b"two"]);
    copy.write(all).unwrap();
    assert_eq!(numbers(&path("audit.jsonl.1")), [1]);
}

#[test]
fn a_write_that_fails_leaves_no_lines_that_the_next_one_repeats() {
    if !is_root("a full disk") {
        return;
    }
    let disk = Tmpfs::mount(1);
    let position = tempfile::tempdir().unwrap();
    let path = disk.path().join("audit.jsonl");
    let copied = FileCopy::new(path.clone(), 1 << 20, 9);
    let mut copy = open(position.path(), CopyTarget::File(copied));
    write(&mut copy, &batch(1..=1));
    let other = disk.path().join("other");
    // One page of the file has space.
    assert!(std::fs::write(&other, vec![0; 2 << 20]).is_err());
    for _ in 0..2 {
        copy.write(batch(2..=200)).unwrap_err();
    }
    std::fs::remove_file(&other).unwrap();
    write(&mut copy, &batch(1..=3));
    assert_eq!(numbers(&path), [1, 2, 3]);

    // The disk is full after a rotation: the new file stays empty, and is not renamed again.
    let rotating = FileCopy::new(path.clone(), 4_096, 9);
    let mut copy = open(position.path(), CopyTarget::File(rotating));
    assert!(std::fs::write(&other, vec![0; 2 << 20]).is_err());
    for _ in 0..3 {
        copy.write(batch(4..=200)).unwrap_err();
    }
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    let older = |number: u32| disk.path().join(format!("audit.jsonl.{number}"));
    assert!(older(1).exists() && !older(2).exists());
}
