//! The Rust client has the names of the table, and the files that are written from the description of the API are current.
//! `scripts/clients` compares the other libraries.

use std::path::Path;

use holdfast_lab::Cluster;
use holdfast_tests_clients::api_description::ApiDescription;
use holdfast_tests_clients::generated;
use holdfast_tests_clients::names::{self, Description, NameTable};
use holdfast_tests_clients::rejections;
use serde_json::json;

const ADAPTER: &str = env!("CARGO_BIN_EXE_rust-adapter");

async fn differences(change: impl Fn(&mut NameTable, &mut Description)) -> Vec<String> {
    let mut table = NameTable::read().expect("a table");
    let mut found = names::describe(ADAPTER).await.expect("a description");
    change(&mut table, &mut found);
    table.differences("rust", &found).expect("a language")
}

#[tokio::test]
async fn the_rust_client_has_the_names_and_defaults_of_the_table() {
    assert_eq!(differences(|_, _| {}).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_changed_default_a_missing_and_a_new_option_are_found() {
    let found = differences(|_, found| {
        let options = found.get_mut("client_options").expect("options");
        options
            .get_mut("request_timeout")
            .expect("an option")
            .insert("default".into(), json!(9000));
        options.remove("ttl");
        options.insert("linger".into(), serde_json::Map::new());
    });
    let expected = [
        "client_options: request_timeout: default is 9000, the table has 10000",
        "client_options: ttl is missing",
        "client_options: the table has no linger",
    ];
    assert_eq!(found.await, expected);
}

#[tokio::test]
async fn a_changed_default_of_the_table_is_found() {
    let found = differences(|table, _| {
        let options = table.sections.get_mut("client_options").expect("options");
        let prefix = options.iter_mut().find(|option| option.name == "session_prefix");
        prefix.expect("an option").attributes.insert("default".into(), json!("client"));
    });
    let expected = [r#"client_options: session_prefix: default is "sdk", the table has "client""#];
    assert_eq!(found.await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_error_code_becomes_the_error_of_the_table() {
    let cluster = Cluster::of(1).start().await;
    let api = ApiDescription::read(cluster.nodes()[0].http.base()).await.expect("a description");
    let table = NameTable::read().expect("a table");
    let named = table.sections["errors"].iter().flat_map(|error| &error.codes);
    let unknown: Vec<_> = named.filter(|code| !api.codes.contains(code)).collect();
    assert!(unknown.is_empty(), "the API has no code {unknown:?}");
    let found = rejections::differences(&table, &api, ADAPTER).await.expect("answers");
    assert_eq!(found, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_with_codes_and_parameters_are_those_of_the_description() {
    let cluster = Cluster::of(1).start().await;
    let api = ApiDescription::read(cluster.nodes()[0].http.base()).await.expect("a description");
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
    let mut old = Vec::new();
    for (name, content) in generated::files(&api) {
        let path = crates.join(name);
        if std::env::var_os("HOLDFAST_REWRITE").is_some() {
            std::fs::write(&path, &content).expect("a writable file");
        }
        if std::fs::read_to_string(&path).unwrap_or_default() != content {
            old.push(name);
        }
    }
    assert!(old.is_empty(), "run this test with HOLDFAST_REWRITE=1: {old:?}");
}
