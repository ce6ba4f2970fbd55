//! Runs programs of the pages, each beside a new cluster, and compares what they print with what their pages show.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use holdfast_lab::{Cluster, Program, as_shown, binary};

use crate::programs::{ClientLanguage, PageProgram, root};
use crate::suite::{Played, ScenarioResult};

/// The compiler options under which the programs are valid TypeScript.
const TSCONFIG: &str = r#"{"compilerOptions": {"module": "nodenext", "target": "es2022", "strict": true, "types": ["node"]}}"#;

/// Runs one program. `rust_programs` is the program `page-programs`. A panic of the laboratory is a failure.
pub async fn run(program: &PageProgram, rust_programs: &Path) -> Played {
    let began = Instant::now();
    let (task, rust_programs) = (program.clone(), rust_programs.to_owned());
    // The laboratory's futures stay on one thread.
    let running = tokio::task::spawn_blocking(move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        runtime.block_on(run_beside_cluster(&task, &rust_programs))
    });
    let result = match running.await {
        Ok(Ok(())) => ScenarioResult::Passed,
        Ok(Err(reason)) => ScenarioResult::Failed(reason),
        Err(error) => ScenarioResult::Failed(format!("the laboratory failed: {error}")),
    };
    Played { id: program.place.clone(), result, took: began.elapsed() }
}

async fn run_beside_cluster(program: &PageProgram, rust_programs: &Path) -> Result<(), String> {
    let folder = tempfile::Builder::new().prefix("holdfast-program-").tempdir();
    let folder = folder.map_err(|error| error.to_string())?;
    let parts = build(program, folder.path(), rust_programs)?;
    let cluster = Cluster::of(1).start().await;
    let address = cluster.nodes()[0].http.base().trim_start_matches("http://").to_owned();
    for output in &program.outputs {
        let mut command = Command::new(&parts[0]);
        command.args(&parts[1..]).current_dir(folder.path()).env("HOLDFAST_ADDR", &address);
        if program.language == ClientLanguage::Python {
            command.env("PYTHONPATH", root().join("crates/client-python"));
        }
        run_once(command, program.meanwhile.as_deref(), &address, output)?;
    }
    Ok(())
}

fn run_once(
    command: Command,
    meanwhile: Option<&str>,
    address: &str,
    output: &str,
) -> Result<(), String> {
    let mut running = Program::start(command);
    let mut printed = String::new();
    if let Some(meanwhile) = meanwhile {
        printed = running.next_stdout_line() + "\n";
        let mut shell = Command::new("bash");
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = binary().parent().unwrap_or(Path::new("/")).display();
        shell.env("PATH", format!("{bin}:{path}")).env("HOLDFAST_ADDR", address);
        checked(shell.args(["-c", meanwhile]))?;
    }
    let end = running.wait();
    printed += &end.stdout;
    if end.code == Some(0) && as_shown(output, printed.trim_end()) {
        return Ok(());
    }
    let (code, stderr) = (end.code, end.stderr);
    Err(format!("the page shows:\n{output}\nprinted:\n{printed}\nexit code {code:?}\n{stderr}"))
}

/// Writes the program and compiles it. Returns its command.
fn build(
    program: &PageProgram,
    folder: &Path,
    rust_programs: &Path,
) -> Result<Vec<String>, String> {
    let write = |name: &str, text: &str| {
        fs::write(folder.join(name), text).map_err(|error| format!("{name}: {error}"))
    };
    let words = |command: &[&str]| command.iter().map(|&word| word.to_owned()).collect();
    match program.language {
        ClientLanguage::Python => {
            write("main.py", &program.source)?;
            Ok(words(&["python3", "main.py"]))
        }
        ClientLanguage::TypeScript => {
            write("main.ts", &program.source)?;
            write("package.json", r#"{"type": "module"}"#)?;
            write("tsconfig.json", TSCONFIG)?;
            compile_typescript(folder)?;
            Ok(words(&["node", "main.js"]))
        }
        ClientLanguage::Go => {
            write("main.go", &program.source)?;
            let module = "github.com/holdfast/holdfast/crates/client-go";
            let client = root().join("crates/client-go");
            let client =
                client.canonicalize().map_err(|error| error.to_string())?.display().to_string();
            write(
                "go.mod",
                &format!(
                    "module example\n\ngo 1.21\n\nrequire {module} v0.0.0\n\nreplace {module} => {client}\n"
                ),
            )?;
            checked(Command::new("go").args(["vet", "."]).current_dir(folder))?;
            checked(Command::new("go").args(["build", "-o", "main", "."]).current_dir(folder))?;
            Ok(vec![folder.join("main").display().to_string()])
        }
        ClientLanguage::Java => {
            write("Main.java", &program.source)?;
            Ok(words(&["java", "-cp", &class_path()?, "Main.java"]))
        }
        ClientLanguage::Rust => Ok(words(&[&rust_programs.display().to_string(), &program.place])),
    }
}

/// Compiles with the compiler and the types of the client's own build.
fn compile_typescript(folder: &Path) -> Result<(), String> {
    let client = root().join("crates/client-typescript").canonicalize();
    let client = client.map_err(|error| error.to_string())?;
    let modules = folder.join("node_modules");
    let linked = fs::create_dir_all(modules.join("@types"))
        .and_then(|()| symlink(&client, modules.join("holdfast")))
        .and_then(|()| {
            symlink(client.join("node_modules/@types/node"), modules.join("@types/node"))
        });
    linked.map_err(|error| error.to_string())?;
    checked(
        Command::new(client.join("node_modules/.bin/tsc")).args(["-p", "."]).current_dir(folder),
    )
}

/// The classes of the client and of its adapter for `ShedLock`, with the jars that the adapter needs.
fn class_path() -> Result<String, String> {
    let built = root().join("crates/client-java");
    let home = PathBuf::from(std::env::var("HOME").map_err(|_| "HOME is not set")?);
    let mut parts =
        vec![built.join("client/target/classes"), built.join("shedlock/target/classes")];
    for artifact in ["net/javacrumbs/shedlock/shedlock-core", "org/slf4j/slf4j-api"] {
        parts.extend(jars(&home.join(".m2/repository").join(artifact)));
    }
    let parts: Vec<String> = parts.iter().map(|part| part.display().to_string()).collect();
    Ok(parts.join(":"))
}

/// The jars of each version of an artifact.
fn jars(artifact: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries(artifact).flat_map(|version| entries(&version.path()).collect::<Vec<_>>());
    files
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "jar"))
        .collect()
}

/// Runs a command, which must succeed.
fn checked(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = [output.stdout, output.stderr].concat();
    let text = || format!("{command:?}: {}", String::from_utf8_lossy(&text));
    output.status.success().then_some(()).ok_or_else(text)
}
