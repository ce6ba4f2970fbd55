//! Applies each mutation of `crates/*/mutations.toml` to a copy of the repository and runs the tests that it names,
//! which must fail. Arguments: names of mutations; none for all. Exits with 1 if a mutation is missed.
//!
//! The copy and its build products stay in `target/mutations`, so that each mutation costs one incremental build.

#![expect(clippy::print_stdout, reason = "a program for the command line")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io};

use holdfast_tests_tidy::Tree;
use holdfast_tests_tidy::mutations::{self, Mutation, NamedTest};

/// A build takes longer than its tests: without optimisation, a mutation takes a fifth of the time.
const UNOPTIMIZED: [&str; 2] =
    ["profile.dev.package.holdfast-machine.opt-level=0", "profile.dev.debug=false"];
/// A mutation can cause an endless test.
const TEST_TIMEOUT: Duration = Duration::from_mins(5);

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(missed) => {
            println!("{missed} missed");
            ExitCode::FAILURE
        }
        Err(what) => {
            println!("{what}");
            ExitCode::from(2)
        }
    }
}

/// The number of missed mutations.
fn run() -> Result<usize, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tree = Tree::load(&root).map_err(text)?;
    let names: Vec<String> = std::env::args().skip(1).collect();
    let all = mutations::all(&tree)?;
    if let Some(name) = names.iter().find(|name| !all.iter().any(|m| m.name == **name)) {
        return Err(format!("there is no mutation {name}"));
    }
    let wanted = |m: &Mutation| names.is_empty() || names.contains(&m.name);
    let chosen: Vec<Mutation> = all.into_iter().filter(wanted).collect();
    let copy = Copy::of(&tree, &root.join("target/mutations"))?;
    copy.check_without_mutations(&chosen)?;
    let mut missed = 0;
    for mutation in &chosen {
        let began = Instant::now();
        let result = copy.run(mutation, &tree)?;
        missed += usize::from(result.is_err());
        let (verdict, why) = match result {
            Ok(()) => ("caught", String::new()),
            Err(why) => ("MISSED", why),
        };
        let seconds = began.elapsed().as_secs();
        println!("{verdict}  {:45} {seconds:4} s  {why}", mutation.name);
    }
    println!("{} of {} caught", chosen.len() - missed, chosen.len());
    Ok(missed)
}

/// A program of tests: the unit tests of a crate, or a folder of its `tests`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TestProgram {
    folder: String,
    target: Option<String>,
}

/// A copy of the repository.
struct Copy {
    root: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Leaves identical files unchanged, so that cargo does not rebuild them.
    fn of(tree: &Tree, folder: &Path) -> Result<Self, String> {
        fs::create_dir_all(folder).map_err(text)?;
        let folder = folder.canonicalize().map_err(text)?;
        let copy = Self { root: folder.join("tree"), target: folder.join("build") };
        for (path, file) in tree.files() {
            copy.write(path, &file.text)?;
        }
        // Files of an earlier copy that are no longer in the repository.
        let copied = Tree::load(&copy.root).map_err(text)?;
        for (path, _) in copied.files().filter(|(path, _)| tree.file(path).is_none()) {
            fs::remove_file(copy.root.join(path)).map_err(text)?;
        }
        Ok(copy)
    }

    fn write(&self, path: &str, content: &str) -> Result<(), String> {
        let to = self.root.join(path);
        if fs::read(&to).is_ok_and(|old| old == content.as_bytes()) {
            return Ok(());
        }
        let folder = to.parent().map_or_else(|| self.root.clone(), Path::to_path_buf);
        fs::create_dir_all(folder).and_then(|()| fs::write(&to, content)).map_err(text)
    }

