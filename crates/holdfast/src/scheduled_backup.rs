//! Backups on a schedule: files of this node in `backup.directory`, with the newest ones kept.
//!
//! A file has another name until its bytes were read back from the disk. Only then older files are removed. A leader leaves
//! the work to the other nodes with a schedule, unless none of them makes a backup in time. Bound: one backup at a time.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use holdfast_api::format_time;
use holdfast_cli::new_file::{Existing, NewFile};
use holdfast_raft::free_bytes;
use holdfast_service::Service;
use holdfast_types::{ClusterId, NodeId, Revision, Stamp};
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};

use crate::commands::backup::Encryption;
use crate::config::BackupConfig;

/// The interval of the checks.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// The pause after a failure.
const RETRY_AFTER: Duration = Duration::from_mins(1);
/// The bytes of a backup between two checks of the free space.
const CHECK_SPACE_EVERY: u64 = 4 << 20;
const SUFFIX: &str = ".backup";
/// The suffix of a file that is encrypted.
const ENCRYPTED: &str = ".backup.age";

/// Makes the backups of this node. They leave `disk_reserve` bytes of their disk free, which may be that of the log. A
/// directory that does not answer must not block the runtime.
pub(crate) async fn make_scheduled_backups(
    config: BackupConfig,
    disk_reserve: u64,
    cluster: String,
    node: Service,
) {
    let started = Instant::now();
    let mut schedule = BackupSchedule { config, prefix: String::new(), disk_reserve };
    let (mut newest, mut not_before) = (None, started);
    // The newest file, while older ones have to be removed.
    let mut kept: Option<PathBuf> = None;
    loop {
        sleep(CHECK_EVERY).await;
        let Some(id) = node.cluster_id() else { continue };
        let prefix = prefix(&cluster, id, node.node());
        if schedule.prefix != prefix {
            schedule.prefix = prefix;
            let age = block_in_place(|| schedule.age_of_newest());
            newest = age.map(|age| (age, Instant::now()));
        }
        // The clock of the machine can be set back.
        let own_age = newest.map(|(age, at)| age + at.elapsed());
        let (leads, last) = (node.leads() && !node.is_only_member(), node.last_backup_age());
        let turn = turn(own_age, last, schedule.config.every, leads);
        if turn == BackupTurn::LeavesToOthers && kept.is_none() {
            // The cluster has a backup, so the failure of this node is over.
            node.set_backup_failure(None);
        }
        let is_due = turn == BackupTurn::Makes || kept.is_some();
        if !is_due || Instant::now() < not_before {
            continue;
        }
        // A node that has just started learns the leader first.
        if node.leader().is_none() && started.elapsed() < RETRY_AFTER {
            continue;
        }
        not_before = Instant::now() + RETRY_AFTER;
        if turn == BackupTurn::Makes {
            // The files that could not be removed may fill the disk.
            if let Some(file) = &kept {
                block_in_place(|| schedule.remove_oldest(file)).ok();
            }
            match schedule.make(&node).await {
                Ok(path) => {
                    newest = Some((Duration::ZERO, Instant::now()));
                    tracing::info!(file = %path.display(), "made a scheduled backup");
                    kept = Some(path);
                }
                Err(reason) => {
                    tracing::error!(reason, "a scheduled backup failed");
                    node.set_backup_failure(Some(reason));
                    continue;
                }
            }
        }
        // A removal that fails is no reason for another backup, which would fill the disk.
        let Some(file) = &kept else { continue };
        let removed =
            block_in_place(|| schedule.remove_interrupted().and(schedule.remove_oldest(file)));
        let failure = removed.map_err(|reason| format!("a backup was made, but {reason}")).err();
        if let Some(reason) = &failure {
            tracing::error!(reason, "failed to remove old backups");
        } else {
            (kept, not_before) = (None, started);
        }
        node.set_backup_failure(failure);
    }
}

/// The first part of the name of each file of a node. A cluster that was restored, or that started empty, has another id, so it
/// removes no file of the earlier one.
fn prefix(cluster: &str, id: ClusterId, node: NodeId) -> String {
    format!("{cluster}-{:08x}-node{node}-", id.0 >> 96)
}

