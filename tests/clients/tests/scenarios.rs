//! The scenarios have the right format: the schema, names and coverage of the protocol.

use std::collections::BTreeSet;

use holdfast_tests_clients::scenario::{self, Scenario, Step};

#[test]
fn the_schema_describes_the_format() {
    let schema = schemars::schema_for!(Scenario);
    let text = serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/scenario.schema.json");
    if std::env::var_os("HOLDFAST_REWRITE").is_some() {
        std::fs::write(path, &text).expect("a writable file");
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(committed == text, "{path} is old: run this test with HOLDFAST_REWRITE=1");
}

#[test]
fn every_file_is_a_scenario_with_a_unique_name() {
    let all = scenario::all().expect("scenarios");
    let names: BTreeSet<&str> = all.iter().map(|file| file.scenario.name.as_str()).collect();
    assert_eq!(names.len(), all.len(), "two scenarios have one name");
    for file in &all {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(file.id.chars().all(is_plain), "the name of a file: {}", file.id);
        assert!(!file.scenario.name.ends_with('.'), "{}: no full stop", file.id);
        assert!(!file.scenario.steps.is_empty(), "{}: no step", file.id);
    }
}

#[test]
fn the_scenarios_use_every_call_of_the_protocol() {
    let all = scenario::all().expect("scenarios");
    let steps = all.iter().flat_map(|file| &file.scenario.steps);
    let used: BTreeSet<String> = steps
        .filter_map(|step| if let Step::Do(step) = step { Some(step.call.name()) } else { None })
        .collect();
    let readme = include_str!("../README.md");
    let table = readme.split("### Calls").nth(1).and_then(|rest| rest.split("\n- ").next());
    let rows = table.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("| `"));
    let documented: BTreeSet<String> = rows
        .flat_map(|row| row.split(" | ").next().unwrap_or_default().split(", "))
        .map(|name| name.trim_matches('`').to_owned())
        .collect();
    // The heading of the table, and what the driver sends itself.
    let own = ["do", "info", "describe", "shutdown"].map(str::to_owned);
    let missing: Vec<_> = documented.difference(&used).filter(|name| !own.contains(name)).collect();
    assert!(missing.is_empty(), "no scenario uses {missing:?}");
    let undocumented: Vec<_> = used.difference(&documented).collect();
    assert!(undocumented.is_empty(), "README.md does not have {undocumented:?}");
}
