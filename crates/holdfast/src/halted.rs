//! A node that stopped itself, and whose process stays: Kubernetes would start it again and again.
//!
//! It serves nothing but the probes. `/livez` returns 200, so that the pod stays, and `/readyz` returns 503 with the reason. Bound:
//! one connection at a time, each for at most [`TIMEOUT`].

use std::time::Duration;

use holdfast_cli::signals::StopSignals;
use holdfast_tls::{MaybeTlsStream, TlsAcceptor};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use crate::certificates::NodeTls;
use crate::config::Config;

/// The time for one probe.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The pause between two attempts to listen.
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// The longest head of a request.
const HEAD_MAX: usize = 8 << 10;

/// Answers probes until a signal.
pub(crate) async fn answer_probes(config: &Config, reason: &str) {
    let Ok(mut signals) = StopSignals::install() else { return };
    tokio::select! {
        _signal = signals.next() => {}
        () = serve(config, reason) => {}
    }
}

async fn serve(config: &Config, reason: &str) {
    let tls = NodeTls::open(&config.tls).ok().and_then(|tls| tls.http);
    loop {
        let Ok(listener) = TcpListener::bind(config.http_listen.to_string()).await else {
            // The sockets of the stopped node may still close.
            sleep(RETRY_AFTER).await;
            continue;
        };
        while let Ok((stream, _)) = listener.accept().await {
            drop(timeout(TIMEOUT, answer(stream, tls.as_ref(), reason)).await);
        }
    }
}

async fn answer(stream: TcpStream, tls: Option<&TlsAcceptor>, reason: &str) -> Option<()> {
    let mut stream = match tls {
        Some(tls) => tls.accept(stream).await.ok()?,
        None => MaybeTlsStream::Plain(stream),
    };
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD_MAX {
        if stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    stream.write_all(reply(&head, reason).as_bytes()).await.ok()?;
    stream.shutdown().await.ok()
}

fn reply(head: &[u8], reason: &str) -> String {
    let is_live = head.starts_with(b"GET /livez ") || head.starts_with(b"GET /livez?");
    let status = if is_live { "200 OK" } else { "503 Service Unavailable" };
    let body = format!("halted: {reason}\n");
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_liveness_probe_succeeds() {
        for (head, status) in [
            ("GET /livez HTTP/1.1", "200 "),
            ("GET /livez?verbose HTTP/1.1", "200 "),
            ("GET /readyz HTTP/1.1", "503 "),
            ("PUT /v1/locks/livez HTTP/1.1", "503 "),
        ] {
            let reply = reply(head.as_bytes(), "damaged");
            assert!(reply.starts_with(&format!("HTTP/1.1 {status}")), "{reply}");
            assert!(reply.ends_with("\r\n\r\nhalted: damaged\n"), "{reply}");
        }
    }
}