/// What a node does about its next backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BackupTurn {
    /// Its newest file is new enough.
    Waits,
    Makes,
    /// It leads, and the last backup of the cluster is new enough: other nodes with a schedule make the next ones.
    LeavesToOthers,
}

/// `own` is the age of this node's newest file, and `last` that of the last backup of any node.
fn turn(own: Option<Duration>, last: Option<Duration>, every: Duration, leads: bool) -> BackupTurn {
    let is_recent = last.is_some_and(|age| age < every + every / 10);
    match own {
        Some(age) if age < every => BackupTurn::Waits,
        Some(_) | None if leads && is_recent => BackupTurn::LeavesToOthers,
        Some(_) | None => BackupTurn::Makes,
    }
}

struct BackupSchedule {
    config: BackupConfig,
    /// The first part of the name of each file of this node.
    prefix: String,
    disk_reserve: u64,
}

impl BackupSchedule {
    /// Makes one backup. Returns its path. The audit trail has a record of it, so the directory is checked first.
    async fn make(&self, node: &Service) -> Result<PathBuf, String> {
        let file = block_in_place(|| {
            // A failure is reported after the backup.
            self.remove_interrupted().ok();
            self.check_space()?;
            let path = self.config.directory.join(self.name(SystemTime::now()));
            NewFile::secret(&path, Existing::Replaced).map_err(|error| error.to_string())
        });
        let mut file = file?;
        let written = self.write(node, &mut file).await;
        let (path, revision, bytes) = block_in_place(|| {
            let (revision, bytes) = match written {
                Ok(written) => written,
                Err(reason) => {
                    drop(file);
                    return Err(reason);
                }
            };
            let path = file.publish_verified().map_err(|error| error.to_string())?;
            Ok((path, revision, bytes))
        })?;
        node.record_backup(revision, bytes).await;
        Ok(path)
    }

    /// Returns the revision of the backup, and its bytes before the encryption.
    async fn write(&self, node: &Service, file: &mut NewFile) -> Result<(Revision, u64), String> {
        let mut encryption =
            Encryption::to(self.config.recipient.as_ref()).map_err(|error| error.to_string())?;
        let (mut stream, revision) =
            node.scheduled_backup().await.map_err(|failure| failure.to_string())?;
        let (mut bytes, mut checked) = (0, 0);
        while let Some(piece) = stream.next().await {
            let piece = piece.map_err(|error| format!("no backup: {error}"))?;
            bytes += piece.len() as u64;
            block_in_place(|| {
                if bytes - checked >= CHECK_SPACE_EVERY {
                    self.check_space()?;
                    checked = bytes;
                }
                let piece = encryption.next(&piece).map_err(|error| error.to_string())?;
                file.write(&piece).map_err(|error| error.to_string())
            })?;
        }
        let end = encryption.end().map_err(|error| error.to_string())?;
        block_in_place(|| file.write(&end)).map_err(|error| error.to_string())?;
        Ok((revision, bytes))
    }

    /// Fails if the disk of the backups has less free space than the reserve.
    fn check_space(&self) -> Result<(), String> {
        let (directory, reserve) = (&self.config.directory, self.disk_reserve);
        let free = free_bytes(directory);
        let directory = directory.display();
        let free =
            free.map_err(|error| format!("cannot read the free space of {directory}: {error}"))?;
        if free < reserve {
            return Err(format!(
                "{directory} has {free} free bytes, below storage.disk_reserve ({reserve}): free space, or use another disk"
            ));
        }
        Ok(())
    }

    fn name(&self, now: SystemTime) -> String {
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let time = format_time(Stamp(holdfast_types::millis(since)));
        let digits: String = time.chars().filter(|c| !matches!(c, '-' | ':' | '.')).collect();
        let suffix = if self.config.recipient.is_some() { ENCRYPTED } else { SUFFIX };
        format!("{}{digits}{suffix}", self.prefix)
    }

