//! Renews the sessions of all streams of a node in batches.
//!
//! While a batch is in flight, further requests wait for the next batch. So one quorum round renews many sessions,
//! without a timer. Sessions whose expiry is in flight are renewed one by one beside the batches.
//!
//! Bounds: one batch at a time; `renewal_queue.rs` bounds the entries and the sessions of a batch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use holdfast_types::SessionId;

use super::liveness::Liveness;
use super::message::StreamEnd;
use crate::failure::Failure;
use crate::service::Service;
use crate::service_call::BatchRenewal;

/// A batch that takes longer is sent again, together with new streams.
const BATCH_TIMEOUT: Duration = Duration::from_secs(1);
/// The maximum number of concurrent renewals through the log.
const SINGLE_MAX: usize = 16;

/// Sends batches until the service stops. A failed node ends its streams.
pub(crate) async fn run(service: Service) {
    let mut failed = std::pin::pin!(service.wait_failed());
    loop {
        let batch = tokio::select! {
            () = service.stopped().cancelled() => return,
            _reason = &mut failed => return service.observer().streams.end_all(StreamEnd::ShuttingDown),
            batch = service.parts.stream_renewals.take() => batch,
        };
        send(&service, batch).await;
    }
}

async fn send(service: &Service, batch: BTreeMap<SessionId, Vec<Arc<Liveness>>>) {
    let began = Instant::now();
    let sessions: Vec<_> = batch.keys().copied().collect();
    let answers = match service.renew_many(sessions, began + BATCH_TIMEOUT).await {
        Ok(answers) => answers,
        Err(failure) => {
            tracing::debug!(%failure, count = batch.len(), "failed to renew the sessions of streams");
            Vec::new()
        }
    };
    let mut answers = answers.into_iter().chain(std::iter::repeat(BatchRenewal::Unknown));
    let mut single = Vec::new();
    for streams in batch.into_values() {
        let answer = answers.next().unwrap_or(BatchRenewal::Unknown);
        for liveness in streams {
            match answer {
                BatchRenewal::Renewed => liveness.renewed(began),
                BatchRenewal::Gone => liveness.stop(),
                BatchRenewal::Unknown => {}
                BatchRenewal::Expiring => {
                    single.push(liveness);
                    continue;
                }
            }
            disarm(service, liveness);
        }
    }
    if !single.is_empty() {
        tokio::spawn(renew_singly(service.clone(), single));
    }
}

/// Renews sessions whose expiries are in flight, through the log: the log decides which comes first.
async fn renew_singly(service: Service, streams: Vec<Arc<Liveness>>) {
    let renewals = streams.into_iter().map(|liveness| async {
        let began = Instant::now();
        match service.renew(&liveness.session, None, service.deadline()).await {
            Ok(_) => liveness.renewed(began),
            Err(Failure::Rejected(_)) => liveness.stop(),
            Err(failure) => tracing::debug!(%failure, "failed to renew the session of a stream"),
        }
        disarm(&service, liveness);
    });
    futures_util::stream::iter(renewals).buffer_unordered(SINGLE_MAX).collect::<Vec<()>>().await;
}

fn disarm(service: &Service, liveness: Arc<Liveness>) {
    if liveness.renewal_ended() {
        service.parts.stream_renewals.add(liveness);
    }
}
