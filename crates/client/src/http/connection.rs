//! One HTTP/1.1 connection, which runs in the tasks of its callers.
//!
//! A call writes its request and reads its answer in its own task, so it wakes no other task. Dropping a call that has no
//! complete answer closes the connection. The rules are those of RFC 9112.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use http::{Method, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::http::answer::{AnswerHead, Body, Headers, Input, incomplete};
use crate::http::{SendError, reason_of};

/// Bytes of a body that is kept in memory. Longer ones are read in parts.
const BODY_MAX: usize = 256 << 20;

/// A stream of bytes to a node, with or without TLS.
pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

/// An open connection that carries one call at a time.
pub(super) struct Connection {
    socket: Box<dyn Socket>,
    input: Input,
    /// What is left of the body of the last answer.
    body: Body,
    /// Whether the node keeps the connection open after the body.
    persists: bool,
}

/// The part of a request that is not written yet.
struct Unwritten<'a> {
    request: &'a [u8],
    written: usize,
    is_flushed: bool,
}

impl Connection {
    pub(super) fn over(socket: Box<dyn Socket>) -> Self {
        Self { socket, input: Input::default(), body: Body::End, persists: true }
    }

    /// Whether the connection can carry another call, as far as the last answer says.
    pub(super) fn can_be_reused(&self) -> bool {
        self.persists && self.body == Body::End && self.input.unread().is_empty()
    }

    /// Returns the idle connection unless the node has closed it, as far as this side knows. A node sends nothing without a
    /// call, so any byte ends it as well.
    pub(super) fn unless_ended(mut self) -> Option<Self> {
        let mut context = Context::from_waker(Waker::noop());
        self.input.poll_fill(&mut *self.socket, &mut context).is_pending().then_some(self)
    }

    /// Sends a request, and returns the head of its answer.
    ///
    /// # Errors
    /// [`SendError`] if the connection ended, or the answer is not one of HTTP/1.
    pub(super) async fn call(
        &mut self,
        method: &Method,
        request: &[u8],
    ) -> Result<(StatusCode, Headers), SendError> {
        let mut unwritten = Unwritten { request, written: 0, is_flushed: false };
        // Until the answer is complete, the connection is of no use for another call.
        self.persists = false;
        let head = poll_fn(|context| self.poll_call(context, method, &mut unwritten)).await;
        match head {
            Ok(head) => {
                (self.body, self.persists) = (head.body, head.persists && unwritten.is_flushed);
                Ok((head.status, head.headers))
            }
            Err(error) if unwritten.written == 0 => Err(SendError::not_done(reason_of(&error))),
            Err(error) => Err(SendError::may_be_done(reason_of(&error))),
        }
    }

    fn poll_call(
        &mut self,
        context: &mut Context<'_>,
        method: &Method,
        unwritten: &mut Unwritten<'_>,
    ) -> Poll<io::Result<AnswerHead>> {
        if let Poll::Ready(Err(error)) = unwritten.poll(&mut *self.socket, context)
            && unwritten.written == 0
        {
            return Poll::Ready(Err(error));
        }
        // A node may answer and close before it has read the whole request.
        loop {
            while let Some(head) = AnswerHead::parse(self.input.unread(), method)? {
                self.input.consume(head.len);
                if !head.status.is_informational() {
                    return Poll::Ready(Ok(head));
                }
            }
            if ready!(self.input.poll_fill(&mut *self.socket, context))? == 0 {
                return Poll::Ready(Err(incomplete()));
            }
        }
    }

    /// Appends the next bytes of the body, none at its end. Dropping the future loses no byte.
    ///
    /// # Errors
    /// [`SendError`] if the connection ended before the body.
    pub(super) async fn next(&mut self, bytes: &mut Vec<u8>) -> Result<(), SendError> {
        let next = poll_fn(|context| self.poll_body(context, bytes)).await;
        next.map_err(|error| SendError::may_be_done(reason_of(&error)))
    }

    /// Returns the rest of the body, at most [`BODY_MAX`] bytes.
    ///
    /// # Errors
    /// As [`Connection::next`], and for a longer body.
    pub(super) async fn rest(&mut self) -> Result<Vec<u8>, SendError> {
        let mut bytes = Vec::new();
        while self.body != Body::End {
            self.next(&mut bytes).await?;
            if bytes.len() > BODY_MAX {
                return Err(SendError::may_be_done("the answer is too long"));
            }
        }
        Ok(bytes)
    }

    fn poll_body(
        &mut self,
        context: &mut Context<'_>,
        bytes: &mut Vec<u8>,
    ) -> Poll<io::Result<()>> {
        let len = bytes.len();
        loop {
            self.body.read(&mut self.input, bytes)?;
            if self.body == Body::End || bytes.len() > len {
                return Poll::Ready(Ok(()));
            }
            if ready!(self.input.poll_fill(&mut *self.socket, context))? == 0 {
                self.body = self.body.closed()?;
            }
        }
    }
}

