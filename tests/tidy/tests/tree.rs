//! Applies the rules of `CONTRIBUTING.md` to the repository, one test per rule. A failure prints the fix.

#![expect(clippy::unwrap_used, reason = "a rule that cannot be checked is broken")]

use std::path::Path;

use holdfast_tests_tidy::{
    Source, Tree, Violation, alerts, bans, budgets, constants, cycles, dependencies, documents,
    features, fences, formats, guarantees, headers, layers, mutations, pages, private_words,
    published, scripts, size, type_names, words,
};

fn tree() -> Tree {
    Tree::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

fn sources() -> Vec<Source> {
    tree().sources().unwrap()
}

#[track_caller]
fn none(found: &[Violation]) {
    let lines: Vec<String> = found.iter().map(|violation| format!("  {violation}\n")).collect();
    assert!(found.is_empty(), "{} to mend:\n{}", found.len(), lines.concat());
}

/// One test per rule: its name, and the checks that find nothing.
macro_rules! rules {
    ($($name:ident => $($found:expr),+;)+) => {$(
        #[test]
        fn $name() {
            $(none(&$found);)+
        }
    )+};
}

rules! {
    crates_depend_only_on_smaller_layers => layers::check(&tree()).unwrap();
    third_parties_are_named_only_at_home =>
        fences::named_only_at_home(&sources()),
        fences::depended_on_only_at_home(&tree()).unwrap();
    crates_do_not_name_what_they_refuse_to_know => fences::absences(&sources());
    only_http_knows_status_codes => fences::status_codes(&sources());
    only_the_zookeeper_front_end_says_zxid => fences::zxids(&sources());
    no_file_is_over_500_lines => size::files(&sources());
    the_files_stay_few => size::rooms(&sources());
    each_mutation_applies_once_and_names_tests_that_exist =>
        mutations::check(&tree(), &sources()).unwrap();
    every_module_has_a_header => headers::check(&sources());
    nothing_unwraps_outside_tests => bans::unwraps(&sources());
    nothing_panics_on_purpose_outside_tests => bans::panics(&sources());
    nothing_is_unfinished => bans::marks(&tree());
    no_log_line_carries_debug_text => bans::debug_text_in_logs(&sources());
    no_log_line_has_a_field_twice => bans::repeated_log_fields(&sources());
    every_test_runs => bans::skipped_tests(&sources()), bans::skipped_examples(&tree());
    tests_wait_for_conditions_not_for_time =>
        bans::sleeps(&sources()),
        bans::stale_exceptions(&sources());
    modules_say_what_is_in_them => words::modules(&sources());
    names_are_those_of_the_glossary => words::glossary(&sources());
    no_private_word_is_in_names_or_prose =>
        private_words::text(&tree()),
        private_words::names(&sources());
    files_of_a_crate_do_not_use_each_other_in_cycles => cycles::check(&sources());
    dependencies_have_reasons_pins_and_no_default_features => dependencies::root(&tree()).unwrap();
    members_take_their_versions_and_lints_from_the_root => dependencies::members(&tree()).unwrap();
    every_dependency_is_used => dependencies::unused(&tree()).unwrap();
    published_packages_have_what_a_registry_needs => published::check(&tree()).unwrap();
    the_lock_file_is_committed => dependencies::lock_file(&tree());
    exceptions_of_deny_have_reasons => dependencies::deny(&tree()).unwrap();
    links_have_existing_targets => documents::broken_links(&tree());
    every_document_can_be_reached_from_the_readme => documents::unreachable(&tree());
    documents_name_paths_and_tests_that_exist =>
        documents::stale_names(&tree(), &sources()),
        documents::stale_mentions(&tree());
    numbers_in_documents_match_the_code => constants::check(&tree(), &sources());
    tables_of_formats_match_the_code => formats::kinds(&tree(), &sources());
    every_promise_names_tests_that_exist => guarantees::check(&tree(), &sources());
    every_mechanism_has_its_row_and_its_tests => features::check(&tree(), &sources());
    scripts_are_short_and_executable => scripts::check(&tree());
    ci_runs_the_test_command_of_the_readme => scripts::ci_runs_the_tests(&tree());
    the_contents_of_the_site_list_every_page =>
        pages::contents(&tree()),
        pages::links_off_the_site(&tree());
    sentences_of_the_pages_for_users_are_short => pages::long_sentences(&tree());
    pages_for_users_have_no_private_word => pages::private_words(&tree());
    every_alert_names_its_section_of_the_operations_page => alerts::check(&tree());
}

#[test]
fn each_capability_stays_within_its_budget_of_lines() {
    let tree = tree();
    none(&budgets::check(tree.text(layers::TABLE).unwrap(), &tree.sources().unwrap()));
}

#[test]
fn sizes_are_reported() {
    let (files, functions) = size::report(&sources());
    println!("lines of files:     {files:?}\nlines of functions: {functions:?}");
    for (krate, size) in size::crates(&sources()) {
        println!("{krate:12} {size:?}");
    }
    println!("product      {:?}", size::product(&sources()));
    assert!(files.count > 0 && functions.count > 0);
}

#[test]
fn a_name_of_a_type_has_one_meaning() {
    none(&type_names::defined_twice(&sources()));
    assert_eq!(type_names::unique_again(&sources()), [""; 0], "remove these from the exceptions");
}

#[test]
fn the_pages_for_users_do_not_grow() {
    let words = pages::words(&tree());
    println!("words of the pages for users: {words}, at most {}", pages::WORDS_MAX);
    assert!(words <= pages::WORDS_MAX, "{words} words: shorten a page");
}
