//! Waits until a server is ready, with probes that need no driver.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Server, ServerError};
use crate::wait::poll_until;

/// The time limit for ready servers, sufficient for three Java virtual machines on two busy cores.
const READY_TIMEOUT: Duration = Duration::from_mins(2);
const STEP: Duration = Duration::from_millis(30);
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);
const REPLY_LEN_MAX: usize = 16 << 10;

/// The condition for a ready server.
pub(super) enum Readiness<'a> {
    /// The reply to a request contains a text.
    Reply { request: &'a str, contains: &'a str },
    /// The log contains a text.
    Log(&'a str),
}

/// # Errors
/// [`ServerError::NotReady`] if the server ends, or is not ready in time.
pub(super) async fn wait_ready(
    server: &mut Server,
    readiness: &Readiness<'_>,
) -> Result<(), ServerError> {
    let mut is_ready = false;
    poll_until(READY_TIMEOUT, STEP, async || {
        is_ready = match readiness {
            Readiness::Reply { request, contains } => request_text(server.address(), request)
                .await
                .is_some_and(|text| text.contains(contains)),
            Readiness::Log(text) => server.log().contains(text),
        };
        is_ready || server.has_ended()
    })
    .await;
    let (name, why) = (server.name().to_owned(), server.log_tail());
    if is_ready { Ok(()) } else { Err(ServerError::NotReady { name, why }) }
}

/// Returns a server's reply until it closes the connection, pauses, or completes a line; `None` without a reply.
pub(crate) async fn request_text(address: SocketAddr, request: &str) -> Option<String> {
    let mut socket = TcpStream::connect(address).await.ok()?;
    socket.write_all(request.as_bytes()).await.ok()?;
    let mut reply = vec![0; REPLY_LEN_MAX];
    let mut len = 0;
    while let Ok(Ok(read)) =
        tokio::time::timeout(REPLY_TIMEOUT, socket.read(reply.get_mut(len..)?)).await
    {
        len += read;
        let is_over = read == 0 || len == reply.len();
        if is_over || reply.get(..len)?.ends_with(b"\r\n") {
            break;
        }
    }
    Some(String::from_utf8_lossy(reply.get(..len)?).into_owned())
}
