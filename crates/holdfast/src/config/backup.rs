//! The section `[backup]`: the backups that this node makes by itself.

use std::path::PathBuf;
use std::time::Duration;

use holdfast_tls::AgeRecipient;

use super::error::ConfigError;
use super::source::ConfigLayers;
use super::units;
use super::units::Scalar;

/// The files that stay without `backup.keep`.
const KEEP_DEFAULT: usize = 14;

/// Backups on a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackupConfig {
    pub(crate) every: Duration,
    /// An existing directory, best on another disk.
    pub(crate) directory: PathBuf,
    /// The number of files that stay, at least 1.
    pub(crate) keep: usize,
    /// The public key to which the files are encrypted; `None` for plain files.
    pub(crate) recipient: Option<AgeRecipient>,
}

impl BackupConfig {
    /// Reads the section; `None` if the node makes no backups.
    pub(super) fn read(layers: &ConfigLayers) -> Result<Option<Self>, ConfigError> {
        let every = layers.optional("backup.every", every)?;
        let directory = layers.optional("backup.directory", units::path)?;
        let keep = layers.optional("backup.keep", keep)?;
        let recipient = layers.optional("backup.recipient", recipient)?;
        match (every, directory) {
            (Some(every), Some(directory)) => {
                let keep = keep.unwrap_or(KEEP_DEFAULT);
                Ok(Some(Self { every, directory, keep, recipient }))
            }
            (None, None) if keep.is_none() && recipient.is_none() => Ok(None),
            (Some(_), None) => Err(incomplete("backup.every needs backup.directory")),
            (None, _) => Err(incomplete(
                "backup.directory, backup.keep and backup.recipient need backup.every",
            )),
        }
    }
}

fn incomplete(problem: &str) -> ConfigError {
    ConfigError::Inconsistent(format!(
        "{problem}: set both for backups on a schedule, for example every = \"6h\" and directory = \"/mnt/backups\""
    ))
}

fn every(value: &Scalar) -> Result<Duration, String> {
    let every = units::duration(value)?;
    if every < Duration::from_secs(1) {
        return Err("is shorter than a backup takes: use 1s or more, for example \"6h\"".to_owned());
    }
    Ok(every)
}

fn keep(value: &Scalar) -> Result<usize, String> {
    match units::count(value)? {
        keep @ 1..=10_000 => Ok(keep),
        _ => {
            Err("is out of bounds: write the number of files that stay, from 1 to 10000".to_owned())
        }
    }
}

fn recipient(value: &Scalar) -> Result<AgeRecipient, String> {
    let wanted = "a public key of age such as \"age1…\": holdfast backup key --out FILE makes one";
    value.text(wanted)?.parse().map_err(|error| format!("{error}: write {wanted}"))
}
