//! What a node reports to systemd (`Type=notify`): readiness, a status text, and signs of life.
//!
//! A node is ready when its front-ends listen, so that a start does not wait for other members. The watchdog gets a sign
//! of life only after the thread of the log has answered. Without `NOTIFY_SOCKET` nothing is reported.

use std::time::Duration;

use holdfast_service::Service;
use sd_notify::NotifyState;
use tokio::time::MissedTickBehavior;

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
pub(crate) fn stopping() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        let cases = [(0, "0"), (999, "999"), (1_204, "1,204"), (1_000_000, "1,000,000")];
        assert!(cases.iter().all(|(number, text)| grouped(*number) == *text));
    }
}
