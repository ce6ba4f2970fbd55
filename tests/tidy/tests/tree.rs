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

#[test]
fn crates_depend_only_on_smaller_layers() {
    none(&layers::check(&tree()).unwrap());
}

#[test]
fn third_parties_are_named_only_at_home() {
    none(&fences::named_only_at_home(&sources()));
    none(&fences::depended_on_only_at_home(&tree()).unwrap());
}

#[test]
fn crates_do_not_name_what_they_refuse_to_know() {
    none(&fences::absences(&sources()));
}

#[test]
fn only_http_knows_status_codes() {
    none(&fences::status_codes(&sources()));
}

#[test]
fn only_the_zookeeper_front_end_says_zxid() {
    none(&fences::zxids(&sources()));
}

#[test]
fn each_capability_stays_within_its_budget_of_lines() {
    let tree = tree();
    none(&budgets::check(tree.text(layers::TABLE).unwrap(), &tree.sources().unwrap()));
}

#[test]
fn no_file_is_over_500_lines() {
    none(&size::files(&sources()));
}

#[test]
fn the_files_stay_few() {
    none(&size::rooms(&sources()));
}

#[test]
fn each_mutation_applies_once_and_names_tests_that_exist() {
    none(&mutations::check(&tree(), &sources()).unwrap());
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
fn every_module_has_a_header() {
    none(&headers::check(&sources()));
}

#[test]
fn nothing_unwraps_outside_tests() {
    none(&bans::unwraps(&sources()));
}

#[test]
fn nothing_panics_on_purpose_outside_tests() {
    none(&bans::panics(&sources()));
}

#[test]
fn nothing_is_unfinished() {
    none(&bans::marks(&tree()));
}

#[test]
fn no_log_line_carries_debug_text() {
    none(&bans::debug_text_in_logs(&sources()));
}

#[test]
fn no_log_line_has_a_field_twice() {
    none(&bans::repeated_log_fields(&sources()));
}

#[test]
fn every_test_runs() {
    none(&bans::skipped_tests(&sources()));
    none(&bans::skipped_examples(&tree()));
}

#[test]
fn tests_wait_for_conditions_not_for_time() {
    none(&bans::sleeps(&sources()));
    none(&bans::stale_exceptions(&sources()));
}

#[test]
fn modules_say_what_is_in_them() {
    none(&words::modules(&sources()));
}

#[test]
fn names_are_those_of_the_glossary() {
    none(&words::glossary(&sources()));
}

#[test]
fn no_private_word_is_in_names_or_prose() {
    none(&private_words::text(&tree()));
    none(&private_words::names(&sources()));
}

#[test]
fn a_name_of_a_type_has_one_meaning() {
    none(&type_names::defined_twice(&sources()));
    assert_eq!(type_names::unique_again(&sources()), [""; 0], "remove these from the exceptions");
}

#[test]
fn files_of_a_crate_do_not_use_each_other_in_cycles() {
    none(&cycles::check(&sources()));
}

#[test]
fn dependencies_have_reasons_pins_and_no_default_features() {
    none(&dependencies::root(&tree()).unwrap());
}

#[test]
fn members_take_their_versions_and_lints_from_the_root() {
    none(&dependencies::members(&tree()).unwrap());
}

#[test]
fn every_dependency_is_used() {
    none(&dependencies::unused(&tree()).unwrap());
}

#[test]
fn published_packages_have_what_a_registry_needs() {
    none(&published::check(&tree()).unwrap());
}

#[test]
fn the_lock_file_is_committed() {
    none(&dependencies::lock_file(&tree()));
}

#[test]
fn exceptions_of_deny_have_reasons() {
    none(&dependencies::deny(&tree()).unwrap());
}

#[test]
fn links_have_existing_targets() {
    none(&documents::broken_links(&tree()));
}

#[test]
fn every_document_can_be_reached_from_the_readme() {
    none(&documents::unreachable(&tree()));
}

#[test]
fn documents_name_paths_and_tests_that_exist() {
    none(&documents::stale_names(&tree(), &sources()));
    none(&documents::stale_mentions(&tree()));
}

#[test]
fn numbers_in_documents_match_the_code() {
    none(&constants::check(&tree(), &sources()));
}

#[test]
fn tables_of_formats_match_the_code() {
    none(&formats::kinds(&tree(), &sources()));
}

#[test]
fn every_promise_names_tests_that_exist() {
    none(&guarantees::check(&tree(), &sources()));
}

#[test]
fn every_mechanism_has_its_row_and_its_tests() {
    none(&features::check(&tree(), &sources()));
}

#[test]
fn scripts_are_short_and_executable() {
    none(&scripts::check(&tree()));
}

#[test]
fn ci_runs_the_test_command_of_the_readme() {
    none(&scripts::ci_runs_the_tests(&tree()));
}

#[test]
fn the_contents_of_the_site_list_every_page() {
    none(&pages::contents(&tree()));
    none(&pages::links_off_the_site(&tree()));
}

#[test]
fn sentences_of_the_pages_for_users_are_short() {
    none(&pages::long_sentences(&tree()));
}

#[test]
fn pages_for_users_have_no_private_word() {
    none(&pages::private_words(&tree()));
}

#[test]
fn the_pages_for_users_do_not_grow() {
    let words = pages::words(&tree());
    println!("words of the pages for users: {words}, at most {}", pages::WORDS_MAX);
    assert!(words <= pages::WORDS_MAX, "{words} words: shorten a page");
}

#[test]
fn every_alert_names_its_section_of_the_operations_page() {
    none(&alerts::check(&tree()));
}
