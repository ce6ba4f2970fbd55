//! Every limitation in the catalogue has a test that demonstrates it, and the command that the page names exists.

use holdfast_measure::Limitation;
use holdfast_measure::plays::{ROWS, named};

/// The sources with the tests.
const SOURCES: [&str; 5] = [
    include_str!("redis.rs"),
    include_str!("redisson.rs"),
    include_str!("redlock.rs"),
    include_str!("sql.rs"),
    include_str!("clusters.rs"),
];

#[test]
fn every_limitation_is_shown_by_a_test_that_exists() {
    for limitation in Limitation::ALL {
        let function = format!("async fn {}(", limitation.test());
        let found = SOURCES.iter().any(|source| source.contains(&function));
        assert!(found, "{limitation:?}: there is no `{function}`");
    }
}

#[test]
fn the_command_of_a_limitation_shows_something() {
    for command in Limitation::ALL.iter().filter_map(|limitation| limitation.command()) {
        let words: Vec<&str> = command.split(' ').collect();
        let exists = match words.as_slice() {
            ["scripts/demo", play] => named(play).is_some(),
            ["scripts/compare", "show", row] => ROWS.iter().any(|play| play.name == *row),
            ["scripts/compare", "writers"] => true,
            _ => false,
        };
        assert!(exists, "{command}");
    }
}
