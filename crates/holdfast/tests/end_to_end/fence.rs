//! `holdfast fence`: the verdicts of the drill, the token check, and every command of the pages about fencing.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::endpoint::{Endpoint, Kind};
use crate::program::{DevCluster, End, holdfast};
use crate::servers::{Server, mariadb_or_skip, redis_or_skip};

fn drill(cluster: &DevCluster, endpoint: &Endpoint, more: &[&str]) -> End {
    let url = format!("http://{}/stock", endpoint.address());
    cluster.client(&[&["fence", "drill", "--url", &url, "--lock", "orders"], more].concat())
}

#[test]
fn the_drill_distinguishes_a_guarded_endpoint_from_an_open_one() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    for (kind, code, word, words) in [
        (Kind::Guarded, 0, "guarded", ""),
        (Kind::Lenient, 0, "guarded", ""),
        (Kind::Open, 1, "not-guarded", "NOT guarded"),
        (Kind::LargerOnly, 3, "unclear", "equal or larger passes"),
        (Kind::Failing, 3, "unclear", "write of the current holder was not accepted"),
    ] {
        let endpoint = Endpoint::start(kind);
        let ran = drill(&cluster, &endpoint, &["-o", "value"]);
        assert_eq!((ran.code, ran.stdout.trim()), (Some(code), word), "{kind:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{kind:?}: {}", ran.stderr);
        let table = drill(&cluster, &endpoint, &[]);
        assert_eq!(table.code, Some(code), "{kind:?}: {}", table.stderr);
        assert_eq!(
            table.stdout.contains("without any token was accepted"),
            matches!(kind, Kind::Lenient),
            "{}",
            table.stdout
        );
    }
    let who = cluster.client(&["who", "orders"]);
    assert_eq!(who.stdout.trim(), "orders is free", "the drill released the lock");
}

#[test]
fn a_drill_that_cannot_start_names_the_fix() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let endpoint = Endpoint::start(Kind::Guarded);
    // The endpoint guards another resource, so it accepts no write.
    drill(&cluster, &endpoint, &["--resource", "others"])
        .assert_code(3)
        .assert_stderr_contains(["400"]);
    for (arguments, code, words) in [
        (&["--method", "GET"][..], 2, "does not write"),
        (&["--header", "nothing"], 2, "NAME: VALUE"),
    ] {
        let ran = drill(&cluster, &endpoint, arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{arguments:?}: {}", ran.stderr);
    }
    let drill = ["fence", "drill", "--url", "http://localhost/", "--addr", "nonsense"];
    holdfast(&drill).assert_code(2);
    let tls = cluster.client(&["fence", "drill", "--url", "https://example.org"]);
    assert_eq!((tls.code, tls.stderr.contains("http://")), (Some(2), true), "{}", tls.stderr);
    let closed = cluster.client(&["fence", "drill", "--url", "http://127.0.0.1:1/"]);
    assert_eq!(
        (closed.code, closed.stderr.contains("cannot connect")),
        (Some(3), true),
        "{}",
        closed.stderr
    );
    let postgres = holdfast(&["fence", "init", "--postgres"]).stdout;
    let schema = holdfast_fence::schema_sql();
    assert_eq!(
        postgres.trim(),
        format!("BEGIN;\n{schema}\nCOMMIT;"),
        "what the page's migration step installs"
    );
    assert_eq!(holdfast(&["fence", "init"]).code, Some(2));
    assert_eq!(holdfast(&["fence", "init", "--redis", "--mysql"]).code, Some(2));
    for store in ["--mysql", "--sqlite", "--redis", "--file"] {
        let ran = holdfast(&["fence", "init", store, "--table", "orders", "--lock", "orders"]);
        assert_eq!(ran.code, Some(2), "{store}: {}", ran.stderr);
    }
    for incomplete in [["--table", "orders"], ["--lock", "orders"]] {
        let ran = holdfast(&[&["fence", "init", "--postgres"][..], &incomplete].concat());
        assert_eq!(ran.code, Some(2), "{incomplete:?}: {}", ran.stderr);
    }
    let malformed = ["fence", "init", "--postgres", "--table", "a.b.c", "--lock", "orders"];
    assert_eq!(holdfast(&malformed).code, Some(2));
}

/// The commands of the page with their output. A command that ends in `\` continues on the next line.
fn shown(page: &str) -> Vec<(String, String)> {
    let mut commands: Vec<(String, String)> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        let mut goes_on = false;
        for line in block.split("```").next().unwrap().lines() {
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(command), _) => commands.push((command.to_owned(), String::new())),
                (None, Some((command, _))) if goes_on => write!(command, "\n{line}").unwrap(),
                (None, Some((_, answer))) => answer.extend([line, "\n"]),
                (None, None) => panic!("an answer without a command: {line}"),
            }
            goes_on = line.ends_with('\\');
        }
    }
    commands
}

