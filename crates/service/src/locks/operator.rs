//! Actions of an operator: breaking holds, ending a session. Each writes one line to the audit log, even if it fails.

use std::time::Duration;

use holdfast_types::{
    Command, ForceRelease, ForceReleaseTarget, Identity, NodeOperation, Reason, Reply, SessionId,
    SessionName, millis,
};

use crate::request::{Failure, Response};
use crate::service::Service;

/// The longest delay of a change of the log's filter.
const LOG_RECORD_TIMEOUT: Duration = Duration::from_secs(2);

impl Service {
    /// Removes queue entries from a lock: its holders, or one holder or waiter. Returns their number.
    pub async fn force_release(&self, command: ForceRelease) -> Result<Response<u32>, Failure> {
        let ForceRelease { lock, what, reason } = command.clone();
        let what = match what {
            ForceReleaseTarget::Holders => "holders".to_owned(),
            ForceReleaseTarget::Ticket(ticket) => format!("ticket {ticket}"),
            ForceReleaseTarget::Sequence(sequence) => format!("number {sequence}"),
            ForceReleaseTarget::Token(token) => format!("token {token}"),
        };
        let by = self.shown_caller();
        let released =
            self.propose(Command::ForceRelease(command), Reply::into_force_released).await;
        let (done, holds_ended) =
            (done(&released), released.as_ref().ok().map(|released| released.value));
        let (lock, reason) = (lock.as_str(), reason.as_str());
        tracing::info!(target: "audit", action = "force-release", lock, what, reason, by, done, holds_ended,
            request = self.context.request_id, "an operator broke a lock");
        released
    }

    /// Records an operation in the audit trail, before it is carried out.
    pub(crate) async fn record_operation(&self, operation: NodeOperation) -> Result<(), Failure> {
        let command = Command::RecordOperation(operation);
        let service = self.without_number();
        service.propose(command, Reply::into_operation_recorded).await.map(drop)
    }

    /// Records that the filter of this node's log changes. A cluster without a leader has no record of it: the filter is
    /// then needed most.
    ///
    /// # Errors
    /// The rejection of the caller.
    pub async fn record_log_change(
        &self,
        filter: Option<String>,
        lasts: Duration,
    ) -> Result<(), Failure> {
        let operation =
            NodeOperation::SetLog { node: self.node(), filter, lasts_ms: millis(lasts) };
        let recorded = tokio::time::timeout(LOG_RECORD_TIMEOUT, self.record_operation(operation));
        match recorded.await {
            Ok(Err(Failure::Rejected(rejection))) => Err(Failure::Rejected(rejection)),
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => {
                tracing::warn!("the audit trail has no record of the change of the log's filter");
                Ok(())
            }
        }
    }

    /// Ends a session. With an `incarnation`, only that session of the name.
    pub async fn end_session(
        &self,
        session: SessionName,
        incarnation: Option<SessionId>,
        reason: Reason,
    ) -> Result<Response<()>, Failure> {
        let (name, why) = (session.clone(), reason.clone());
        let end = Command::EndSession { session: name, incarnation, reason: why };
        let ended = self.propose(end, Reply::into_session_ended).await;
        let (by, session, reason) = (self.shown_caller(), session.as_str(), reason.as_str());
        let done = done(&ended);
        tracing::info!(target: "audit", action = "end-session", session, reason, by, done,
            request = self.context.request_id, "an operator ended a session");
        ended
    }

    /// The caller in the audit log: its subject, or its identities without their secrets.
    pub fn shown_caller(&self) -> String {
        if let Some(subject) = self.subject() {
            return subject.to_string();
        }
        let shown = |identity: &Identity| {
            let name = identity.id.split(':').next().unwrap_or_default();
            format!("{}:{name}", identity.scheme)
        };
        let names: Vec<_> = self.identities().iter().map(shown).collect();
        names.join(" ")
    }
}

fn done<T>(result: &Result<T, Failure>) -> &'static str {
    match result {
        Ok(_) => "yes",
        Err(Failure::OutcomeUnknown) => "unknown",
        Err(_) => "no",
    }
}