    /// The complete files of this node, in the order of their names.
    fn files(&self) -> Result<Vec<PathBuf>, String> {
        self.files_with(|name| name.ends_with(SUFFIX) || name.ends_with(ENCRYPTED))
    }

    fn files_with(&self, wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, String> {
        let directory = &self.config.directory;
        let failed =
            |error: std::io::Error| format!("cannot read {}: {error}", directory.display());
        let mut found = Vec::new();
        for entry in fs::read_dir(directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let name = name.to_string_lossy();
            let time = name.strip_prefix(&self.prefix).and_then(|rest| rest.bytes().next());
            if time.is_some_and(|first| first.is_ascii_digit()) && wanted(&name) {
                found.push(directory.join(&*name));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Removes the files of backups that a stop of the node has interrupted.
    fn remove_interrupted(&self) -> Result<(), String> {
        remove(&self.files_with(|name| name.ends_with(".partial"))?)
    }

    /// The age of the newest file; `None` if there is none. A file of the future was made before the clock was set back.
    fn age_of_newest(&self) -> Option<Duration> {
        self.files().ok()?.iter().filter_map(|file| age(file)).min()
    }

    /// Removes the oldest files. A later name than that of the newest file is from before the clock was set back.
    fn remove_oldest(&self, newest: &Path) -> Result<(), String> {
        let mut files = self.files()?;
        let later = files.partition_point(|file| file <= newest);
        files.rotate_left(later);
        remove(&files[..files.len().saturating_sub(self.config.keep)])
    }
}

/// Removes all files that can be removed. Returns the first error.
fn remove(files: &[PathBuf]) -> Result<(), String> {
    let mut result = Ok(());
    for file in files {
        let removed = fs::remove_file(file);
        let removed = removed.map_err(|error| format!("cannot remove {}: {error}", file.display()));
        result = result.and(removed);
    }
    result
}

/// The time since the last change; `None` if that is in the future.
fn age(file: &Path) -> Option<Duration> {
    fs::metadata(file).and_then(|metadata| metadata.modified()).ok()?.elapsed().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(dir: &Path) -> BackupSchedule {
        let (every, directory) = (Duration::from_secs(1), dir.to_owned());
        let config = BackupConfig { every, directory, keep: 2, recipient: None };
        BackupSchedule { config, prefix: "prod-node1-".to_owned(), disk_reserve: 0 }
    }

    /// The name of a file from some seconds after 1970.
    fn name_at(schedule: &BackupSchedule, second: u64) -> String {
        schedule.name(SystemTime::UNIX_EPOCH + Duration::from_secs(second))
    }

    #[test]
    fn a_follower_makes_its_backups_and_a_leader_only_if_nobody_does() {
        let every = Duration::from_hours(10);
        let hours = |hours| Some(Duration::from_hours(hours));
        let turn = |own, last, leads| turn(own, last, every, leads);
        assert_eq!(turn(None, hours(1), false), BackupTurn::Makes);
        assert_eq!(turn(hours(10), hours(1), false), BackupTurn::Makes);
        assert_eq!(turn(hours(9), None, false), BackupTurn::Waits);
        // The others have a tenth more time.
        assert_eq!(turn(None, hours(10), true), BackupTurn::LeavesToOthers);
        assert_eq!(turn(None, hours(11), true), BackupTurn::Makes);
        assert_eq!(turn(None, None, true), BackupTurn::Makes);
        assert_eq!(turn(hours(9), hours(20), true), BackupTurn::Waits);
    }

    #[test]
    fn only_the_oldest_files_of_this_node_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let schedule = schedule(dir.path());
        let at = |second| name_at(&schedule, second);
        let foreign = [
            "prod-node11-20260101T000000Z.backup",
            "prod-node1-notes.backup",
            "x",
            "prod-node1-2.txt",
        ];
        let own = [at(1_000), at(9), at(50_000_000), format!("{}.age", at(70))];
        let partial = format!("{}.7.partial", at(5));
        for name in foreign.iter().copied().chain(own.iter().map(String::as_str)).chain([&*partial])
        {
            fs::write(dir.path().join(name), "").unwrap();
        }
        schedule.remove_interrupted().unwrap();
        assert!(!dir.path().join(partial).exists());
        schedule.remove_oldest(&dir.path().join(&own[2])).unwrap();
        let left = |name: &str| dir.path().join(name).exists();
        assert!(foreign.iter().all(|name| left(name)));
        assert_eq!(own.each_ref().map(|name| left(name)), [true, false, true, false]);
        assert_eq!(schedule.files().unwrap().last(), Some(&dir.path().join(&own[2])));
    }

    #[test]
    fn after_the_clock_was_set_back_a_backup_is_due_and_the_newest_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let schedule = schedule(dir.path());
        let [early, newest, late, latest] =
            [10, 20, 1_000, 2_000].map(|second| dir.path().join(name_at(&schedule, second)));
        let future = SystemTime::now() + Duration::from_hours(1);
        for file in [&late, &latest] {
            fs::File::create(file).unwrap().set_modified(future).unwrap();
        }
        assert_eq!(schedule.age_of_newest(), None);
        for file in [&early, &newest] {
            fs::write(file, "").unwrap();
        }
        assert!(schedule.age_of_newest().is_some());
        schedule.remove_oldest(&newest).unwrap();
        assert_eq!(schedule.files().unwrap(), [early, newest]);
    }

    #[test]
    fn an_old_file_that_cannot_be_removed_is_named_and_later_files_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let schedule = schedule(dir.path());
        let [stuck, old, late, newest] =
            [10, 20, 30, 40].map(|second| dir.path().join(name_at(&schedule, second)));
        // A directory cannot be removed as a file.
        fs::create_dir(&stuck).unwrap();
        for file in [&old, &late, &newest] {
            fs::write(file, "").unwrap();
        }
        let failed = schedule.remove_oldest(&newest).unwrap_err();
        assert!(failed.contains(&stuck.display().to_string()), "{failed}");
        assert_eq!(schedule.files().unwrap(), [stuck, late, newest]);
    }

    /// A restored cluster, and a new one of the same name.
    #[test]
    fn the_files_of_another_cluster_stay() {
        let dir = tempfile::tempdir().unwrap();
        let mut schedule = schedule(dir.path());
        let [before, after] = [1 << 96, 2 << 96].map(|id| prefix("prod", ClusterId(id), NodeId(1)));
        assert_eq!(before, "prod-00000001-node1-");
        schedule.prefix = before;
        let other = dir.path().join(name_at(&schedule, 5));
        fs::write(&other, "").unwrap();
        schedule.prefix = after;
        assert_eq!(schedule.age_of_newest(), None, "a backup is due");
        let own = [10, 20, 30].map(|second| dir.path().join(name_at(&schedule, second)));
        for file in &own {
            fs::write(file, "").unwrap();
        }
        schedule.remove_oldest(&own[2]).unwrap();
        assert!(other.exists() && !own[0].exists() && own[1].exists());
    }

    #[test]
    fn a_directory_that_does_not_exist_is_an_error() {
        let directory = PathBuf::from("/nonexistent/backups");
        let config =
            BackupConfig { every: Duration::from_secs(1), directory, keep: 1, recipient: None };
        let schedule = BackupSchedule { config, prefix: String::new(), disk_reserve: 0 };
        assert!(schedule.check_space().unwrap_err().contains("/nonexistent/backups"));
        assert!(schedule.remove_interrupted().unwrap_err().contains("/nonexistent/backups"));
    }

    #[test]
    fn a_backup_leaves_the_reserve_of_the_disk_free() {
        let dir = tempfile::tempdir().unwrap();
        let with_reserve = |disk_reserve| BackupSchedule { disk_reserve, ..schedule(dir.path()) };
        assert_eq!(with_reserve(1).check_space(), Ok(()));
        let failed = with_reserve(u64::MAX).check_space().unwrap_err();
        assert!(failed.contains("storage.disk_reserve"), "{failed}");
    }
}
