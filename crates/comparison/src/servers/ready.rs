//! Waiting until a server serves.
//!
//! Owns the deadline and the questions that need no driver: a word over TCP, or a line in the log.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::ServerError;
use super::process::Server;

/// Generous: three virtual machines of Java on two busy cores.
const DEADLINE: Duration = Duration::from_mins(2);
const STEP: Duration = Duration::from_millis(30);
const ANSWER: Duration = Duration::from_secs(2);
const ANSWER_MAX: u64 = 16 << 10;

/// What shows that a server serves.
pub(super) enum Sign<'a> {
    /// This question is answered with something that contains this.
    Word(&'a str, &'a str),
    /// Its log says so.
    Log(&'a str),
}

/// Waits for the sign.
pub(super) async fn serving(server: &mut Server, sign: &Sign<'_>) -> Result<(), ServerError> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let shown = match sign {
            Sign::Word(question, expected) => {
                ask(server.address(), question).await.is_some_and(|said| said.contains(expected))
            }
            Sign::Log(line) => server.log().contains(line),
        };
        if shown {
            return Ok(());
        }
        if server.ended() || Instant::now() > deadline {
            let name = server.name().to_owned();
            return Err(ServerError::Broken { name, why: server.tail() });
        }
        tokio::time::sleep(STEP).await;
    }
}

/// What a server has to say to a question, until it closes, pauses or has said a line; none if it does not answer.
pub async fn ask(address: SocketAddr, question: &str) -> Option<String> {
    let mut socket = TcpStream::connect(address).await.ok()?;
    socket.write_all(question.as_bytes()).await.ok()?;
    let mut answer = vec![0; usize::try_from(ANSWER_MAX).ok()?];
    let mut len = 0;
    while let Ok(Ok(read)) = tokio::time::timeout(ANSWER, socket.read(answer.get_mut(len..)?)).await
    {
        len += read;
        let closed = read == 0 || len == answer.len();
        if closed || answer.get(..len)?.ends_with(b"\r\n") {
            break;
        }
    }
    Some(String::from_utf8_lossy(answer.get(..len)?).into_owned())
}
