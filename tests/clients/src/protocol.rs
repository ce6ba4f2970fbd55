//! The protocol between the driver and an adapter: one JSON object a line, requests to the adapter, answers and events
//! from it. `README.md` has the same protocol for authors of adapters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A request to an adapter.
#[derive(Clone, Debug, Serialize)]
pub struct Request {
    /// Unique in the adapter's process.
    pub id: u64,
    /// The call.
    #[serde(flatten)]
    pub call: Call,
}

impl Request {
    /// Parses a line of the adapter's input.
    ///
    /// # Errors
    /// What is wrong with the line, and its id if it has one.
    pub fn parse(line: &str) -> Result<Self, (u64, String)> {
        let mut fields: Map<String, Value> =
            serde_json::from_str(line).map_err(|error| (0, error.to_string()))?;
        let id = fields.remove("id").and_then(|id| id.as_u64());
        let id = id.ok_or_else(|| (0, "the request has no id".to_owned()))?;
        let call = serde_json::from_value(Value::Object(fields));
        call.map(|call| Self { id, call }).map_err(|error| (id, error.to_string()))
    }
}

/// The options of a client. Absent options have the defaults of the client library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientOptions {
    /// The adapter's name of the client.
    pub name: String,
    /// The nodes' addresses. The driver adds those of its proxies.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// How long a dead client's locks stay held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// A named session, which the client never replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The prefix of a generated session name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_prefix: Option<String>,
    /// Labels of the session.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub labels: Map<String, Value>,
    /// The total time of a call, without the wait for a lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_timeout_ms: Option<u64>,
    /// The path of the certificates of trusted authorities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// The path of the client's certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// The path of the private key of `certificate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// An access token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_token: Option<String>,
    /// The path of a file with an access token. The client reads it again when a node rejects the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_token_file: Option<String>,
}

/// The options of an acquire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquireOptions {
    /// The client.
    pub client: String,
    /// The lock's name.
    pub lock: String,
    /// The adapter keeps the guard under this name.
    pub guard: String,
    /// The longest wait in the queue. Absent: without bound. 0: only a free lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// `exclusive` (the default), `shared` or `upgradable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<LockMode>,
    /// The permits of a semaphore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permits: Option<u32>,
    /// The limit of a semaphore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// From 0 to 9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// The owner within the session. Absent: unique for each guard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Whether another acquire of the same owner enters the hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reentrant: Option<bool>,
    /// The longest queue to join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_max: Option<u32>,
    /// The longest hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_hold_ms: Option<u64>,
    /// The shortest time from one grant to the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_hold_ms: Option<u64>,
    /// A text for readers of the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The longest time between two reports of progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_timeout_ms: Option<u64>,
    /// The time-to-live of the session that the acquire opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// The number of shards of a sharded lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<u32>,
    /// One shard of a sharded lock. Absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<u32>,
}

/// The mode of a hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LockMode {
    /// Excludes every other hold.
    #[default]
    Exclusive,
    /// Excludes exclusive holds.
    Shared,
    /// Excludes exclusive and upgradable holds.
    Upgradable,
}

