//! The API description matches the running node: accepted parameters, required parameters and bounds.

use serde_json::Value;

use crate::described::operations;
use crate::node::Node;

/// A call built from the description's examples, with path variables and required parameters except `without`.
fn target(path: &str, operation: &Value, without: &str) -> String {
    let (mut path, mut query) = (path.to_owned(), String::new());
    for parameter in parameters(operation) {
        let (name, location) =
            (parameter["name"].as_str().unwrap(), parameter["in"].as_str().unwrap());
        let example = &parameter["schema"]["examples"][0];
        let example = example.as_str().map_or_else(|| example.to_string(), str::to_owned);
        match location {
            "path" => path = path.replace(&format!("{{{name}}}"), &example),
            "query" if parameter["required"] == true && name != without => {
                query.extend(["&", name, "=", &example]);
            }
            _ => {}
        }
    }
    format!("{path}?{query}")
}

fn parameters(operation: &Value) -> impl Iterator<Item = &Value> {
    operation["parameters"].as_array().unwrap().iter()
}

/// Returns the names of the query parameters, and of the fields that only a body has.
fn described(operation: &Value) -> Vec<&str> {
    let query = parameters(operation).filter(|parameter| parameter["in"] == "query");
    let query = query.map(|parameter| parameter["name"].as_str().unwrap());
    let body = operation["requestBody"]["content"]["application/json"]["schema"]["properties"]
        .as_object()
        .into_iter()
        .flat_map(|properties| properties.keys().map(String::as_str))
        .filter(|name| *name != "labels");
    let mut names: Vec<&str> = query.chain(body).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The error for an unknown parameter lists the accepted ones.
#[tokio::test]
async fn each_call_accepts_exactly_the_described_parameters() {
    let node = Node::start().await;
    for (method, path, operation) in operations() {
        // These two calls ignore their parameters.
        if ["/metrics", "/errors/{code}"].contains(&path) {
            assert!(described(operation).is_empty(), "{path}");
            continue;
        }
        let target = target(path, operation, "").replace('?', "?qqqq=1");
        let reply = node.call(&method.to_uppercase(), &target).await;
        let problem = reply.problem(400, "invalid-argument");
        let hint = problem["hint"].as_str().unwrap();
        let mut accepted: Vec<&str> = match hint.split_once(" takes ") {
            Some((_, "no parameters")) => Vec::new(),
            Some((_, list)) => list.split(", ").collect(),
            None => panic!("{method} {path}: {hint}"),
        };
        accepted.sort_unstable();
        assert_eq!(described(operation), accepted, "{method} {path}");
    }
}

#[tokio::test]
async fn a_call_without_a_required_parameter_is_rejected() {
    let node = Node::start().await;
    for (method, path, operation) in operations() {
        let needed = parameters(operation)
            .filter(|parameter| parameter["in"] == "query" && parameter["required"] == true);
        for parameter in needed {
            let name = parameter["name"].as_str().unwrap();
            let target = target(path, operation, name);
            let problem = node.call(&method.to_uppercase(), &target).await;
            assert_eq!(problem.problem(400, "invalid-argument")["parameter"], name);
        }
    }
}

/// Returns values at a parameter's bounds, and values beyond them.
fn values_at_bounds(parameter: &Value) -> (Vec<String>, Vec<String>) {
    let schema = &parameter["schema"];
    let about = parameter["description"].as_str().unwrap();
    let bounds = about.rsplit_once("Duration: ").map(|(_, bounds)| bounds.trim_end_matches('.'));
    let bounds = bounds.map(|bounds| bounds.trim_end_matches(", or off"));
    if let Some((min, max)) = bounds.and_then(|bounds| bounds.split_once(" to ")) {
        let mut beyond = vec![format!("{max}1ms"), "10".to_owned()];
        if min == "1s" {
            beyond.push("999ms".to_owned());
        }
        return (vec![min.to_owned(), max.to_owned()], beyond);
    }
    if let (Some(min), Some(max)) = (schema["minimum"].as_u64(), schema["maximum"].as_u64()) {
        let below = min.checked_sub(1).map(|below| below.to_string());
        let beyond = [Some((max + 1).to_string()), below, Some("x".to_owned())];
        return (vec![min.to_string(), max.to_string()], beyond.into_iter().flatten().collect());
    }
    if let Some(words) = schema["enum"].as_array() {
        let words = words.iter().map(|word| word.as_str().unwrap().to_owned());
        return (words.collect(), vec!["qqqq".to_owned()]);
    }
    match (schema["type"].as_str(), schema["maxLength"].as_u64()) {
        (Some("boolean"), _) => {
            (vec!["true".to_owned(), "false".to_owned()], vec!["qqqq".to_owned()])
        }
        (Some("string"), Some(max)) => {
            let long = |len: u64| "n".repeat(usize::try_from(len).unwrap());
            (vec![long(1), long(max)], vec![long(max + 1)])
        }
        _ => (Vec::new(), Vec::new()),
    }
}

/// True if the reply rejects the value of this parameter.
fn names_as_cause(reply: &crate::client::Reply, name: &str) -> bool {
    let of_value = ["invalid-argument", "bad-duration", "bad-name"];
    if reply.status != 400 {
        return false;
    }
    let problem = reply.json();
    of_value.iter().any(|code| problem["code"] == *code)
        && problem["parameter"].as_str().is_none_or(|parameter| parameter == name)
}

#[tokio::test]
async fn values_beyond_the_described_bounds_are_rejected_and_values_within_them_are_accepted() {
    let node = Node::start().await;
    let mut tried = 0;
    for (method, path, operation) in operations() {
        let in_query = parameters(operation).filter(|parameter| parameter["in"] == "query");
        for parameter in in_query.filter(|parameter| parameter["name"] != "label.KEY") {
            let name = parameter["name"].as_str().unwrap();
            let (good, bad) = values_at_bounds(parameter);
            let mut ask = async |value: &str| {
                tried += 1;
                // A new lock for each call, so that no call queues.
                let base = target(path, operation, name).replace("/orders", &format!("/o{tried}"));
                // Other parameters that this one requires. With `since=0`, a watch returns earlier changes at once.
                let beside = match (path, name) {
                    ("/v1/watch", "since") => "&prefix=/",
                    ("/v1/watch", "wait") => "&prefix=/locks&since=0",
                    ("/v1/watch", _) => "&since=0",
                    ("/v1/tree/{path}", "limit") => "&children",
                    ("/v1/sessions/{id}", "reason") => "&force",
                    ("/v1/sessions/{id}", "force") => "&reason=r",
                    ("/v1/policies/{name}", "redirect" | "session") if method == "patch" => {
                        "&limit=1"
                    }
                    ("/v1/policies/{name}", "request") if method == "patch" => {
                        "&limit=1&session=me"
                    }
                    ("/v1/members/{id}", "request") if method == "patch" => "&zone=b&session=me",
                    ("/v1/members/{id}", "force" | "dry_run" | "redirect" | "session")
                        if method == "patch" =>
                    {
                        "&zone=b"
                    }
                    ("/v1/sessions/{id}", "attempt" | "incarnation")
                    | ("/v1/sessions/{id}/keepalive", "incarnation") => "",
                    (_, "change") => "&session=me&attempt=9223372036854775807",
                    (_, "request" | "attempt" | "incarnation") if !base.contains("session=") => {
                        "&session=me"
                    }
                    ("/v1/tree/{path}", "ephemeral") | ("/v1/release-requests/{name}", "owner") => {
                        "&session=me"
                    }
                    ("/v1/locks/{name}", "reason") => "&hold=durable&owner=o&attempt=1",
                    ("/v1/latches/{name}" | "/v1/counters/{name}", "session") => "&request=1",
                    _ => "",
                };
                let waits = name != "wait" && described(operation).contains(&"wait");
                let at_once = if waits { "&wait=0s" } else { "" };
                let target = format!("{base}{beside}{at_once}&{name}={value}");
                // Each call has its own session, so that no request id of an earlier call repeats its reply.
                let target = target.replace("session=me", &format!("session=me{tried}"));
                let body = if path == "/v1/txn" { r#"{"then":[]}"# } else { "" };
                let reply = node.call_json(&method.to_uppercase(), &target, body).await;
                (names_as_cause(&reply, name), format!("{method} {target}: {reply:?}"))
            };
            node.call("PUT", "/v1/locks/noise?session=noise").await;
            for value in bad {
                let (blamed, call) = ask(&value).await;
                assert!(blamed, "accepted although out of bounds: {call}");
            }
            // No event ends the wait of these calls, so only `wait=0s` is tried.
            let endless = name == "wait" && !["/v1/watch", "/v1/locks/{name}"].contains(&path);
            // `sequential=false` is rejected. The response to `hold=connection` has no end.
            let good = good.iter().filter(|value| {
                ![("sequential", "false"), ("hold", "connection")].contains(&(name, value.as_str()))
                    && (!endless || *value == "0s")
            });
            for value in good {
                let (blamed, call) = ask(value).await;
                assert!(!blamed, "rejected although within bounds: {call}");
            }
        }
    }
    assert!(tried > 200, "{tried}");
}

#[tokio::test]
async fn the_description_and_its_page_are_served_and_load_no_other_resources() {
    let node = Node::start().await;
    let document = node.call("GET", "/openapi.json").await;
    assert_eq!(document.json()["openapi"], "3.1.0");
    let page = node.call("GET", "/docs").await;
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    for target in ["/openapi.json?x=1", "/docs?x=1"] {
        node.call("GET", target).await.problem(400, "invalid-argument");
    }
}

#[tokio::test]
async fn an_error_code_has_an_explanation_as_text_and_as_html() {
    let node = Node::start().await;
    let target = "/errors/lock-busy";
    let text = node.call("GET", target).await;
    assert!(text.body.starts_with("lock-busy: ") && text.body.contains("\nstatus 423; "));
    let headers = [("Accept", "text/html,*/*;q=0.8")];
    let page = crate::client::call_with(node.address, "GET", target, &headers, "").await;
    assert!(page.body.contains("<h1>lock-busy: ") && page.body.contains("PUT /v1/locks/{name}"));
    let problem = node.call("GET", "/errors/lock-bussy").await.problem(404, "not-found");
    assert!(problem["detail"].as_str().unwrap().contains("did you mean 'lock-busy'?"));
    let long = node.call("GET", &format!("/errors/{}", "x".repeat(5_000))).await;
    assert!(long.body.len() < 400, "{long:?}");
}