/// `docs/fencing.md` and the page of each store, except that of PostgreSQL: `tests/newcomer` runs it with its SQL.
fn pages() -> Vec<PathBuf> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let stores = std::fs::read_dir(docs.join("fencing")).unwrap();
    let mut pages: Vec<PathBuf> = stores.map(|page| page.unwrap().path()).collect();
    pages.retain(|page| !page.ends_with("postgresql.md"));
    pages.push(docs.join("fencing.md"));
    pages
}

/// The stores of the pages; an absent store's commands are not run.
struct PageStores {
    redis: Option<Server>,
    mariadb: Option<Server>,
    has_sqlite: bool,
}

impl PageStores {
    fn start() -> Self {
        let has_sqlite = Path::new("/usr/bin/sqlite3").exists();
        if !has_sqlite {
            eprintln!(
                "SKIPPED: no sqlite3 found: its commands are not run; install it: apt-get install sqlite3"
            );
        }
        Self { redis: redis_or_skip(), mariadb: mariadb_or_skip(), has_sqlite }
    }

    fn has_store_of(&self, command: &str) -> bool {
        let stores = [
            ("redis-cli", self.redis.is_some()),
            ("mariadb", self.mariadb.is_some()),
            ("sqlite3", self.has_sqlite),
        ];
        stores.iter().all(|(name, is_there)| *is_there || !command.contains(name))
    }

    /// A directory with the tested binary, and with store clients configured for the test servers.
    fn clients(&self) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let binary = Path::new(env!("CARGO_BIN_EXE_holdfast"));
        std::os::unix::fs::symlink(binary, directory.path().join("holdfast")).unwrap();
        let servers = [("redis-cli", &self.redis, "-s"), ("mariadb", &self.mariadb, "--socket")];
        for (name, server, flag) in servers {
            let Some(server) = server else { continue };
            let socket = server.socket();
            let real = format!("exec /usr/bin/{name} {flag} '{}' \"$@\"\n", socket.display());
            let path = directory.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{real}")).unwrap();
            let executable =
                <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
            std::fs::set_permissions(path, executable).unwrap();
        }
        directory
    }

    /// Runs the commands of a page on a new cluster, in a new directory. Returns the number of commands, and each one
    /// that failed or printed something else than the page shows.
    fn run(&self, page: &str, path: &str) -> (usize, String) {
        let (cluster, endpoint) =
            (DevCluster::start(&["--nodes", "1"]), Endpoint::start(Kind::Guarded));
        let work = tempfile::tempdir().unwrap();
        let (mut ran, mut objections) = (0, String::new());
        for (command, answer) in shown(page) {
            if !self.has_store_of(&command) {
                continue;
            }
            let mut shell = Command::new("sh");
            shell.args(["-c", &command.replace("127.0.0.1:8080", &endpoint.address())]);
            shell.env("PATH", path).env_remove("HOLDFAST_SESSION").current_dir(work.path());
            shell.env("HOLDFAST_ADDR", format!("127.0.0.1:{}", cluster.port()));
            let output = shell.output().unwrap();
            ran += 1;
            let (printed, complaints) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            if printed != answer || !output.status.success() {
                writeln!(objections, "$ {command}\nprinted:\n{printed}{complaints}").unwrap();
            }
        }
        (ran, objections)
    }
}

/// Waits until the command succeeds.
fn until_it_answers(path: &str, command: &str) {
    crate::program::eventually(command, || {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).env("PATH", path);
        shell.output().unwrap().status.success()
    });
}

#[test]
fn the_commands_of_the_pages_about_fencing_print_what_they_show() {
    let stores = PageStores::start();
    let directory = stores.clients();
    let path = format!("{}:{}", directory.path().display(), std::env::var("PATH").unwrap());
    if stores.redis.is_some() {
        until_it_answers(&path, "redis-cli ping | grep PONG");
    }
    if stores.mariadb.is_some() {
        until_it_answers(&path, "mariadb --user root -e 'SELECT 1'");
    }
    let (mut ran, mut objections) = (0, String::new());
    for page in pages() {
        let (commands, objection) = stores.run(&std::fs::read_to_string(&page).unwrap(), &path);
        ran += commands;
        if !objection.is_empty() {
            writeln!(objections, "{}:\n{objection}", page.display()).unwrap();
        }
    }
    assert!(objections.is_empty(), "{objections}");
    assert!(ran >= 8, "only {ran} commands were run");
}
