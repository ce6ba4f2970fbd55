//! A large answer, received in pieces. Bound: one piece in memory.

use std::time::{Duration, Instant};

use crate::Error;
use crate::calls::call::StreamedRead;
use crate::calls::send::Calls;
use crate::http::StreamedAnswer;

/// An answer without bytes for this long is dead.
const SILENCE_MAX: Duration = Duration::from_mins(1);

/// The answer of [`Client::download`](crate::Client::download).
#[derive(Debug)]
pub struct Download {
    answer: StreamedAnswer,
    /// The address of the node.
    base: String,
}

impl Download {
    pub(crate) async fn begin(calls: &Calls, target: &str) -> Result<Self, Error> {
        let call = StreamedRead { target, headers: Vec::new(), head_timeout: SILENCE_MAX };
        let until = Instant::now() + calls.request_timeout;
        let (answer, node) = calls.nodes.open_stream(&call, None, until).await?;
        Ok(Self { answer, base: calls.nodes.base(node).to_owned() })
    }

    /// The next bytes; `None` at the end of a complete answer.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the node ended the answer early, or sent nothing for a minute.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let Self { answer, base } = self;
        let unavailable = |reason: &str| Error::Unavailable(format!("{base}: {reason}"));
        match tokio::time::timeout(SILENCE_MAX, answer.next()).await {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(_)) => Err(unavailable("the node ended its answer early")),
            Err(_) => Err(unavailable("the node sent nothing for a minute")),
        }
    }
}