impl Unwritten<'_> {
    fn poll(&mut self, socket: &mut dyn Socket, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut socket = Pin::new(socket);
        while self.written < self.request.len() {
            let left = &self.request[self.written..];
            match ready!(socket.as_mut().poll_write(context, left))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        if !self.is_flushed {
            ready!(socket.as_mut().poll_flush(context))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    const REQUEST: &[u8] = b"PUT /v1/locks/a HTTP/1.1\r\nhost: node\r\ncontent-length: 0\r\n\r\n";

    /// Returns a connection through a buffer of `buffer` bytes, and the side of the node.
    fn connection(buffer: usize) -> (Connection, DuplexStream) {
        let (client, node) = duplex(buffer);
        (Connection::over(Box::new(client)), node)
    }

    /// Sends a request to a node that answers with these bytes and closes the connection, and reads the whole answer.
    async fn answer(bytes: &'static [u8]) -> Result<(StatusCode, Vec<u8>, bool), SendError> {
        let (mut connection, mut node) = connection(7);
        let node = tokio::spawn(async move {
            node.read_exact(&mut vec![0; REQUEST.len()]).await.unwrap();
            // The client may close the connection before the end.
            drop(node.write_all(bytes).await);
        });
        let (status, _) = connection.call(&Method::PUT, REQUEST).await?;
        let body = connection.rest().await?;
        let can_be_reused = connection.can_be_reused();
        drop(connection);
        node.await.unwrap();
        Ok((status, body, can_be_reused))
    }

    #[tokio::test]
    async fn an_answer_arrives_in_any_pieces() {
        let length = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody";
        let chunks =
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nb\r\n3\r\nody\r\n0\r\n\r\n";
        let interim =
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody";
        for bytes in [length.as_slice(), chunks, interim] {
            let expected = (StatusCode::OK, b"body".to_vec(), true);
            assert_eq!(answer(bytes).await, Ok(expected), "{}", String::from_utf8_lossy(bytes));
        }
        let until_close = answer(b"HTTP/1.0 200 OK\r\n\r\nbody").await;
        assert_eq!(until_close, Ok((StatusCode::OK, b"body".to_vec(), false)));
    }

    #[tokio::test]
    async fn a_node_that_sends_more_than_an_answer_is_not_called_again() {
        let (mut connection, mut node) = connection(1_000);
        node.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody?").await.unwrap();
        connection.call(&Method::PUT, REQUEST).await.unwrap();
        assert_eq!(connection.rest().await.unwrap(), b"body");
        assert!(!connection.can_be_reused());
    }

    #[tokio::test]
    async fn an_incomplete_answer_leaves_the_outcome_open() {
        let long_head = [b"HTTP/1.1 200 OK\r\nx: ".as_slice(), &vec![b'y'; 70_000]].concat();
        for bytes in [
            b"".as_slice(),
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nbody",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbody\r\n",
            b"not HTTP",
            long_head.leak(),
        ] {
            let error = answer(bytes).await.unwrap_err();
            assert!(error.may_be_done && !error.timed_out, "{error}");
        }
    }

    #[tokio::test]
    async fn a_request_of_which_nothing_was_sent_is_certainly_not_done() {
        let (mut connection, node) = connection(7);
        drop(node);
        let error = connection.call(&Method::PUT, REQUEST).await.unwrap_err();
        assert!(!error.may_be_done, "{error}");
    }

    #[tokio::test]
    async fn a_node_may_answer_before_it_has_read_the_request() {
        let (mut connection, mut node) = connection(256);
        let answer = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n";
        node.write_all(answer).await.unwrap();
        let request = [REQUEST, &[0; 1_000]].concat();
        let (status, _) = connection.call(&Method::PUT, &request).await.unwrap();
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(connection.rest().await.unwrap(), b"");
        assert!(!connection.can_be_reused(), "the rest of the request would be the next one");
    }

    #[tokio::test]
    async fn an_idle_connection_that_was_closed_or_received_bytes_has_ended() {
        let (open, node) = connection(64);
        let open = open.unless_ended().expect("nothing has happened");
        drop(node);
        assert!(open.unless_ended().is_none());
        let (spoken, mut node) = connection(64);
        node.write_all(b"HTTP/1.1 408 Request Timeout\r\n\r\n").await.unwrap();
        assert!(spoken.unless_ended().is_none());
    }

    #[tokio::test]
    async fn a_call_that_was_dropped_spoils_its_connection() {
        let (mut connection, node) = connection(1_000);
        tokio::select! {
            biased;
            _answer = connection.call(&Method::PUT, REQUEST) => panic!("the node does not answer"),
            () = std::future::ready(()) => {}
        }
        assert!(!connection.can_be_reused());
        drop(node);
    }
}
