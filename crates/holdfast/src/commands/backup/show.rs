//! `holdfast backup verify` and `holdfast backup show`: both read the whole file and start no node.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use holdfast_cli::arguments::OutputArgs;
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::output::{answer, table, table_or};
use holdfast_raft::{Backup, BackupError};
use holdfast_service::LockFilter;
use holdfast_tls::{AgeError, AgeIdentity, AgeReader, is_age};
use holdfast_types::{LockName, LockView};

use super::body::{BackupBody, BusyLockBody};

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
    let decrypted = AgeReader::new(source, &identity.read()?).map_err(|error| {
        CommandFailure::failed(format!("{} is not a usable backup: {error}", path.display()))
    })?;
    Backup::read(decrypted).map_err(|error| unusable(path, &error))
}

pub(super) fn unusable(path: &Path, error: &BackupError) -> CommandFailure {
    CommandFailure::failed(format!("{} is not a usable backup: {error}", path.display()))
}

pub(super) fn verify(args: &BackupFileArgs) -> Result<(), CommandFailure> {
    let body = BackupBody::of(&read_backup(&args.file, &args.identity)?);
    let text = format!("{}\n\nthe backup is complete and can be restored", settings(&body));
    answer(args.output.format, &body, &body.state_digest, &text);
    Ok(())
}

pub(super) fn show(args: &BackupFileArgs) -> Result<(), CommandFailure> {
    let backup = read_backup(&args.file, &args.identity)?;
    let mut body = BackupBody::of(&backup);
    body.locks = busiest(&backup).into_iter().map(BusyLockBody::of).collect();
    let header = ["lock", "holders", "session", "token", "waiters"];
    let locks = table_or("no lock is in use", header, body.locks.iter().map(BusyLockBody::row));
    answer(args.output.format, &body, body.revision, &format!("{}\n\n{locks}", settings(&body)));
    Ok(())
}

fn settings(body: &BackupBody) -> String {
    table(["fact", "value"], body.rows())
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
