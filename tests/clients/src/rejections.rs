//! Which error of a library each error code becomes: an adapter calls a false node, which rejects every call with the code that
//! the call names. No library needs a function for it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use holdfast_client::api::ErrorCode;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::adapter::Adapter;
use crate::api_description::ApiDescription;
use crate::names::NameTable;
use crate::protocol::{Call, ClientOptions, ErrorKind};

/// The calls that a library repeats end after this time.
const REQUEST_TIMEOUT_MS: u64 = 3_000;
const ANSWER_TIME: Duration = Duration::from_secs(20);

/// The differences between the table and the errors that a library makes of the codes, one line each.
///
/// # Errors
/// If the adapter does not answer.
pub async fn differences(
    table: &NameTable,
    api: &ApiDescription,
    command: &str,
) -> Result<Vec<String>, String> {
    let node = false_node(api.statuses.clone()).await.map_err(|error| error.to_string())?;
    let mut adapter = Adapter::start(command)?;
    let client = ClientOptions {
        name: "c1".to_owned(),
        addresses: vec![node.to_string()],
        request_timeout_ms: Some(REQUEST_TIMEOUT_MS),
        ..ClientOptions::default()
    };
    let id = adapter.send(Call::Client(Box::new(client))).await?;
    let made = adapter.answer(id, ANSWER_TIME).await?.ok_or("no answer to client")?;
    made.result.map_err(|error| error.message)?;
    let mut differences = Vec::new();
    let mut asked = Vec::new();
    for code in &api.codes {
        let (client, lock, reason) = ("c1".to_owned(), code.clone(), "test".to_owned());
        asked.push((code, adapter.send(Call::ForceRelease { client, lock, reason }).await?));
    }
    for (code, id) in asked {
        let answer = adapter.answer(id, ANSWER_TIME).await?;
        let answer = answer.ok_or_else(|| format!("no answer for the code {code}"))?;
        let found = match answer.result {
            Ok(_) => "no error".to_owned(),
            Err(error) => kind_word(error.kind),
        };
        let wanted = table.kind_of_code(code);
        if found != wanted {
            differences.push(format!("code {code} becomes {found}, the table has {wanted}"));
        }
    }
    Ok(differences)
}

fn kind_word(kind: ErrorKind) -> String {
    let word = serde_json::to_value(kind).unwrap_or_default();
    word.as_str().unwrap_or_default().to_owned()
}

/// Starts a server that answers `POST /v1/force-releases/CODE` with the problem of the code, and other calls with 200.
async fn false_node(statuses: BTreeMap<String, u16>) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let statuses = Arc::new(statuses);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let statuses = statuses.clone();
            tokio::spawn(async move { drop(serve(stream, &statuses).await) });
        }
    });
    Ok(address)
}

/// Answers one call, and closes the connection.
async fn serve(mut stream: TcpStream, statuses: &BTreeMap<String, u16>) -> std::io::Result<()> {
    let (input, mut output) = stream.split();
    let mut lines = BufReader::new(input).lines();
    let first = lines.next_line().await?.unwrap_or_default();
    while lines.next_line().await?.is_some_and(|line| !line.is_empty()) {}
    let named = first.split_once("/v1/force-releases/").map(|(_, rest)| rest);
    let code = named.and_then(|rest| rest.split(['?', ' ']).next()).unwrap_or_default();
    let (status, body) = match code.parse::<ErrorCode>() {
        Ok(code) => {
            let status = statuses.get(code.as_str()).copied().unwrap_or(400);
            let problem = json!({
                "type": code.type_uri(), "title": code.title(), "status": status, "code": code.as_str(),
                "retryable": code.retryable(),
            });
            (status, problem)
        }
        Err(_) => (200, json!({})),
    };
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status} x\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    output.write_all((head + &body).as_bytes()).await?;
    output.shutdown().await
}
