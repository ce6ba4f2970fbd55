//! The format of scenarios. `scenario.schema.json` is derived from these types.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::protocol::Call;

/// One scenario.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The schema, for editors.
    #[serde(rename = "$schema", default)]
    pub schema: Option<String>,
    /// What holds, as a sentence without a full stop. The file has the same words.
    pub name: String,
    /// The group in the matrix.
    pub group: Group,
    /// Whether the default tests play the scenario.
    #[serde(default)]
    pub quick: bool,
    /// The cluster.
    #[serde(default)]
    pub cluster: ClusterOptions,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Checks that do not hold in this scenario, with the reason.
    #[serde(default)]
    pub unchecked: BTreeMap<CheckName, String>,
}

/// A group of scenarios.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Acquire and release.
    Acquiring,
    /// Queues, positions and cancellation.
    Waiting,
    /// Expiry, force-release, limits of holds.
    Loss,
    /// Release requests.
    ReleaseRequests,
    /// Transfers to other sessions.
    Transfers,
    /// Lost answers and late copies.
    Retries,
    /// Nodes that are frozen, killed or cut off.
    Nodes,
    /// The client's process is stopped, blocked or forked.
    Process,
    /// Re-entry and owners.
    ReEntry,
    /// Shared holds, permits and multi-locks.
    Modes,
    /// Elections.
    Elections,
    /// Latches, barriers, counters and groups.
    Recipes,
    /// The tree and its watches.
    Tree,
    /// Access tokens and TLS.
    Security,
    /// Names and errors.
    Errors,
    /// Closed clients and ended programs.
    Shutdown,
}

/// The cluster of a scenario.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterOptions {
    /// The number of nodes.
    pub nodes: u64,
    /// HTTPS with certificates of a new authority.
    pub tls: bool,
    /// Calls need an access token. `$operator.secret` is the operator's.
    pub auth: bool,
    /// Every node has its own wall clock, which `clock` changes.
    pub clocks: bool,
    /// More configuration of every node, in TOML.
    pub config: String,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self { nodes: 1, tls: false, auth: false, clocks: false, config: String::new() }
    }
}

/// One step: exactly one of the keys `do`, `await`, `event`, `no_event`, `fault`, `operator`, `lock_has` or `calls`.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub enum Step {
    /// Sends a call to an adapter.
    Do(CallStep),
    /// Waits for the answer of a call that was begun.
    Await(AwaitStep),
    /// Waits for an event.
    Event(EventStep),
    /// Waits, and fails if the event comes.
    NoEvent(NoEventStep),
    /// Injects a fault.
    Inject(FaultStep),
    /// Sends an operator's HTTP call to the cluster.
    Operator(OperatorStep),
    /// Waits until a lock has these numbers of holders and waiters.
    LockHas(LockHasStep),
    /// Compares the number of calls that the proxies have seen.
    Calls(CallsStep),
}

/// Sends a call to an adapter.
#[derive(Clone, Debug, JsonSchema)]
pub struct CallStep {
    /// The call with its fields.
    #[schemars(flatten)]
    pub call: Call,
    /// How the driver sends it.
    #[schemars(flatten)]
    pub sending: CallSending,
    /// What the driver expects.
    #[schemars(flatten)]
    pub outcome: Outcome,
}

/// How the driver sends a call.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CallSending {
    /// The adapter's process; `a` by default.
    pub on: Option<String>,
    /// The name of the request. The driver does not wait for the answer.
    pub begin: Option<String>,
    /// The nodes that a new client knows; by default all.
    pub nodes: Vec<u64>,
}

/// What the driver expects of an answer.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Outcome {
    /// The error's `error` (kind), `code`, `cause` and `retryable`; otherwise fields of `ok`.
    pub expect: Map<String, Value>,
    /// The name of the answer in later steps.
    pub save: Option<String>,
    /// The longest time to the answer.
    pub within_ms: Option<u64>,
    /// The shortest time to the answer.
    pub at_least_ms: Option<u64>,
}

/// Waits for the answer of a call that was begun.
#[derive(Clone, Debug, JsonSchema)]
pub struct AwaitStep {
    /// The name of the request.
    #[schemars(rename = "await")]
    pub request: String,
    /// What the driver expects. Times count from this step.
    #[schemars(flatten)]
    pub outcome: Outcome,
}

