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

/// Waits until all these servers are ready.
///
/// # Errors
/// [`ServerError::NotReady`] if one of them ends, or is not ready in time.
pub(super) async fn wait_ready(
    servers: &mut [Server],
    readiness: &Readiness<'_>,
) -> Result<(), ServerError> {
    let mut ready = 0;
    poll_until(READY_TIMEOUT, STEP, async || {
        while let Some(server) = servers.get(ready)
            && is_ready(server, readiness).await
        {
            ready += 1;
        }
        ready == servers.len() || servers.iter_mut().any(Server::has_ended)
    })
    .await;
    let ended = servers.iter_mut().position(Server::has_ended);
    let Some(server) = servers.get(ended.unwrap_or(ready)) else { return Ok(()) };
    Err(ServerError::NotReady { name: server.name().to_owned(), why: server.log_tail() })
}

async fn is_ready(server: &Server, readiness: &Readiness<'_>) -> bool {
    match readiness {
        Readiness::Reply { request, contains } => {
            let reply = request_text(server.address(), request).await;
            reply.is_some_and(|text| text.contains(contains))
        }
        Readiness::Log(text) => server.log().contains(text),
    }
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use nix::sys::signal::Signal;

    use super::super::process::{Lifetime, ServerCommand};
    use super::*;

    #[tokio::test]
    async fn the_wait_for_servers_ends_with_the_first_that_ends() {
        let place = tempfile::tempdir().unwrap();
        let mut servers = [("waits", "sleep"), ("ends", "false")].map(|(name, program)| {
            let command = ServerCommand {
                name,
                program: program.into(),
                arguments: vec!["1000".into()],
                directory: place.path().to_owned(),
                address: (Ipv4Addr::LOCALHOST, 1).into(),
                user: None,
                lifetime: Lifetime::WithParent,
                stop: Signal::SIGKILL,
            };
            command.start().unwrap()
        });
        let error = wait_ready(&mut servers, &Readiness::Log("ready")).await.unwrap_err();
        assert!(matches!(&error, ServerError::NotReady { name, .. } if name == "ends"), "{error}");
    }
}
