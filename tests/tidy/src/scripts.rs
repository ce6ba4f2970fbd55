//! Checks that scripts are short: they call programs in order and contain no logic that needs tests.

use crate::policy::limits;
use crate::{Tree, Violation};

const CI: &str = ".ci/run";
const TEST: &str = "scripts/test";
/// First lines, and the option that makes that shell stop at an error.
const SHELLS: [(&str, &str); 2] =
    [("#!/usr/bin/env bash", "set -euo pipefail"), ("#!/bin/sh", "set -eu")];

/// Scripts that are not executable, do not stop at an error, or are too long.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let ours = tree.files().filter(|(path, _)| path.starts_with("scripts/") || *path == CI);
    let scripts = ours.filter(|(path, file)| file.text.starts_with("#!") || !path.contains('.'));
    let mut found = Vec::new();
    for (path, file) in scripts {
        let mut object = |what: String| found.push(Violation::of(path, what));
        if !file.executable {
            object("not executable: chmod +x".to_owned());
        }
        let first = file.text.lines().next().unwrap_or_default();
        match SHELLS.iter().find(|(shell, _)| *shell == first) {
            None => object("begin it with `#!/usr/bin/env bash` or `#!/bin/sh`".to_owned()),
            Some((_, stop)) if path != CI && !file.text.lines().any(|line| line == *stop) => {
                object(format!("`{stop}` is missing: an error must stop it"));
            }
            Some(_) => {}
        }
        let lines = file
            .text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .count();
        if lines > limits::SCRIPT {
            object(format!(
                "{lines} lines, at most {}: move the logic into a program",
                limits::SCRIPT
            ));
        }
    }
    found
}

/// Checks that CI runs only the README's test command.
pub fn ci_runs_the_tests(tree: &Tree) -> Vec<Violation> {
    let calls = tree.text(CI).is_some_and(|text| text.contains(TEST));
    (!calls)
        .then(|| Violation::of(CI, format!("call {TEST}, and nothing else")))
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "#!/usr/bin/env bash\n# Says hello.\nset -euo pipefail\necho hello\n";

    fn found(text: &str, executable: bool) -> usize {
        check(&Tree::default().with("scripts/hello", text, executable)).len()
    }

    #[test]
    fn scripts_that_do_not_run_or_do_not_stop_are_caught() {
        assert_eq!(found(GOOD, true), 0);
        assert_eq!(found(GOOD, false), 1);
        assert_eq!(found(&GOOD.replace("set -euo pipefail\n", ""), true), 1);
        assert_eq!(found(&GOOD.replace("#!/usr/bin/env bash", "#!/bin/sh"), true), 1);
        assert_eq!(found("#!/bin/sh\nset -eu\necho hello\n", true), 0);
        assert_eq!(found(&GOOD.replace("#!/usr/bin/env bash", "#!/bin/fish"), true), 1);
    }

    #[test]
    fn long_scripts_are_caught() {
        assert_eq!(found(&format!("{GOOD}{}", "echo more\n".repeat(limits::SCRIPT)), true), 1);
    }

    #[test]
    fn a_ci_that_runs_something_else_is_caught() {
        assert_eq!(ci_runs_the_tests(&Tree::of([(CI, "cargo test")])).len(), 1);
        assert_eq!(ci_runs_the_tests(&Tree::of([(CI, "exec scripts/test")])).len(), 0);
    }
}
