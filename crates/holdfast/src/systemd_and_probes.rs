//! What a node reports to the program that manages it: its readiness, a status text and signs of life to systemd
//! (`Type=notify`), and to the probes of Kubernetes that it has stopped itself.
//!
//! A node is ready when its front-ends listen, so that a start does not wait for other members. The watchdog gets a sign
//! of life only after the thread of the log has answered. Without `NOTIFY_SOCKET` nothing is reported. A node that stopped
//! itself serves nothing but the probes: `/livez` returns 200, so that the pod stays, and `/readyz` returns 503 with the
//! reason. Bound: one connection at a time, each for at most [`TIMEOUT`].

use std::time::Duration;

use holdfast_cli::signals::StopSignals;
use holdfast_service::Service;
use holdfast_tls::{MaybeTlsStream, TlsAcceptor};
use sd_notify::NotifyState;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{MissedTickBehavior, sleep, timeout};

use crate::certificates::NodeTls;
use crate::config::Config;

/// The interval of the status text without a watchdog.
const STATUS_EVERY: Duration = Duration::from_secs(5);

/// Reports until the task is aborted.
pub(crate) async fn report(service: Service) {
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return;
    }
    let watchdog = sd_notify::watchdog_enabled();
    // Half of the time, as sd_watchdog_enabled(3) recommends.
    let interval = watchdog.map_or(STATUS_EVERY, |limit| (limit / 2).min(STATUS_EVERY));
    let mut period = tokio::time::interval(interval);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    notify(NotifyState::Ready);
    loop {
        period.tick().await;
        notify(NotifyState::Status(&status(&service)));
        if watchdog.is_some() && service.probe_log().await {
            notify(NotifyState::Watchdog);
        }
    }
}

/// Reports that the shutdown has begun.
pub(crate) fn report_stopping() {
    notify(NotifyState::Stopping);
}

fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!(%error, "cannot notify the service manager");
    }
}

/// `leads, term 4, 1,204 locks held`
fn status(service: &Service) -> String {
    let health = service.health();
    if let Some(failed) = health.ready.iter().find(|check| !check.ok) {
        return format!("not ready: {}: {}", failed.name, failed.detail);
    }
    let role = match service.leader() {
        Some(leader) if leader == service.node() => "leads".to_owned(),
        Some(leader) => format!("follows node {leader}"),
        None => "has no leader".to_owned(),
    };
    let held = grouped(service.counts().locks_held);
    format!("{role}, term {}, {held} locks held", service.term())
}

/// The number with a comma between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let (head, rest) = digits.split_at(first);
    let groups = rest.as_bytes().chunks(3).map(|group| String::from_utf8_lossy(group).into_owned());
    let head = (!head.is_empty()).then(|| head.to_owned());
    head.into_iter().chain(groups).collect::<Vec<_>>().join(",")
}

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
    fn digits_are_grouped_by_three() {
        let cases = [(0, "0"), (999, "999"), (1_204, "1,204"), (1_000_000, "1,000,000")];
        assert!(cases.iter().all(|(number, text)| grouped(*number) == *text));
    }

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
