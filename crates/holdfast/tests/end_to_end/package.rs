//! The parts of the Debian package: its files, its configuration before and after the edit, and the manual pages.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::holdfast;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_files_of_the_package_exist() {
    let manifest = std::fs::read_to_string(folder().join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let package = &manifest["package"]["metadata"]["deb"];
    let assets = package["assets"].as_array().unwrap().iter();
    let sources = assets.map(|asset| asset[0].as_str().unwrap());
    let units = package["systemd-units"]["unit-scripts"].as_str().unwrap();
    let found = ["service", "sysusers", "tmpfile"].map(|kind| format!("{units}/holdfast.{kind}"));
    // `scripts/package` builds the files below target/.
    let committed = sources.filter(|path| !path.starts_with("target/")).map(str::to_owned);
    for path in committed.chain(found).chain([package["changelog"].as_str().unwrap().to_owned()]) {
        assert!(folder().join(&path).is_file(), "{path} does not exist");
    }
}

#[test]
fn the_configuration_of_the_package_refuses_a_start_until_it_is_edited() {
    let shipped = folder().join("../../cluster-config/debian/node.toml");
    let check = |file: &Path| {
        let file = file.display().to_string();
        let data = ["--data-dir", "/var/lib/holdfast"];
        holdfast(&[&["serve", "--check", "--config", &file][..], &data].concat())
    };
    check(&shipped).assert_code(1).assert_stderr_contains(["node is missing"]);
    let text = std::fs::read_to_string(&shipped).unwrap();
    let uncommented = |line: &str| match line.strip_prefix('#') {
        Some(setting) if !setting.starts_with(' ') => setting.to_owned(),
        _ => line.to_owned(),
    };
    let edited: Vec<String> = text.lines().map(uncommented).collect();
    let dir = tempfile::tempdir().unwrap();
    let (file, own) = (dir.path().join("node.toml"), dir.path().display().to_string());
    let text = edited.join("\n").replace("/etc/holdfast/", &format!("{own}/"));
    std::fs::write(&file, text).unwrap();
    let end = check(&file);
    assert!(end.code == Some(1) && end.stderr.contains("node.pem"), "{}", end.stderr);
    for certs in [&["init"][..], &["node", "node", "--host", "node1.example"]] {
        holdfast(&[&["certs"], certs, &["--dir", &own]].concat()).assert_code(0);
    }
    let end = check(&file).assert_code(0);
    assert!(end.stdout.contains("node1.example:7400, TLS"), "{}", end.stdout);
}

#[test]
fn the_manual_pages_of_all_commands_have_no_warnings() {
    let dir = tempfile::tempdir().unwrap();
    holdfast(&["manual", dir.path().to_str().unwrap()]).assert_code(0);
    let page = |name: &str| dir.path().join(format!("{name}.1"));
    for name in ["holdfast", "holdfast-lock", "holdfast-auth-token", "holdfast-auth-token-ls"] {
        assert!(page(name).is_file(), "{name}");
    }
    assert!(!page("holdfast-manual").exists());
    let pages: Vec<PathBuf> =
        dir.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    if Command::new("man").arg("--version").output().is_err() {
        eprintln!("SKIPPED: man is not installed");
        return;
    }
    for page in pages {
        // As lintian does.
        let mut man = Command::new("man");
        man.env("LC_ALL", "C.UTF-8").env("MANROFFSEQ", "").env("MANWIDTH", "80");
        let output =
            man.args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]).arg(&page).output();
        let warnings = String::from_utf8_lossy(&output.unwrap().stderr).into_owned();
        assert!(warnings.is_empty(), "{}: {warnings}", page.display());
    }
}