    fn check_without_mutations(&self, chosen: &[Mutation]) -> Result<(), String> {
        let tests = |mutation: &'_ Mutation| {
            let folder = mutation.folder.clone();
            let program = move |target| TestProgram { folder: folder.clone(), target };
            let tests = mutation.tests.clone().into_iter();
            tests.map(|test| (program(test.target), test.name)).collect::<Vec<_>>()
        };
        let tests: BTreeSet<(TestProgram, String)> = chosen.iter().flat_map(tests).collect();
        let programs: BTreeSet<&TestProgram> = tests.iter().map(|(program, _)| program).collect();
        for program in programs {
            self.build(program)?;
        }
        for (program, name) in &tests {
            let (passes, output) = self.test(program, name)?;
            if !passes {
                return Err(format!("{name} fails without a mutation:\n{output}"));
            }
        }
        Ok(())
    }

    /// Returns the reason as an error if the mutation is missed.
    fn run(&self, mutation: &Mutation, tree: &Tree) -> Result<Result<(), String>, String> {
        let mut files: Vec<(&str, String)> = Vec::new();
        for edit in &mutation.edits {
            let at = files.iter().position(|(file, _)| *file == edit.file);
            let before = at.map(|at| files.swap_remove(at).1);
            let before =
                before.unwrap_or_else(|| tree.text(&edit.file).unwrap_or_default().to_owned());
            files.push((&edit.file, edit.apply(&before)?));
        }
        for (file, content) in &files {
            self.write(file, content)?;
        }
        let result = mutation.tests.iter().try_for_each(|test| self.fail(&mutation.folder, test));
        for (file, _) in &files {
            self.write(file, tree.text(file).unwrap_or_default())?;
        }
        Ok(result)
    }

    /// Builds a test with the mutation. Returns the reason as an error unless it fails.
    fn fail(&self, folder: &str, test: &NamedTest) -> Result<(), String> {
        let NamedTest { target, name, output: expected } = test;
        let program = TestProgram { folder: folder.to_owned(), target: target.clone() };
        self.build(&program)?;
        let (passes, output) = self.test(&program, name)?;
        if passes {
            return Err(format!("{name} passes"));
        }
        if !output.contains(expected) {
            return Err(format!("{name} fails without the words `{expected}`"));
        }
        Ok(())
    }

    fn cargo(&self, TestProgram { folder, target }: &TestProgram) -> Command {
        let name = folder.rsplit('/').next().unwrap_or_default();
        let mut cargo = Command::new("cargo");
        cargo.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        cargo.args(["test", "--quiet", "--locked", "--package", &format!("holdfast-{name}")]);
        cargo.args(UNOPTIMIZED.iter().flat_map(|setting| ["--config", setting]));
        match target {
            Some(target) => cargo.args(["--test", target]),
            None => cargo.arg("--lib"),
        };
        cargo
    }

    fn build(&self, program: &TestProgram) -> Result<(), String> {
        let output = self.cargo(program).arg("--no-run").output().map_err(text)?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("does not compile:\n{}", String::from_utf8_lossy(&output.stderr)))
    }

    /// True if the test passes, with its output. A test that times out fails.
    fn test(&self, program: &TestProgram, name: &str) -> Result<(bool, String), String> {
        let mut cargo = self.cargo(program);
        cargo.args(["--", "--exact", name]).env("PROPTEST_MAX_SHRINK_ITERS", "0");
        let log = self.target.join("test.log");
        let file = fs::File::create(&log).map_err(text)?;
        let errors = file.try_clone().map_err(text)?;
        let mut child =
            cargo.stdin(Stdio::null()).stdout(file).stderr(errors).spawn().map_err(text)?;
        let ended = wait(&mut child).map_err(text)?;
        let output = fs::read(&log).map_err(text)?;
        let output = String::from_utf8_lossy(&output).into_owned();
        if ended == Some(true) && !output.contains("test result: ok. 1 passed") {
            return Err(format!("there is no test {name}"));
        }
        Ok((ended == Some(true), output))
    }
}

/// True if the process succeeded; `None` if it was killed after the timeout.
fn wait(child: &mut Child) -> io::Result<Option<bool>> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if began.elapsed() > TEST_TIMEOUT {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