/// The calls of an adapter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Call {
    /// Names the language and what the client does not support.
    Info {},
    /// Describes the names of the client: sections of names, each with its attributes.
    Describe {},
    /// Creates a client. Sends nothing.
    Client(Box<ClientOptions>),
    /// Opens the client's session, and keeps it open until the client closes: `{session}`.
    OpenSession { client: String },
    /// Acquires a lock: `{token, session, lock}`; `lock` names the shard of a sharded lock.
    Acquire(Box<AcquireOptions>),
    /// Acquires several locks, all or none: `{tokens: {lock: token}, session}`.
    AcquireMany {
        client: String,
        locks: Vec<String>,
        guard: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait_ms: Option<u64>,
    },
    /// Cancels a pending request, which then answers `cancelled`. A scenario names the step (`begin`), the line has the id.
    Cancel { request: Value },
    /// Releases a guard, or resigns. Fails with `lost` if the guard was lost.
    Release { guard: String },
    /// Fails with `lost` if the guard is lost.
    Ensure { guard: String },
    /// The time until the guard's deadline: `{remaining_ms}`.
    Remaining { guard: String },
    /// Reports progress.
    ReportProgress { guard: String },
    /// Turns an upgradable hold into an exclusive one: `{token}`.
    Upgrade {
        guard: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait_ms: Option<u64>,
    },
    /// Turns a hold into a weaker one.
    Downgrade {
        guard: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<LockMode>,
    },
    /// Transfers a hold to another session: `{token}`. After a refusal the guard keeps its name.
    Transfer {
        guard: String,
        to: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<String>,
    },
    /// Waits for a transferred hold: `{token, session}`; `busy` if none arrives.
    ReceiveTransfer {
        client: String,
        lock: String,
        guard: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait_ms: Option<u64>,
    },
    /// Releases some permits of a guard.
    ReleasePermits { guard: String, permits: u32 },
    /// The headers for a service that checks fencing tokens: `{headers: {name: value}}`.
    Headers { guard: String },
    /// Waits until the client leads: `{token, session}`.
    Campaign {
        client: String,
        election: String,
        guard: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait_ms: Option<u64>,
    },
    /// Reports each leader by an event, the current one first.
    Observe { client: String, election: String, observer: String },
    /// Ends the observer.
    Unobserve { observer: String },
    /// Creates a latch.
    LatchSet { client: String, name: String, count: u32 },
    /// Counts a latch down once: `{left}`.
    LatchCountDown { client: String, name: String },
    /// Waits until a latch opens; `busy` if it does not.
    LatchWait { client: String, name: String, wait_ms: u64 },
    /// Waits for the other parties; `busy` if they do not come.
    BarrierWait { client: String, name: String, parties: u32, wait_ms: u64 },
    /// Enters a double barrier with the other parties.
    DoubleBarrierEnter { client: String, name: String, parties: u32, wait_ms: u64 },
    /// Leaves a double barrier with the other parties.
    DoubleBarrierLeave { client: String, name: String, wait_ms: u64 },
    /// Adds to a counter: `{value}`.
    CounterAdd { client: String, name: String, add: i64 },
    /// Joins a group: `{session}`. The adapter keeps the membership under the name `member`.
    GroupJoin { client: String, group: String, member: String, value: String },
    /// Replaces the value of a membership.
    GroupSetValue { member: String, value: String },
    /// Leaves a group.
    GroupLeave { member: String },
    /// Reads the members of a group: `{members: {session: value}}`.
    GroupMembers { client: String, group: String },
    /// Reports the members of a group by an event, now and after each change. `unwatch` ends it.
    GroupWatch { client: String, group: String, watcher: String },
    /// Reads a node of the tree: `{value, version}`, or `{value: null}` if it does not exist.
    TreeGet { client: String, path: String },
    /// Writes a node, and creates it if it is absent: `{version}`. With `version`, only that version.
    TreePut {
        client: String,
        path: String,
        value: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<Value>,
    },
    /// Deletes a node. With `version`, only that version.
    TreeDelete {
        client: String,
        path: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<Value>,
    },
    /// Reports each later change below a prefix by an event. Answers when no later change can be missed.
    Watch { client: String, prefix: String, watcher: String },
    /// Ends the watcher.
    Unwatch { watcher: String },
    /// Reads a lock: `{holders: [{session, token}], waiters}`.
    LockState { client: String, lock: String },
    /// Ends every hold of a lock.
    ForceRelease { client: String, lock: String, reason: String },
    /// Asks the holders to release the lock. With `revoke`, the cluster ends the holds at the deadline.
    RequestRelease {
        client: String,
        lock: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline_ms: Option<u64>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        revoke: bool,
    },
    /// Blocks the event loop, or every thread that runs the caller's code.
    Block { ms: u64 },
    /// Forks. The child uses `client` to acquire `lock` once, and answers `{pid, token, session}` on the same output.
    Fork { client: String, lock: String },
    /// Closes a client, which releases everything it holds.
    Close { client: String },
    /// Closes every client, and ends the program with exit code 0.
    Shutdown {},
}

impl Call {
    /// The word after `do`.
    pub fn name(&self) -> String {
        let fields = serde_json::to_value(self).unwrap_or_default();
        fields["do"].as_str().unwrap_or_default().to_owned()
    }

