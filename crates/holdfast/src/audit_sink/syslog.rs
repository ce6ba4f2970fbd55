//! A copy as messages to a syslog server: RFC 5424, with the JSON of a record as the text.
//!
//! A Unix socket gets one datagram for each message, a TCP connection the octet counts of RFC 6587. TCP does not
//! acknowledge messages: after a broken connection the last batch is sent again, and earlier ones can be missing.

use std::io::{self, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use holdfast_api::Rfc3339Time;

use super::AuditLine;
use crate::config::SyslogTarget;

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

    pub(super) fn name(&self) -> String {
        self.target.to_string()
    }

    pub(super) fn append(&mut self, lines: &[AuditLine]) -> io::Result<()> {
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
