//! The section `[audit]`: the durable copies of the audit trail that the node writes.
//!
//! Each node writes its own copy.

use std::path::PathBuf;

use super::error::ConfigError;
use super::source::ConfigLayers;
use super::units;
use super::units::Scalar;

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