/// Waits for an event.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct EventStep {
    /// The event. Earlier events count unless a step has waited for them.
    pub event: String,
    /// The adapter's process; `a` by default.
    #[serde(default)]
    pub on: Option<String>,
    /// The longest time to the event, by default 10 s.
    #[serde(default)]
    pub within_ms: Option<u64>,
    /// The name of the event in later steps.
    #[serde(default)]
    pub save: Option<String>,
    /// The fields that the event must have.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

/// Waits, and fails if the event comes or has come.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct NoEventStep {
    /// The event.
    pub no_event: String,
    /// The adapter's process; `a` by default.
    #[serde(default)]
    pub on: Option<String>,
    /// How long to wait.
    pub for_ms: u64,
    /// The fields of the event.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

/// Which node: an id, `leader`, `follower`, or a name that an earlier fault saved.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum NodeChoice {
    /// From 1.
    Id(u64),
    /// `leader`, `follower`, or a saved name.
    Named(String),
}

/// Injects a fault.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(tag = "fault", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FaultStep {
    /// Kills a node (SIGKILL).
    Kill { node: NodeChoice, save: Option<String> },
    /// Stops a node in order (SIGTERM).
    Stop { node: NodeChoice, save: Option<String> },
    /// Freezes a node (SIGSTOP).
    Freeze { node: NodeChoice, save: Option<String> },
    /// Continues a frozen node (SIGCONT).
    Thaw { node: NodeChoice },
    /// Starts a node that is not running, and waits until it is ready.
    Start { node: NodeChoice },
    /// Kills all nodes at once and starts them again. Waits until they are ready.
    RestartAll {},
    /// Sets the wall clock of a node ahead, or back.
    Clock { node: NodeChoice, ahead_ms: i64 },
    /// Closes the connections of a client to a node, or all nodes, and refuses new ones.
    Cut { client: String, node: Option<NodeChoice> },
    /// Holds the bytes between a client and a node, or all nodes. Connections stay open.
    Hold { client: String, node: Option<NodeChoice> },
    /// Delays each answer of the nodes to a client.
    Delay { client: String, node: Option<NodeChoice>, ms: u64 },
    /// Ends cuts, holds and delays of a client.
    Heal { client: String },
    /// Closes the connection instead of forwarding the answer to the next calls that begin with a text, e.g. `PUT /v1/locks/`.
    LoseAnswer { client: String, call: String, times: u32 },
    /// Answers the next calls that begin with a text; no node gets them.
    FalseAnswer { client: String, call: String, times: u32, status: u16, body: Value },
    /// Sends the recorded calls that begin with a text again, to a node.
    Repeat { client: String, call: String },
    /// Stops the process of an adapter (SIGSTOP), and continues it after a time.
    StopAdapter { on: Option<String>, for_ms: Option<u64> },
    /// Continues the process of an adapter (SIGCONT).
    ContinueAdapter { on: Option<String> },
    /// Kills the process of an adapter (SIGKILL).
    KillAdapter { on: Option<String> },
    /// Writes a file; `$dir/NAME` is its path in other steps.
    File { name: String, text: String },
    /// Waits.
    Wait { ms: u64 },
}

/// Sends an HTTP call of an operator.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperatorStep {
    /// Method and target, e.g. `POST /v1/force-releases/a?reason=test`.
    pub operator: String,
    /// The body, as JSON.
    #[serde(default)]
    pub body: Option<Value>,
    /// The status; by default any success.
    #[serde(default)]
    pub status: Option<u16>,
    /// Fields of the answer.
    #[serde(default)]
    pub expect: Map<String, Value>,
    /// The name of the answer in later steps.
    #[serde(default)]
    pub save: Option<String>,
    /// Repeats the call until the answer is as expected.
    #[serde(default)]
    pub within_ms: Option<u64>,
}

/// Waits until a lock has these numbers of holders and waiters.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LockHasStep {
    /// The lock.
    pub lock_has: String,
    /// The number of holders.
    #[serde(default)]
    pub holders: Option<u64>,
    /// The number of waiters.
    #[serde(default)]
    pub waiters: Option<u64>,
    /// The longest time, by default 5 s.
    #[serde(default)]
    pub within_ms: Option<u64>,
}

