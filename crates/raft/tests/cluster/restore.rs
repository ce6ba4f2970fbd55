//! A new cluster from a backup, and from the directory of one stopped node.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdfast_machine::Machine;
use holdfast_raft::{
    Backup, NewCluster, PeerListen, RaftConfig, RaftNode, Recovery, RestoreFailure, StartError,
    StoppedNode, readmitted_as,
};
use holdfast_types::{Address, MemberAddresses, NodeId, RestoreSource, SessionStatus};

use crate::lab::{Lab, Recorder, eventually, has_session, open_session, session_name, soon};

fn new_cluster(dir: &Path, node: u64) -> NewCluster {
    NewCluster {
        data_dir: dir.to_owned(),
        cluster: "lab".into(),
        node: NodeId(node),
        token_floor: 0,
        keeps_sessions: false,
        revokes_tokens: false,
        source: RestoreSource::Survivor { node: NodeId(2), lost: vec![NodeId(1), NodeId(3)] },
    }
}

/// Starts the only member of a cluster.
async fn boot(dir: &Path, node: u64) -> Result<RaftNode, StartError> {
    let address = || Address::parse("127.0.0.1:1").unwrap();
    let addresses = MemberAddresses { peer: address(), http: address(), zookeeper: address() };
    let members = BTreeMap::from([(NodeId(node), addresses)]);
    let listen = PeerListen::Address("127.0.0.1:0".parse().unwrap());
    let config = RaftConfig::new("lab", NodeId(node), members, dir, listen);
    RaftNode::start(config, |_| Arc::new(Recorder::default())).await
}

async fn leads(node: &RaftNode) {
    eventually("the only node leads", || node.leadership().borrow().epoch).await;
}

/// A cluster of three that has stopped, with ten sessions.
async fn stopped_cluster() -> (Lab, Machine) {
    let mut lab = Lab::start(3).await;
    let leader = lab.leader().await;
    lab.registered().await;
    for number in 0..10 {
        lab.open(leader, &format!("s{number}")).await.unwrap();
    }
    lab.agree().await;
    let machine = lab.node(leader).read(Machine::clone);
    lab.kill_all().await;
    (lab, machine)
}

#[tokio::test]
async fn a_stopped_node_has_the_state_after_its_last_entry() {
    let (lab, machine) = stopped_cluster().await;
    for (id, dir) in &lab.dirs {
        let stopped = StoppedNode::read(dir.path()).unwrap();
        assert_eq!((stopped.node, stopped.cluster.as_str()), (NodeId(*id), "lab"));
        assert_eq!(stopped.machine.state_digest(), machine.state_digest());
        assert_eq!(stopped.voters, BTreeSet::from([NodeId(1), NodeId(2), NodeId(3)]));
        assert!(stopped.last.is_some() && stopped.vote.is_some(), "{stopped:?}");
        // The directory is locked.
        let used = StoppedNode::read(dir.path()).unwrap_err().to_string();
        assert!(used.contains("in use by another process"), "{used}");
    }
    let empty = tempfile::tempdir().unwrap();
    let refused = StoppedNode::read(empty.path()).unwrap_err();
    assert!(matches!(refused, RestoreFailure::Directory(StartError::NoIdentity(_))), "{refused}");
}

#[tokio::test]
async fn a_damaged_directory_is_rejected() {
    let (lab, _) = stopped_cluster().await;
    let dir = lab.dirs[&2].path();
    let log = dir.join("log");
    let files = log.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let segment = files.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    // A letter of a session's name, in an entry between others.
    let name = bytes.windows(2).position(|two| two == b"s3").unwrap();
    bytes[name] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let refused = StoppedNode::read(dir).unwrap_err();
    assert!(matches!(refused, RestoreFailure::Damaged { .. }), "{refused}");
}

/// The log of a restored cluster begins after its snapshot.
#[tokio::test]
async fn a_directory_without_its_snapshot_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    new_cluster(dir.path(), 1).write(Machine::new()).unwrap();
    drop(StoppedNode::read(dir.path()).unwrap());
    std::fs::remove_dir_all(dir.path().join("snapshots")).unwrap();
    let refused = StoppedNode::read(dir.path()).unwrap_err().to_string();
    assert!(refused.contains("the snapshot of entries 0 to 0 is missing"), "{refused}");
}

