//! The sections `[audit]`, `[backup]` and `[traces]`: what a node writes and sends beside its answers.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_tls::AgeRecipient;
use http::{HeaderName, HeaderValue, Uri};

use super::source::{ConfigError, ConfigLayers};
use super::units::{self, Scalar};

/// The copies of the audit trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuditConfig {
    pub(crate) file: Option<PathBuf>,
    /// A larger file is renamed, bytes.
    pub(crate) file_size: u64,
    /// The number of renamed files that are kept.
    pub(crate) files: usize,
    pub(crate) syslog: Option<SyslogTarget>,
}

/// A syslog server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SyslogTarget {
    /// A socket of this machine, such as `/dev/log`.
    Unix(PathBuf),
    /// `HOST:PORT`.
    Tcp(String),
}

impl AuditConfig {
    pub(super) fn read(layers: &ConfigLayers) -> Result<Self, ConfigError> {
        Ok(Self {
            file: layers.optional("audit.file", units::path)?,
            file_size: layers.or("audit.file_size", file_size, 64 << 20)?,
            files: layers.or("audit.files", units::count, 10)?,
            syslog: layers.optional("audit.syslog", syslog)?,
        })
    }
}

impl std::fmt::Display for SyslogTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

fn file_size(value: &Scalar) -> Result<u64, String> {
    match units::size(value)? {
        size @ 4_096.. => Ok(size),
        _ => Err("is too small for a file: use 4KiB or more".to_owned()),
    }
}

fn syslog(value: &Scalar) -> Result<SyslogTarget, String> {
    let wanted = "\"unix:/dev/log\" or \"tcp://HOST:PORT\"";
    let text = value.text(wanted)?;
    let wrong = || format!("{text:?} is not a syslog server: write {wanted}");
    if let Some(path) = text.strip_prefix("unix:").filter(|path| path.starts_with('/')) {
        return Ok(SyslogTarget::Unix(path.into()));
    }
    let address = text.strip_prefix("tcp://").ok_or_else(wrong)?;
    let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    let port = port.and_then(|(_, port)| port.parse::<u16>().ok());
    port.filter(|port| *port > 0).map(|_| SyslogTarget::Tcp(address.to_owned())).ok_or_else(wrong)
}

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

const SAMPLE_DEFAULT: f64 = 0.01;

/// The configuration of the export.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TracesConfig {
    /// The URL of the collector, without the path of the signal and without a slash at its end.
    pub(crate) endpoint: String,
    /// Of the calls without a `traceparent`, the share that is traced, from 0 to 1.
    pub(crate) sample: f64,
    headers_file: Option<PathBuf>,
}

impl TracesConfig {
    /// Reads the section; `None` if the node exports no traces.
    pub(super) fn read(layers: &ConfigLayers) -> Result<Option<Self>, ConfigError> {
        let endpoint = layers.optional("traces.endpoint", endpoint)?;
        let sample = layers.optional("traces.sample", sample)?;
        let headers_file = layers.optional("traces.headers_file", headers_file)?;
        match (endpoint, sample, headers_file) {
            (Some(endpoint), sample, headers_file) => {
                let sample = sample.unwrap_or(SAMPLE_DEFAULT);
                Ok(Some(Self { endpoint, sample, headers_file }))
            }
            (None, None, None) => Ok(None),
            (None, Some(_), _) => Err(without_endpoint("traces.sample")),
            (None, None, Some(_)) => Err(without_endpoint("traces.headers_file")),
        }
    }

    /// The headers of each export. They may be secret, so that the configuration does not keep them.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn headers(&self) -> Result<HashMap<String, String>, String> {
        self.headers_file.as_deref().map_or_else(|| Ok(HashMap::new()), read_headers)
    }
}

fn without_endpoint(key: &str) -> ConfigError {
    let fix = "set it to the URL of your collector, or remove the section [traces]";
    ConfigError::Inconsistent(format!("{key} needs traces.endpoint: {fix}"))
}

fn endpoint(value: &Scalar) -> Result<String, String> {
    let wanted = "the URL of a collector, such as \"http://127.0.0.1:4318\"";
    let text = value.text(wanted)?.trim_end_matches('/');
    let uri: Uri = text.parse().map_err(|_| format!("{text:?} is not a URL: write {wanted}"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(format!("{text:?} is not an http or https URL: write {wanted}"));
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("has a password, which logs would show: put the header Authorization into traces.headers_file".to_owned());
    }
    if uri.query().is_some() || uri.path().ends_with("/v1/traces") {
        return Err(format!(
            "{text:?} has more than the base: the node adds /v1/traces; write {wanted}"
        ));
    }
    Ok(text.to_owned())
}

fn sample(value: &Scalar) -> Result<f64, String> {
    let wanted = "a number from 0 to 1, such as 0.01 for one call in a hundred";
    let sample = match value {
        Scalar::Fraction(sample) => Some(*sample),
        Scalar::Number(0) => Some(0.0),
        Scalar::Number(1) => Some(1.0),
        Scalar::Text(text) => text.trim().parse().ok(),
        Scalar::Number(_) | Scalar::Bool(_) | Scalar::Other(_) => None,
    };
    sample
        .filter(|sample| (0.0..=1.0).contains(sample))
        .ok_or_else(|| format!("is not a share of the calls: write {wanted}"))
}

fn headers_file(value: &Scalar) -> Result<PathBuf, String> {
    let path = units::path(value)?;
    read_headers(&path).map(|_| path)
}

/// Reads one header a line, such as `Authorization: Bearer …`. Empty lines, and lines with `#`, are comments.
fn read_headers(path: &Path) -> Result<HashMap<String, String>, String> {
    let text = fs::read_to_string(path).map_err(|error| {
        format!("cannot read {}: {error}; name a file that this node can read", path.display())
    })?;
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let header = |(at, line): (usize, &str)| {
        let pair = line.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
        let pair = pair.filter(|(name, value)| {
            name.parse::<HeaderName>().is_ok() && value.parse::<HeaderValue>().is_ok()
        });
        let (name, value) = pair.ok_or_else(|| {
            format!("{}: line {} is not a header: write NAME: VALUE", path.display(), at + 1)
        })?;
        Ok((name.to_owned(), value.to_owned()))
    };
    lines.map(header).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syslog_server_is_a_socket_or_an_address() {
        let of = |text: &str| syslog(&Scalar::Text(text.to_owned())).map(|it| it.to_string());
        for text in ["unix:/dev/log", "tcp://logs.example:601", "tcp://[::1]:601"] {
            assert_eq!(of(text).as_deref(), Ok(text));
        }
        for text in ["/dev/log", "unix:log", "udp://a:1", "tcp://a", "tcp://:601", "tcp://a:0"] {
            assert!(of(text).unwrap_err().contains("unix:/dev/log"), "{text}");
        }
    }
}
