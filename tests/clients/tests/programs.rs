//! The programs on the pages. `scripts/clients` runs those in the other languages.

use std::path::Path;

use holdfast_tests_clients::blocks::blocks;
use holdfast_tests_clients::program_run::run;
use holdfast_tests_clients::programs::{ClientLanguage, PageProgram, all, texts};
use holdfast_tests_clients::suite::ScenarioResult;

/// Pages about one language.
const ONE_LANGUAGE: &str = "docs/how-to/from-";

async fn result(program: &PageProgram) -> ScenarioResult {
    run(program, Path::new(env!("CARGO_BIN_EXE_page-programs"))).await.result
}

fn of(language: ClientLanguage) -> Vec<PageProgram> {
    all().expect("programs").into_iter().filter(|program| program.language == language).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rust_programs_of_the_pages_print_what_the_pages_show() {
    let programs = of(ClientLanguage::Rust);
    assert!(programs.len() >= 5, "{} programs", programs.len());
    for program in &programs {
        assert_eq!(result(program).await, ScenarioResult::Passed, "{}", program.place);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_with_another_output_or_another_exit_code_fails() {
    let mut program = of(ClientLanguage::Rust).remove(0);
    program.outputs = vec!["another output\n".to_owned()];
    let ScenarioResult::Failed(reason) = result(&program).await else { panic!("it passed") };
    assert!(reason.starts_with("the page shows:\nanother output\n\nprinted:\n"), "{reason}");
    program.place = "no page".to_owned();
    program.outputs = vec!["…\n".to_owned()];
    let ScenarioResult::Failed(reason) = result(&program).await else { panic!("it passed") };
    assert!(reason.contains("exit code Some(101)"), "{reason}");
}

#[test]
fn a_page_with_a_program_has_it_in_every_language_and_for_curl_and_the_command_line() {
    let programs = all().expect("programs");
    let mut pages = 0;
    for (page, text) in texts().expect("pages") {
        let mut languages: Vec<_> = programs
            .iter()
            .filter(|program| program.place.starts_with(&format!("{page}:")))
            .map(|program| program.language)
            .collect();
        languages.sort();
        if languages.is_empty() || page.starts_with(ONE_LANGUAGE) {
            continue;
        }
        assert_eq!(languages, ClientLanguage::ALL, "{page}");
        let consoles = blocks(&text).into_iter().filter(|block| block.info == "console");
        let commands: String = consoles.map(|block| block.text).collect();
        assert!(commands.contains("$ curl ") && commands.contains("$ holdfast "), "{page}");
        pages += 1;
    }
    assert!(pages >= 5, "{pages} pages");
}
