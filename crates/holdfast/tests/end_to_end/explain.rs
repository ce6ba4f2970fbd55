//! `holdfast explain` prints the same explanations as the nodes.

use std::process::Command;

use holdfast_api::ErrorCode;

fn explain(arguments: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    let ran = command.arg("explain").args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (ran.status.success(), text(ran.stdout), text(ran.stderr))
}

#[test]
fn every_code_is_explained_as_the_node_explains_it() {
    for code in ErrorCode::ALL {
        let (ok, stdout, _) = explain(&[code.as_str()]);
        assert!(ok && stdout == holdfast_http::explanation(*code), "{code}: {stdout}");
    }
    let (ok, list, _) = explain(&[]);
    assert!(ok && ErrorCode::ALL.iter().all(|code| list.contains(code.as_str())), "{list}");
}

#[test]
fn a_misspelt_code_gets_the_nearest_as_a_suggestion() {
    let (ok, stdout, stderr) = explain(&["lock-bussy"]);
    assert!(!ok && stdout.is_empty());
    assert!(stderr.contains("did you mean 'lock-busy'?"), "{stderr}");
    assert!(explain(&["/errors/lock-busy"]).0);
    let (ok, stdout, _) = explain(&["one-failure-left"]);
    assert!(ok && stdout.contains("start the missing members"), "{stdout}");
}
