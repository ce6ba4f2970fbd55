//! `holdfast backup verify` and `holdfast backup show`: both read the whole file and start no node.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use holdfast_api::format_time;
use holdfast_cli::arguments::OutputArgs;
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::output::{answer, cell, facts, table_or};
use holdfast_raft::{Backup, BackupHead};
use holdfast_service::LockFilter;
use holdfast_tls::{AgeError, AgeIdentity, AgeReader, is_age};
use holdfast_types::{FeatureLevel, LockName, LockView, NodeId, Revision, SessionName};
use serde::Serialize;

/// The number of locks that `show` lists.
const LOCKS_SHOWN: usize = 10;
/// Locks read at once.
const PAGE: usize = 1_000;

/// One file.
#[derive(Debug, Args)]
pub(crate) struct BackupFileArgs {
    /// The file, or - for stdin.
    file: PathBuf,
    #[command(flatten)]
    identity: IdentityArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// The private key of an encrypted backup.
#[derive(Debug, Args)]
pub(crate) struct IdentityArgs {
    /// The file with the private key, for an encrypted backup.
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
}

impl IdentityArgs {
    /// The options of a suggested command.
    pub(crate) fn options(&self) -> String {
        let Self { identity } = self;
        identity.as_ref().map_or_else(String::new, |file| format!(" --identity {}", file.display()))
    }

    fn read(&self) -> Result<AgeIdentity, CommandFailure> {
        let path = self.identity.as_ref().ok_or_else(|| {
            CommandFailure::usage(
                "the backup is encrypted: name the file with its private key with --identity",
            )
        })?;
        let failed = |error: &dyn std::fmt::Display| {
            CommandFailure::usage(format!("{}: {error}", path.display()))
        };
        let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
        text.parse().map_err(|error: AgeError| failed(&error))
    }
}

/// Reads a backup completely.
///
/// # Errors
/// Exit code 1, with the part and the offset of the first error.
pub(crate) fn read_backup(path: &Path, identity: &IdentityArgs) -> Result<Backup, CommandFailure> {
    let source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        let file = File::open(path);
        let file = file.map_err(|error| {
            CommandFailure::failed(format!("cannot read {}: {error}", path.display()))
        })?;
        Box::new(file)
    };
    let mut source = BufReader::new(source);
    let is_encrypted = is_age(source.fill_buf().unwrap_or_default());
    if !is_encrypted {
        return Backup::read(source).map_err(|error| unusable(path, &error));
    }
    let decrypted = AgeReader::new(source, &identity.read()?);
    let decrypted = decrypted.map_err(|error| unusable(path, &error))?;
    Backup::read(decrypted).map_err(|error| unusable(path, &error))
}

pub(super) fn unusable(path: &Path, error: &dyn std::fmt::Display) -> CommandFailure {
    CommandFailure::failed(format!("{} is not a usable backup: {error}", path.display()))
}

pub(super) fn verify(args: &BackupFileArgs) -> Result<(), CommandFailure> {
    let body = BackupBody::of(&read_backup(&args.file, &args.identity)?);
    let text = format!("{}\n\nthe backup is complete and can be restored", body.text());
    answer(args.output.format, &body, &body.state_digest, &text);
    Ok(())
}

pub(super) fn show(args: &BackupFileArgs) -> Result<(), CommandFailure> {
    let backup = read_backup(&args.file, &args.identity)?;
    let mut body = BackupBody::of(&backup);
    body.locks = busiest(&backup).into_iter().map(BusyLockBody::of).collect();
    let header = ["lock", "holders", "session", "token", "waiters"];
    let locks = table_or("no lock is in use", header, body.locks.iter().map(BusyLockBody::row));
    answer(args.output.format, &body, body.revision, &format!("{}\n\n{locks}", body.text()));
    Ok(())
}

