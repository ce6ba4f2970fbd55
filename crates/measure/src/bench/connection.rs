//! One HTTP/1.1 connection of the load generator.
//!
//! The connection reads only the replies of holdfast: a status line, headers, and a body of known length. It uses no
//! HTTP library: the generator shares the machine with the nodes, and a general client takes several times the
//! processor time. Bound: a reply above 1 MiB is an error.

use std::io;
use std::str::FromStr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use holdfast_tls::MaybeTlsStream;

use super::access::Access;
use super::requests::get;

/// The initial size of the buffer.
const REPLY_LEN: usize = 16 * 1024;
/// The maximum length of a reply.
const REPLY_LEN_MAX: usize = 1024 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct LoadReply<'a> {
    pub(super) status: u16,
    /// The fencing token of a grant.
    pub(super) token: Option<u64>,
    pub(super) body: &'a [u8],
}

impl LoadReply<'_> {
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// A connection that carries one call at a time.
#[derive(Debug)]
pub(super) struct HttpConnection {
    stream: MaybeTlsStream,
    buffer: Vec<u8>,
}

impl HttpConnection {
    pub(super) async fn open(endpoint: &str, access: &Access) -> io::Result<Self> {
        let stream = TcpStream::connect(endpoint).await?;
        stream.set_nodelay(true)?;
        let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
        let stream = match &access.tls {
            Some(tls) => tls.connect(host, stream).await?,
            None => MaybeTlsStream::Plain(stream),
        };
        Ok(Self { stream, buffer: vec![0; REPLY_LEN] })
    }

    /// Sends a request and reads the reply. After an error the connection is unusable.
    ///
    /// # Errors
    /// The connection failed, or the reply is not from holdfast.
    pub(super) async fn exchange(&mut self, request: &[u8]) -> io::Result<LoadReply<'_>> {
        self.stream.write_all(request).await?;
        let mut filled = 0;
        let head = loop {
            if filled == self.buffer.len() {
                if filled >= REPLY_LEN_MAX {
                    return Err(io::Error::other("a reply above 1 MiB"));
                }
                self.buffer.resize(2 * filled, 0);
            }
            let read = self.stream.read(&mut self.buffer[filled..]).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += read;
            match parse_head(&self.buffer[..filled])? {
                Some(head) if head.len.saturating_add(head.body_len) <= filled => break head,
                Some(_) | None => {}
            }
        };
        let body = &self.buffer[head.len..head.len + head.body_len];
        Ok(LoadReply { status: head.status, token: head.token, body })
    }
}

/// Reads a resource of a node.
///
/// # Errors
/// The node does not answer.
pub(super) async fn read(endpoint: &str, target: &str, access: &Access) -> Result<String, String> {
    let read = async {
        let mut connection = HttpConnection::open(endpoint, access).await?;
        let reply = connection.exchange(&access.authorize(get(target))).await?;
        Ok(String::from_utf8_lossy(reply.body).into_owned())
    };
    let read: io::Result<String> = read.await;
    read.map_err(|error| format!("{target} of {endpoint}: {error}"))
}

/// Reads one metric of a node.
///
/// # Errors
/// The node does not answer, or does not have the metric.
pub(super) async fn node_metric<T: FromStr>(
    endpoint: &str,
    name: &str,
    access: &Access,
) -> Result<T, String> {
    let metrics = read(endpoint, "/metrics", access).await?;
    metric_value(&metrics, name).ok_or_else(|| format!("/metrics of {endpoint} has no {name}"))
}

/// Returns the value of a counter or gauge without labels; `None` if it is missing or not a number of type `T`.
fn metric_value<T: FromStr>(metrics: &str, name: &str) -> Option<T> {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

#[derive(Debug, PartialEq, Eq)]
struct ReplyHead {
    status: u16,
    token: Option<u64>,
    /// The length of the head, up to the body.
    len: usize,
    body_len: usize,
}

/// Parses the head of a reply; `None` if the head is incomplete.
fn parse_head(bytes: &[u8]) -> io::Result<Option<ReplyHead>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let foreign = |what: &'static str| io::Error::new(io::ErrorKind::InvalidData, what);
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| foreign("the head is not text"))?;
    let mut lines = text.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.strip_prefix("HTTP/1.1 "))
        .and_then(|line| line.get(..3))
        .and_then(|code| code.parse().ok())
        .ok_or_else(|| foreign("no HTTP/1.1 status line"))?;
    let mut head = ReplyHead { status, token: None, len: end + 4, body_len: 0 };
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { continue };
        if name.eq_ignore_ascii_case("content-length") {
            head.body_len = value.trim().parse().map_err(|_| foreign("a bad content-length"))?;
        } else if name.eq_ignore_ascii_case(holdfast_api::FENCING_TOKEN) {
            head.token = Some(value.trim().parse().map_err(|_| foreign("a bad fencing token"))?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(foreign("a chunked reply"));
        }
    }
    Ok(Some(head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_parsed() {
        let answer = b"HTTP/1.1 200 OK\r\nFencing-Token: 4812\r\ncontent-length: 5\r\n\r\n4812\n";
        let head = parse_head(answer).unwrap().unwrap();
        assert_eq!((head.status, head.token, head.body_len), (200, Some(4812), 5));
        assert_eq!(&answer[head.len..], b"4812\n");
    }

    #[test]
    fn a_reply_without_a_body_is_parsed() {
        let head = parse_head(b"HTTP/1.1 204 No Content\r\ndate: now\r\n\r\n").unwrap().unwrap();
        assert_eq!((head.status, head.token, head.body_len), (204, None, 0));
    }

    #[test]
    fn an_incomplete_head_is_not_parsed() {
        assert_eq!(parse_head(b"HTTP/1.1 200 OK\r\nfencing-to").unwrap(), None);
    }

    #[test]
    fn a_reply_of_another_server_is_rejected() {
        assert!(parse_head(b"SSH-2.0-OpenSSH\r\n\r\n").is_err());
        assert!(parse_head(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
        assert!(parse_head(b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n").is_err());
    }

    #[test]
    fn a_gauge_is_found_among_others() {
        let text = "# TYPE disk_free_bytes gauge\ndisk_free_bytes_x 1\ndisk_free_bytes 4096\n";
        assert_eq!(metric_value(text, "disk_free_bytes"), Some(4_096_u64));
        assert_eq!(metric_value::<u64>(text, "other"), None);
    }
}