#[tokio::test]
async fn a_new_cluster_continues_the_state_with_one_node_and_without_sessions() {
    let (lab, machine) = stopped_cluster().await;
    let stopped = StoppedNode::read(lab.dirs[&2].path()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let restored = new_cluster(dir.path(), 2).write(stopped.machine).unwrap();
    assert!(restored.last_token > 1 << 46, "{restored:?}");
    assert!(restored.revision.0 > machine.revision().0 + (1 << 46), "{restored:?}");
    assert_ne!(Some(restored.cluster_id), machine.cluster_id());

    let node = boot(dir.path(), 2).await.unwrap();
    leads(&node).await;
    assert_eq!(node.read(Machine::cluster_id), Some(restored.cluster_id));
    assert_eq!(node.status().voters, [NodeId(2)]);
    let expired = |node: &RaftNode| node.read(|machine| machine.session(&session_name("s3")));
    assert_eq!(expired(&node), SessionStatus::Expired);
    let opened = node.propose(open_session("new"), holdfast_raft::Urgency::Immediate, soon()).await;
    opened.unwrap().outcome.unwrap();
    let digest = node.read(Machine::state_digest);
    node.shutdown().await;

    let again = boot(dir.path(), 2).await.unwrap();
    leads(&again).await;
    assert!(has_session(&again, "new"));
    assert_eq!(again.read(Machine::state_digest), digest);
    again.shutdown().await;
}

#[tokio::test]
async fn a_backup_of_a_node_is_read_and_restored() {
    let lab = Lab::start(1).await;
    let leader = lab.leader().await;
    lab.registered().await;
    for number in 0..10 {
        lab.open(leader, &format!("s{number}")).await.unwrap();
    }
    let machine = lab.node(leader).read(Machine::clone);
    let mut chunks = lab.node(leader).stream_backup(machine.clone(), "lab".into());
    let mut bytes = Vec::new();
    while let Some(chunk) = chunks.recv().await {
        bytes.extend_from_slice(&chunk.unwrap());
    }
    let backup = Backup::read(&bytes[..]).unwrap();
    assert_eq!(backup.machine.state_digest(), machine.state_digest());
    let dir = tempfile::tempdir().unwrap();
    let source = RestoreSource::Backup { sha256: backup.end.sha256_hex() };
    let new = NewCluster { source, ..new_cluster(dir.path(), 1) };
    new.write(backup.machine).unwrap();
    let node = boot(dir.path(), 1).await.unwrap();
    leads(&node).await;
    node.shutdown().await;
}

#[tokio::test]
async fn a_directory_with_files_is_not_overwritten_and_a_part_of_a_restore_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("lost+found")).unwrap();
    new_cluster(dir.path(), 1).write(Machine::new()).unwrap();
    let refused = new_cluster(dir.path(), 1).write(Machine::new()).unwrap_err();
    assert!(matches!(refused, RestoreFailure::NotEmpty(_)), "{refused}");
    // A log whose files are gone is no log.
    let (log, away) = (dir.path().join("log"), dir.path().join("away"));
    std::fs::rename(&log, &away).unwrap();
    std::fs::create_dir(&log).unwrap();
    let refused = boot(dir.path(), 1).await.unwrap_err();
    assert!(matches!(refused, StartError::NoIdentity(_)), "{refused}");
    std::fs::remove_dir(&log).unwrap();
    std::fs::rename(&away, &log).unwrap();
    // As a restore that was killed before its last step, before the step before that, and so on.
    for last in ["identity", "log", "snapshots"] {
        let path = dir.path().join(last);
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
        let refused = boot(dir.path(), 1).await.unwrap_err();
        assert!(matches!(refused, StartError::NoIdentity(_)), "{refused}");
        let again = new_cluster(dir.path(), 1).write(Machine::new()).unwrap_err();
        assert!(matches!(again, RestoreFailure::NotEmpty(_)), "{again}");
    }
    std::fs::rename(dir.path().join("initial-members"), dir.path().join("initial-members.partial"))
        .unwrap();
    for partial in ["initial-members.partial", "restore.partial"] {
        let refused = boot(dir.path(), 1).await.unwrap_err();
        assert!(matches!(refused, StartError::NoIdentity(_)), "{partial}: {refused}");
        std::fs::write(dir.path().join("restore.partial"), "").unwrap();
        std::fs::remove_file(dir.path().join("initial-members.partial")).unwrap_or_default();
    }
    // Only the first file: the restore can be repeated.
    new_cluster(dir.path(), 1).write(Machine::new()).unwrap();
    leads(&boot(dir.path(), 1).await.unwrap()).await;
}

