//! One connection from its first byte to its last, with time limits.
//!
//! hyper speaks HTTP; this file decides when it has lasted long enough: a head that does not arrive, a connection
//! that idles, a stream whose reader has stopped reading, a shutdown. A call in flight is never cut by the alarm: its
//! own limits end it. One timer a connection,
//! re-armed at most once in `head_timeout`, so that idle connections cost next to nothing.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::Response;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tower::Service as _;

use crate::HttpConfig;
use crate::activity::{Activity, Followed, Observed};
use crate::identity::Peer;
use crate::reply::Streaming;

/// How far the shutdown of the front-end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// Open.
    No,
    /// Calls in flight are finished, then the connection is closed.
    Gracefully,
    /// Whatever is in flight is cut.
    Now,
}

/// Serves one connection until it ends, by its own will, by the alarm or by shutdown.
pub(crate) async fn converse(
    stream: TcpStream,
    peer: Peer,
    router: Router,
    config: Arc<HttpConfig>,
    mut closing: watch::Receiver<Closing>,
) {
    let activity = Arc::new(Activity::new());
    let io = TokioIo::new(Observed::new(stream, activity.clone()));
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        activity.busy(request.body().size_hint().exact());
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(activity.clone());
        let answer = router.clone().call(request.map(Body::new));
        let activity = &activity;
        async move {
            let answer: Result<_, Infallible> = answer.await;
            answer.map(|answer| followed(answer, activity))
        }
    });
    let mut connection = pin!(protocol(&config).serve_connection(io, service));
    let mut alarm = pin!(sleep_until(Instant::now() + config.head_timeout));
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended early");
                }
                return;
            }
            () = alarm.as_mut() => {
                let now = Instant::now();
                let deadline = activity.deadline(&config);
                if deadline.is_some_and(|deadline| deadline <= now) {
                    tracing::debug!("a connection was closed for silence");
                    return;
                }
                let look_again = now + config.head_timeout;
                alarm.as_mut().reset(deadline.map_or(look_again, |d| d.min(look_again)));
            }
            changed = closing.changed() => {
                if changed.is_err() || *closing.borrow_and_update() == Closing::Now {
                    return;
                }
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// The answer, and the connection idle once it is made; with a stream, once that has ended.
fn followed(answer: Response<Body>, activity: &Arc<Activity>) -> Response<Body> {
    if answer.extensions().get::<Streaming>().is_none() {
        activity.idle();
        return answer;
    }
    activity.streams();
    answer.map(|body| Body::new(Followed::new(body, activity.clone())))
}

/// HTTP/1.1 with our bounds; hyper's own timer is off, the alarm above does its work.
fn protocol(config: &HttpConfig) -> http1::Builder {
    /// hyper refuses less than this.
    const BUFFER_MIN: usize = 8 * 1024;
    let mut builder = http1::Builder::new();
    builder
        .keep_alive(true)
        .half_close(false)
        .header_read_timeout(None)
        .max_header_size(config.head_bytes_max)
        .max_buf_size((config.head_bytes_max * 2).max(BUFFER_MIN));
    builder
}
