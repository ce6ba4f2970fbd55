//! Whether this node should keep running, and whether it should receive traffic. The alarms, and the checks behind their facts,
//! have files of their own.

pub(crate) mod alarm_facts;
pub(crate) mod alarms;
pub(crate) mod clock_check;
pub(crate) mod quota_warnings;

use std::time::Duration;

use holdfast_raft::StopReason;

use self::alarms::{AlarmSeverity, disk_low, no_leader};
use crate::digests::StateCheck;
use crate::service::Service;

/// A node that has not applied a committed change for longer than this should receive no calls.
const LAG_MAX: Duration = Duration::from_secs(1);

/// A condition of a healthy node.
#[derive(Clone, Debug)]
pub struct Check {
    pub name: &'static str,
    pub ok: bool,
    pub detail: String,
}

impl Check {
    /// The check fails with a problem.
    fn of(name: &'static str, problem: Option<String>, healthy: impl Into<String>) -> Self {
        let ok = problem.is_none();
        Self { name, ok, detail: problem.unwrap_or_else(|| healthy.into()) }
    }
}

#[derive(Clone, Debug)]
pub struct Health {
    /// If a check fails, restart the process.
    pub live: Vec<Check>,
    /// If a check fails, send traffic to other nodes.
    pub ready: Vec<Check>,
}

impl Service {
    /// Resolves with the reason when the node cannot continue.
    pub async fn wait_failed(&self) -> StopReason {
        let mut diverged = self.parts.diverged.subscribe();
        tokio::select! {
            reason = self.parts.raft.wait_failed() => reason,
            found = diverged.wait_for(Option::is_some) => {
                let reason = found.ok().and_then(|reason| reason.clone());
                StopReason::Failed(reason.unwrap_or_default())
            }
        }
    }

    /// The reason why the node cannot continue, if it cannot.
    pub(crate) fn failed(&self) -> Option<String> {
        let diverged = self.parts.diverged.borrow().clone();
        diverged.or_else(|| self.parts.raft.failed().map(|reason| reason.to_string()))
    }

    /// Stops the node permanently.
    pub(crate) fn fail(&self, reason: String) {
        tracing::error!(reason, "this node must stop");
        self.parts.diverged.send_replace(Some(reason));
    }

    pub fn health(&self) -> Health {
        let status = self.raft().status();
        let storage = Check::of("storage", self.failed(), "the log is intact");
        let (known, waiting_for) = (status.leader, status.waiting_for.as_deref());
        let no_leader = no_leader(self.node(), known, status.has_quorum, waiting_for);
        let leads = known.map(|leader| format!("node {leader} leads in term {}", status.term));
        let leader = Check::of("leader", no_leader, leads.unwrap_or_default());
        let full = disk_low(status.disk_free_bytes, self.parts.disk_reserve);
        let full = full.filter(|(severity, _)| *severity == AlarmSeverity::Critical);
        let disk = Check::of("disk", full.map(|(_, detail)| detail), "the reserve is free");
        let behind = (status.behind_for > LAG_MAX).then(|| {
            let seconds = status.behind_for.as_secs();
            format!("this node lacks a change that the leader announced {seconds} s ago")
        });
        let lag = Check::of("lag", behind, "this node applies what the leader announces");
        let draining = self.is_draining().then(|| "shutting down".to_owned());
        let serving = Check::of("serving", draining, "yes");
        let (pending, compared) = match self.state_check() {
            StateCheck::Pending => (Some("is compared with the other nodes".to_owned()), ""),
            StateCheck::Unverified => (None, "no majority to compare with"),
            StateCheck::Verified => (None, "a majority has the same"),
        };
        let state = Check::of("state", pending, compared);
        Health {
            live: vec![storage.clone()],
            ready: vec![storage, leader, state, disk, lag, serving],
        }
    }

    /// Resolves when the thread of the log has completed every earlier request; false if it cannot.
    pub async fn probe_log(&self) -> bool {
        self.raft().probe_log().await
    }
}
