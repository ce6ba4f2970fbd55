//! One HTTP/1.1 connection, which runs in the tasks of its callers.
//!
//! hyper splits a connection into a sender of requests and a future that reads and writes the socket. Here each call polls
//! both, so a call wakes no second task. Dropping a call that has no answer yet closes the connection.

use std::pin::{Pin, pin};
use std::task::Poll;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// A stream of bytes to a node, with or without TLS.
pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

type Driver = http1::Connection<TokioIo<Box<dyn Socket>>, Full<Bytes>>;

/// An open connection that carries one call at a time.
pub(super) struct Connection {
    requests: SendRequest<Full<Bytes>>,
    /// `None` once the connection has ended.
    driver: Option<Driver>,
}

impl Connection {
    pub(super) async fn over(socket: Box<dyn Socket>) -> hyper::Result<Self> {
        let (requests, driver) = http1::handshake(TokioIo::new(socket)).await?;
        Ok(Self { requests, driver: Some(driver) })
    }

    /// Whether the connection can carry another call, as far as this side knows.
    pub(super) fn is_open(&self) -> bool {
        self.driver.is_some() && !self.requests.is_closed()
    }

    /// Sends a request and returns the head of its answer.
    ///
    /// # Errors
    /// With the request, if no byte of it was sent.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>> {
        // An error shows in the answer as well, which has the request.
        drop(run(&mut self.driver, self.requests.ready()).await);
        run(&mut self.driver, self.requests.try_send_request(request)).await
    }

    /// Returns the next bytes of an answer; `None` at its end.
    ///
    /// # Errors
    /// The connection ended before the answer.
    pub(super) async fn next(&mut self, body: &mut Incoming) -> hyper::Result<Option<Bytes>> {
        while !body.is_end_stream() {
            let Some(frame) = run(&mut self.driver, body.frame()).await.transpose()? else { break };
            // Trailers have no bytes.
            if let Ok(bytes) = frame.into_data() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}

/// Polls the connection until the future has a result.
async fn run<F: Future>(driver: &mut Option<Driver>, future: F) -> F::Output {
    let mut future = pin!(future);
    std::future::poll_fn(|context| {
        if let Poll::Ready(result) = future.as_mut().poll(context) {
            return Poll::Ready(result);
        }
        // The future gets the error of the connection, too.
        if driver.as_mut().is_some_and(|driver| Pin::new(driver).poll(context).is_ready()) {
            *driver = None;
        }
        future.as_mut().poll(context)
    })
    .await
}