    /// The words that `info` may list as unsupported: the call, and the call with each option.
    pub fn needs(&self) -> Vec<String> {
        let fields = serde_json::to_value(self).unwrap_or_default();
        let name = self.name();
        let options = fields.as_object().into_iter().flat_map(Map::keys);
        let options: Vec<String> = options.map(|option| format!("{name}.{option}")).collect();
        [name].into_iter().chain(options).collect()
    }
}

/// What kind of error an adapter answers: what the caller may do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// Another client holds the lock, or the awaited event has not happened.
    Busy,
    /// The guard is lost.
    Lost,
    /// No node executed the call in time.
    Unavailable,
    /// The call may have had an effect.
    OutcomeUnknown,
    /// The cluster rejected the call.
    Rejected,
    /// The answer is not from a holdfast node.
    UnexpectedResponse,
    /// Nothing was sent.
    InvalidArgument,
    /// A `cancel` ended the call.
    Cancelled,
    /// The client does not have this call or option.
    Unsupported,
}

/// The error of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerError {
    /// The kind.
    pub kind: ErrorKind,
    /// The code of the problem document, if a node sent one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// As in the problem document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// For readers.
    #[serde(default)]
    pub message: String,
    /// Why a guard was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// A line from an adapter.
#[derive(Clone, Debug, PartialEq)]
pub enum AdapterLine {
    /// The answer to a request.
    Answer {
        /// The request's id.
        id: u64,
        /// The fields of `ok`, or the error.
        result: Result<Value, AnswerError>,
    },
    /// An event, with all its fields.
    Event(Map<String, Value>),
}

impl AdapterLine {
    /// Parses a line of the adapter's output.
    ///
    /// # Errors
    /// What is wrong with the line.
    pub fn parse(line: &str) -> Result<Self, String> {
        let mut fields: Map<String, Value> =
            serde_json::from_str(line).map_err(|error| error.to_string())?;
        if fields.get("event").is_some_and(Value::is_string) {
            return Ok(Self::Event(fields));
        }
        let id = fields.get("id").and_then(Value::as_u64).ok_or("neither `event` nor `id`")?;
        let result = match (fields.remove("ok"), fields.remove("error")) {
            (Some(ok), None) if ok.is_object() => Ok(ok),
            (None, Some(error)) => {
                Err(serde_json::from_value(error).map_err(|error| error.to_string())?)
            }
            (Some(_) | None, _) => return Err("neither an object `ok` nor an `error`".to_owned()),
        };
        Ok(Self::Answer { id, result })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_line_with_its_call() {
        let call = Call::Release { guard: "g1".into() };
        let line = serde_json::to_string(&Request { id: 7, call }).expect("JSON");
        assert_eq!(line, r#"{"id":7,"do":"release","guard":"g1"}"#);
        assert_eq!(Request::parse(&line).expect("a request").id, 7);
    }

    #[test]
    fn an_unknown_option_is_an_error_with_the_id_of_the_request() {
        let line = r#"{"id":7,"do":"acquire","client":"c","lock":"a","guard":"g","wait":1}"#;
        let (id, message) = Request::parse(line).expect_err("an unknown option");
        assert_eq!(id, 7);
        assert!(message.contains("wait"), "{message}");
    }

    #[test]
    fn answers_and_events_are_told_apart() {
        let event = r#"{"event":"lost","guard":"g1"}"#;
        assert!(matches!(AdapterLine::parse(event), Ok(AdapterLine::Event(_))));
        let answer = r#"{"id":1,"error":{"kind":"outcome-unknown"}}"#;
        let Ok(AdapterLine::Answer { id: 1, result: Err(error) }) = AdapterLine::parse(answer)
        else {
            panic!("an error");
        };
        assert_eq!(error.kind, ErrorKind::OutcomeUnknown);
        assert!(AdapterLine::parse("hello").is_err());
        assert!(AdapterLine::parse(r#"{"id":1}"#).is_err());
        assert!(AdapterLine::parse(r#"{"id":1,"ok":3}"#).is_err());
    }

    #[test]
    fn a_call_needs_its_options() {
        let options = AcquireOptions { wait_ms: Some(0), ..AcquireOptions::default() };
        let needs = Call::Acquire(Box::new(options)).needs();
        assert!(needs.contains(&"acquire".to_owned()), "{needs:?}");
        assert!(needs.contains(&"acquire.wait_ms".to_owned()), "{needs:?}");
        assert!(!needs.contains(&"acquire.mode".to_owned()), "{needs:?}");
    }
}
