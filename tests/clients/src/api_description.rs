//! What the client libraries take from `/openapi.json`: the error codes with their statuses, and the names of query parameters.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holdfast_client::{Call, Client};
use serde_json::Value;

/// The calls that client libraries send.
const CALLED: [&str; 13] = [
    "/v1/barriers",
    "/v1/counters",
    "/v1/double-barriers",
    "/v1/elections",
    "/v1/fence",
    "/v1/force-releases",
    "/v1/latches",
    "/v1/locks",
    "/v1/release-requests",
    "/v1/sessions",
    "/v1/transfers",
    "/v1/tree",
    "/v1/watch",
];

const READ_TIME: Duration = Duration::from_mins(1);

/// A part of the description of the HTTP API.
#[derive(Clone, Debug)]
pub struct ApiDescription {
    /// The error codes, in the order of the documentation.
    pub codes: Vec<String>,
    /// The status of each code that an operation names.
    pub statuses: BTreeMap<String, u16>,
    /// The query parameters of the calls that client libraries send.
    pub parameters: BTreeSet<String>,
}

impl ApiDescription {
    /// Reads the description from a node.
    ///
    /// # Errors
    /// If the node does not answer, or the description has another form.
    pub async fn read(base: &str) -> Result<Self, String> {
        let client = Client::new([base]).map_err(|error| error.to_string())?;
        // A busy machine may need longer than one call to write the description for the first time.
        let client = client.request_timeout(READ_TIME);
        let document: Value = client
            .call(&Call::get("/openapi.json"))
            .await
            .map_err(|error| format!("/openapi.json: {error}"))?;
        Self::parse(&document).ok_or_else(|| "/openapi.json has another form".to_owned())
    }

    fn parse(document: &Value) -> Option<Self> {
        let codes = texts(&document["components"]["schemas"]["ErrorCode"]["enum"]);
        let mut statuses = BTreeMap::new();
        let mut parameters = BTreeSet::new();
        for (path, operations) in document["paths"].as_object()? {
            let is_called = CALLED.iter().any(|called| path.starts_with(called));
            for operation in operations.as_object()?.values() {
                for (status, response) in operation["responses"].as_object().into_iter().flatten() {
                    let codes = codes_of(response).into_iter();
                    statuses.extend(codes.filter_map(|code| Some((code, status.parse().ok()?))));
                }
                let described = operation["parameters"].as_array().into_iter().flatten();
                let in_query =
                    described.filter(|parameter| is_called && parameter["in"] == "query");
                let names = in_query.filter_map(|parameter| parameter["name"].as_str());
                // A family of names is no name.
                parameters.extend(names.filter(|name| !name.contains('.')).map(str::to_owned));
            }
        }
        (!codes.is_empty() && !parameters.is_empty()).then_some(Self {
            codes,
            statuses,
            parameters,
        })
    }
}

fn codes_of(response: &Value) -> Vec<String> {
    let schema = &response["content"]["application/problem+json"]["schema"];
    let parts = schema["allOf"].as_array().into_iter().flatten();
    parts.flat_map(|part| texts(&part["properties"]["code"]["enum"])).collect()
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}