/// The locks with the most waiters; among those with as many, the ones with the most holders, in name order.
fn busiest(backup: &Backup) -> Vec<LockView> {
    let mut found: Vec<LockView> = Vec::new();
    let mut after = None;
    loop {
        let filter = LockFilter::default();
        let page = backup.machine.locks(&filter, after.as_deref(), PAGE, |_: &LockName| true);
        found.extend(
            page.items.into_iter().filter(|lock| lock.holders_total > 0 || lock.waiters_total > 0),
        );
        found.sort_by_key(|lock| std::cmp::Reverse((lock.waiters_total, lock.holders_total)));
        found.truncate(LOCKS_SHOWN);
        after = page.next;
        if after.is_none() {
            return found;
        }
    }
}

/// The origin and the sizes of a backup.
#[derive(Debug, Serialize)]
pub(super) struct BackupBody {
    cluster: String,
    cluster_id: Option<String>,
    level: FeatureLevel,
    pub(super) revision: Revision,
    last_token: u64,
    pub(super) sessions: u64,
    pub(super) locks_held: u64,
    pub(super) znodes: u64,
    /// Whether the cluster was sealed; absent if only the head was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    sealed: Option<bool>,
    made_at: String,
    node: NodeId,
    version: String,
    /// 16 hexadecimal digits.
    state_digest: String,
    /// The length and the SHA-256 of everything before the end; absent if only the head was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    /// The busiest locks; absent unless they were read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    locks: Vec<BusyLockBody>,
}

/// A lock with a holder or a waiter.
#[derive(Debug, Serialize)]
struct BusyLockBody {
    lock: LockName,
    holders: u32,
    /// The first holder and its token.
    session: Option<SessionName>,
    token: Option<u64>,
    waiters: u32,
}

impl BackupBody {
    pub(super) fn of_head(head: &BackupHead) -> Self {
        Self {
            cluster: head.cluster.clone(),
            cluster_id: head.cluster_id.map(|id| id.to_string()),
            level: head.level,
            revision: head.revision,
            last_token: head.last_token,
            sessions: head.sessions,
            locks_held: head.locks_held,
            znodes: head.znodes,
            sealed: None,
            made_at: format_time(head.made_at),
            node: head.node,
            version: head.build.clone(),
            state_digest: format!("{:016x}", head.state_digest),
            bytes: None,
            sha256: None,
            locks: Vec::new(),
        }
    }

    fn of(backup: &Backup) -> Self {
        let (bytes, sha256) = (Some(backup.end.bytes), Some(backup.end.sha256_hex()));
        let sealed = Some(backup.machine.sealed().is_some());
        Self { sealed, bytes, sha256, ..Self::of_head(&backup.head) }
    }

    fn text(&self) -> String {
        let rows = [
            ("cluster", self.cluster.clone()),
            ("cluster id", cell(self.cluster_id.as_ref())),
            ("feature level", self.level.to_string()),
            ("revision", self.revision.to_string()),
            ("last token", self.last_token.to_string()),
            ("sessions", self.sessions.to_string()),
            ("held locks", self.locks_held.to_string()),
            ("znodes", self.znodes.to_string()),
            ("sealed", cell(self.sealed)),
            ("made at", self.made_at.clone()),
            ("made by", format!("node {}, holdfast {}", self.node, self.version)),
            ("state digest", self.state_digest.clone()),
            ("bytes", cell(self.bytes)),
            ("SHA-256", cell(self.sha256.as_ref())),
        ];
        facts(["fact", "value"], rows)
    }
}

impl BusyLockBody {
    fn of(view: LockView) -> Self {
        let first = view.holders.first();
        Self {
            session: first.map(|holder| holder.session.clone()),
            token: first.map(|holder| holder.token.0),
            lock: view.lock,
            holders: view.holders_total,
            waiters: view.waiters_total,
        }
    }

    fn row(&self) -> [String; 5] {
        [
            self.lock.to_string(),
            self.holders.to_string(),
            cell(self.session.as_ref()),
            cell(self.token),
            self.waiters.to_string(),
        ]
    }
}
