//! A collector of traces: an OTLP/HTTP server that keeps the spans it receives.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use prost::Message as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A span as a node exported it.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedSpan {
    pub(crate) node: String,
    pub(crate) name: String,
    /// Hexadecimal, as in the header `traceparent`.
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) attributes: BTreeMap<String, String>,
}

pub(crate) struct Collector {
    endpoint: String,
    spans: Arc<Mutex<Vec<ReceivedSpan>>>,
    /// The value of the header `x-team` in the last export.
    team: Arc<Mutex<Option<String>>>,
}

impl Collector {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (spans, team) = (Arc::default(), Arc::default());
        let collector = Self { endpoint: format!("http://{address}"), spans, team };
        let (spans, team) = (collector.spans.clone(), collector.team.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(receive(BufReader::new(stream), spans.clone(), team.clone()));
            }
        });
        collector
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(crate) fn spans(&self) -> Vec<ReceivedSpan> {
        self.spans.lock().expect("the spans").clone()
    }

    pub(crate) fn team(&self) -> Option<String> {
        self.team.lock().expect("the header").clone()
    }
}

/// Answers the exports of one connection.
async fn receive(
    mut stream: BufReader<TcpStream>,
    spans: Arc<Mutex<Vec<ReceivedSpan>>>,
    team: Arc<Mutex<Option<String>>>,
) {
    loop {
        let mut head = Vec::new();
        let mut line = String::new();
        while stream.read_line(&mut line).await.is_ok_and(|read| read > 2) {
            head.push(std::mem::take(&mut line));
        }
        let Some(start) = head.first() else { return };
        assert!(start.starts_with("POST /v1/traces "), "{start}");
        let header = |name: &str| {
            let pairs = head.iter().filter_map(|line| line.trim_end().split_once(": "));
            let mut found = pairs.filter(|(key, _)| key.eq_ignore_ascii_case(name));
            found.next().map(|(_, value)| value.to_owned())
        };
        assert_eq!(header("content-type").as_deref(), Some("application/x-protobuf"));
        let len = header("content-length").and_then(|len| len.parse().ok());
        let mut body = vec![0; len.expect("a length")];
        stream.read_exact(&mut body).await.expect("the whole body");
        *team.lock().expect("the header") = header("x-team");
        spans.lock().expect("the spans").extend(decode(&body));
        let reply = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(reply).await.expect("the node reads the reply");
    }
}

fn decode(body: &[u8]) -> Vec<ReceivedSpan> {
    let export = ExportTraceServiceRequest::decode(body).expect("protobuf");
    let mut received = Vec::new();
    for resource_spans in export.resource_spans {
        let mut resource = attributes(resource_spans.resource.expect("a resource").attributes);
        assert_eq!(resource["service.name"], "holdfast");
        let node = resource.remove("service.instance.id").expect("the node");
        for span in resource_spans.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            received.push(ReceivedSpan {
                node: node.clone(),
                name: span.name,
                trace: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                attributes: attributes(span.attributes),
            });
        }
    }
    received
}

fn attributes(pairs: Vec<KeyValue>) -> BTreeMap<String, String> {
    pairs.into_iter().map(|pair| (pair.key, text(pair.value))).collect()
}

fn text(value: Option<AnyValue>) -> String {
    match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a string takes it");
    }
    text
}
