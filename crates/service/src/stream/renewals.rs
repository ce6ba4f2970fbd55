//! Renews the sessions of all streams of a node in batches.
//!
//! While a batch is in flight, further requests wait for the next batch. So one quorum round renews many sessions,
//! without a timer. Sessions that are renewed only through the log are renewed one by one beside the batches.
//!
//! Bounds: one batch at a time; `RenewalQueue` bounds the entries and the sessions of a batch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use holdfast_types::SessionId;

use super::liveness::Liveness;
use super::message::StreamEnd;
use crate::request::Failure;
use crate::service::Service;
use crate::service_call::SessionToRenew;

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
    let of = |(id, streams): (&SessionId, &Vec<Arc<Liveness>>)| {
        let session = streams.first()?.session.clone();
        Some(SessionToRenew { session, id: Some(*id), queue_entry: None })
    };
    let sessions = batch.iter().filter_map(of).collect();
    let renewals = match service.renew_all(sessions, false, began + BATCH_TIMEOUT).await {
        Ok(renewals) => renewals,
        Err(failure) => {
            tracing::debug!(%failure, count = batch.len(), "failed to renew the sessions of streams");
            return batch.into_values().flatten().for_each(|liveness| disarm(service, liveness));
        }
    };
    let mut single = Vec::new();
    for (streams, renewal) in batch.into_values().zip(renewals) {
        for liveness in streams {
            match &renewal {
                Ok(_) => liveness.renewed(began),
                Err(Failure::Rejected(_)) => liveness.stop(),
                Err(_) => {
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

/// Renews sessions through the log: the log decides whether the renewal or an expiry comes first.
async fn renew_singly(service: Service, streams: Vec<Arc<Liveness>>) {
    let renewals = streams.into_iter().map(|liveness| async {
        let began = Instant::now();
        let (session, id) = (liveness.session.clone(), Some(liveness.id));
        let of = SessionToRenew { session, id, queue_entry: None };
        match service.renew(of, service.deadline()).await {
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
