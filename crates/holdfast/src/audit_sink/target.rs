//! Where a copy of the audit trail goes: a file of JSON lines, or messages to a syslog server.
//!
//! Only the owner can read the file. Each batch opens it by its name, so a file that another program renames is replaced by a
//! new one. Above its size, it is renamed to `NAME.1`, and the older ones to the next number; the oldest is deleted. A message
//! has the form of RFC 5424, with the JSON of a record as the text. A Unix socket gets one datagram for each message, a TCP
//! connection the octet counts of RFC 6587. TCP does not acknowledge messages: after a broken connection the last batch is
//! sent again, and earlier ones can be missing.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_api::Rfc3339Time;

use super::AuditLine;
use crate::config::SyslogTarget;

/// Longer than any line.
const TAIL: u64 = 64 << 10;

/// Where the lines go.
#[derive(Debug)]
pub(super) enum CopyTarget {
    File(FileCopy),
    Syslog(SyslogCopy),
}

impl CopyTarget {
    /// Returns when the lines are durable, as far as the target can tell.
    pub(super) fn append(&mut self, lines: &[AuditLine]) -> io::Result<()> {
        match self {
            Self::File(file) => file.append(lines),
            Self::Syslog(syslog) => syslog.append(lines),
        }
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::File(file) => file.name(),
            Self::Syslog(syslog) => syslog.name(),
        }
    }
}

#[derive(Debug)]
pub(super) struct FileCopy {
    path: PathBuf,
    /// Bytes.
    size_max: u64,
    /// The number of renamed files that are kept.
    files: usize,
}

impl FileCopy {
    pub(super) fn new(path: PathBuf, size_max: u64, files: usize) -> Self {
        Self { path, size_max, files }
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// The number of the newest record of the file; 0 without one.
    pub(super) fn newest(&self) -> io::Result<u64> {
        let text = tail(&self.path)?;
        let number = |line: &str| {
            let body: serde_json::Value = serde_json::from_str(line).ok()?;
            body["number"].as_u64()
        };
        Ok(text.lines().rev().find_map(number).unwrap_or_default())
    }

    /// Returns when the lines are on the disk.
    fn append(&self, lines: &[AuditLine]) -> io::Result<()> {
        let mut text = String::new();
        if !tail(&self.path)?.ends_with('\n') {
            // A crash has left the start of a line.
            text.push('\n');
        }
        for line in lines {
            text.push_str(&line.json);
            text.push('\n');
        }
        let size = std::fs::metadata(&self.path).map_or(0, |file| file.len());
        if size > 0 && size + text.len() as u64 > self.size_max {
            self.rotate()?;
        }
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
        let size = file.metadata()?.len();
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
        if written.is_err() {
            // The next attempt writes all lines again.
            file.set_len(size).ok();
        }
        written
    }

    fn rotate(&self) -> io::Result<()> {
        let older = |number: usize| PathBuf::from(format!("{}.{number}", self.path.display()));
        // If the current file cannot be renamed, each attempt after the first one moves no older file.
        let free = (1..=self.files).find(|number| !older(*number).exists());
        for number in (0..free.unwrap_or(self.files)).rev() {
            let from = if number == 0 { self.path.clone() } else { older(number) };
            match std::fs::rename(from, older(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        if self.files == 0 {
            std::fs::remove_file(&self.path)?;
        }
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    }
}

/// The end of a regular file; a line feed if it is empty, is missing, or is no regular file.
fn tail(path: &Path) -> io::Result<String> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok("\n".to_owned()),
        file => file?,
    };
    let file_type = file.metadata()?;
    if !file_type.is_file() || file_type.len() == 0 {
        return Ok("\n".to_owned());
    }
    file.seek(SeekFrom::Start(file_type.len().saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Facility 13, log audit, and severity 5, notice.
const PRIORITY: u8 = 13 * 8 + 5;
/// The longest time for a connection, and for a write.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct SyslogCopy {
    target: SyslogTarget,
    /// The host of this node.
    host: String,
    pub(super) connection: Option<TcpStream>,
}

impl SyslogCopy {
    pub(super) fn new(target: SyslogTarget, host: String) -> Self {
        Self { target, host, connection: None }
    }

    fn name(&self) -> String {
        self.target.to_string()
    }

    fn append(&mut self, lines: &[AuditLine]) -> io::Result<()> {
        let messages = lines.iter().map(|line| message(&self.host, line));
        match &self.target {
            SyslogTarget::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                socket.set_write_timeout(Some(TIMEOUT))?;
                for message in messages {
                    socket.send(message.as_bytes())?;
                }
                Ok(())
            }
            SyslogTarget::Tcp(address) => {
                let counted: Vec<String> =
                    messages.map(|message| format!("{} {message}", message.len())).collect();
                let mut connection = match self.connection.take() {
                    Some(connection) if is_open(&connection) => connection,
                    Some(_) | None => connected(address)?,
                };
                connection.write_all(counted.concat().as_bytes())?;
                self.connection = Some(connection);
                Ok(())
            }
        }
    }
}

fn message(host: &str, AuditLine { at, json }: &AuditLine) -> String {
    let (time, process) = (Rfc3339Time(*at), std::process::id());
    format!("<{PRIORITY}>1 {time} {host} holdfast {process} audit - {json}")
}

/// False if the server has closed the connection. A server sends nothing.
fn is_open(connection: &TcpStream) -> bool {
    let look = || {
        connection.set_nonblocking(true)?;
        let read = connection.peek(&mut [0]);
        connection.set_nonblocking(false)?;
        read
    };
    matches!(look(), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

fn connected(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(connection) => {
                connection.set_write_timeout(Some(TIMEOUT))?;
                return Ok(connection);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