/// Compares the number of calls that the proxies of a client have seen.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallsStep {
    /// The beginning of the calls, e.g. `PUT /v1/locks/a`.
    pub calls: String,
    /// The client.
    pub client: String,
    /// The smallest number.
    #[serde(default)]
    pub min: Option<usize>,
    /// The largest number.
    #[serde(default)]
    pub max: Option<usize>,
}

/// A check of the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckName {
    /// At most one exclusive holder in log order.
    OneHolder,
    /// Tokens grow with the log.
    TokensGrow,
    /// The loss is reported before the next grant.
    LossBeforeGrant,
    /// No holder and no waiter is left.
    EmptyQueues,
}

/// The keys of [`CallSending`] and of [`Outcome`], which are no fields of a call.
const SENDING: [&str; 3] = ["on", "begin", "nodes"];
const OUTCOME: [&str; 4] = ["expect", "save", "within_ms", "at_least_ms"];

type Parsed<T> = Result<T, serde_json::Error>;
type ParseStep = fn(Value) -> Parsed<Step>;

impl<'de> Deserialize<'de> for Step {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Map::deserialize(deserializer)?;
        let text = Value::Object(fields.clone());
        step_of(fields).map_err(|error| serde::de::Error::custom(format!("{error} in {text}")))
    }
}

fn step_of(mut fields: Map<String, Value>) -> Parsed<Step> {
    if fields.contains_key("do") {
        let (sending, outcome) = (take(&mut fields, &SENDING)?, take(&mut fields, &OUTCOME)?);
        let call = serde_json::from_value(fields.into())?;
        return Ok(Step::Do(CallStep { call, sending, outcome }));
    }
    if fields.contains_key("await") {
        let outcome = take(&mut fields, &OUTCOME)?;
        let BegunRequest { request } = serde_json::from_value(fields.into())?;
        return Ok(Step::Await(AwaitStep { request, outcome }));
    }
    let kinds: [(&str, ParseStep); 6] = [
        ("event", |step| serde_json::from_value(step).map(Step::Event)),
        ("no_event", |step| serde_json::from_value(step).map(Step::NoEvent)),
        ("fault", |step| serde_json::from_value(step).map(Step::Inject)),
        ("operator", |step| serde_json::from_value(step).map(Step::Operator)),
        ("lock_has", |step| serde_json::from_value(step).map(Step::LockHas)),
        ("calls", |step| serde_json::from_value(step).map(Step::Calls)),
    ];
    let kind = kinds.into_iter().find(|(key, _)| fields.contains_key(*key));
    let (_, parse) = kind.ok_or_else(|| serde::de::Error::custom("a step of no known kind"))?;
    parse(Value::Object(fields))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BegunRequest {
    #[serde(rename = "await")]
    request: String,
}

/// Removes some keys, and parses them as one value.
fn take<T: DeserializeOwned>(fields: &mut Map<String, Value>, keys: &[&str]) -> Parsed<T> {
    let taken = keys.iter().filter_map(|key| fields.remove_entry(*key)).collect();
    serde_json::from_value(Value::Object(taken))
}

/// A scenario with the name of its file, without its ending.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    /// The short name, e.g. `frozen-leader`.
    pub id: String,
    /// The content.
    pub scenario: Scenario,
}

/// The folder with the scenarios.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

/// Reads all scenarios, in the order of their names.
///
/// # Errors
/// The file that is not a scenario, and why.
pub fn all() -> Result<Vec<ScenarioFile>, String> {
    let entries = std::fs::read_dir(folder()).map_err(|error| error.to_string())?;
    let paths: Result<Vec<PathBuf>, _> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(|error| error.to_string())?;
    paths.sort();
    paths
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .map(|path| read(path))
        .collect()
}

fn read(path: &Path) -> Result<ScenarioFile, String> {
    let says = |error: String| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| says(error.to_string()))?;
    let scenario = serde_json::from_str(&text).map_err(|error| says(error.to_string()))?;
    let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(ScenarioFile { id, scenario })
}