/// After a rollback an old program finds the files of a newer one.
#[tokio::test]
async fn a_file_of_a_newer_holdfast_is_not_damage() {
    for (part, version_at) in
        [("identity", 4), ("initial-members", 4), ("snapshots", 6), ("log", 5)]
    {
        let dir = tempfile::tempdir().unwrap();
        new_cluster(dir.path(), 1).write(Machine::new()).unwrap();
        let mut path = dir.path().join(part);
        if path.is_dir() {
            let mut files = path.read_dir().unwrap().map(|entry| entry.unwrap().path());
            let holds = |path: &PathBuf| {
                path.extension().is_some_and(|suffix| suffix == "snap" || suffix == "log")
            };
            path = files.find(holds).unwrap();
        }
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[version_at] += 1;
        std::fs::write(&path, bytes).unwrap();
        let refused = boot(dir.path(), 1).await.unwrap_err();
        assert!(matches!(refused, StartError::OldProgram(_)), "{part}: {refused}");
        let refused = refused.to_string();
        assert!(refused.contains(&path.display().to_string()) || part == "log", "{refused}");
        assert!(refused.contains("start this node with the version that wrote it"), "{refused}");
        if part != "initial-members" {
            let stopped = unreadable(dir.path());
            assert!(matches!(stopped, StartError::OldProgram(_)), "{part}: {stopped}");
        }
    }
}

/// A recovery that was killed between its two renames.
#[tokio::test]
async fn a_directory_whose_recovery_was_interrupted_does_not_start_empty() {
    let parent = tempfile::tempdir().unwrap();
    let (dir, recovering) = (parent.path().join("n1"), parent.path().join("n1.recovering"));
    new_cluster(&recovering, 1).write(Machine::new()).unwrap();
    let refused = boot(&dir, 1).await.unwrap_err();
    assert!(matches!(refused, StartError::InterruptedRecovery { .. }), "{refused}");
    assert!(!dir.exists());
    // systemd creates the directory again: a plain mv would put the new one into it.
    std::fs::create_dir(&dir).unwrap();
    let advice = format!("mv -T {} {}", recovering.display(), dir.display());
    for refused in [boot(&dir, 1).await.unwrap_err(), unreadable(&dir)] {
        assert!(refused.to_string().contains(&advice), "{refused}");
    }
    std::fs::rename(&recovering, &dir).unwrap();
    leads(&boot(&dir, 1).await.unwrap()).await;
}

fn unreadable(dir: &Path) -> StartError {
    match StoppedNode::read(dir).unwrap_err() {
        RestoreFailure::Directory(error) => error,
        other @ (RestoreFailure::NotEmpty(_)
        | RestoreFailure::State(_)
        | RestoreFailure::Damaged { .. }
        | RestoreFailure::Write { .. }) => panic!("{other}"),
    }
}

/// A recovery that was killed between its two renames, and whose new directory is gone.
#[test]
fn the_old_directory_of_a_recovery_is_named() {
    let parent = tempfile::tempdir().unwrap();
    let (dir, kept) = (parent.path().join("n1"), parent.path().join("n1.before-recovery"));
    new_cluster(&kept, 1).write(Machine::new()).unwrap();
    let advice = format!("mv -T {} {}", kept.display(), dir.display());
    let refused = unreadable(&dir).to_string();
    assert!(refused.contains(&advice), "{refused}");
}

#[test]
fn a_recovery_keeps_the_configured_id_of_a_member_that_joined_again() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("n5");
    new_cluster(&dir, 5).write(Machine::new()).unwrap();
    holdfast_storage::write_file(&dir.join("configured-id"), b"3").unwrap();
    let cluster = "recovered".to_owned();
    let recovery = Recovery { dir: dir.clone(), cluster, token_floor: 1, revokes_tokens: false };
    recovery.run(StoppedNode::read(&dir).unwrap()).unwrap();
    assert_eq!(readmitted_as(&dir, NodeId(3)).unwrap(), Some(NodeId(5)));
}

/// Another process has just started in the directory, and has no other file yet.
#[test]
fn a_directory_that_another_process_uses_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let lock = std::fs::File::create(dir.path().join("lock")).unwrap();
    lock.try_lock().unwrap();
    let refused = new_cluster(dir.path(), 1).write(Machine::new()).unwrap_err();
    let RestoreFailure::Directory(StartError::InUse(_)) = refused else { panic!("{refused}") };
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "only the lock");
    drop(lock);
    new_cluster(dir.path(), 1).write(Machine::new()).unwrap();
}

#[tokio::test]
async fn a_rejected_restore_writes_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let new = NewCluster { token_floor: 1 << 53, ..new_cluster(&dir, 1) };
    let refused = new.write(Machine::new()).unwrap_err();
    assert!(matches!(refused, RestoreFailure::State(_)), "{refused}");
    assert!(!dir.exists());
}
