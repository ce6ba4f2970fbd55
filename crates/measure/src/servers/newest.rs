//! Servers that are newer than Debian's packages: `scripts/maintain/newest-servers` installs them into a directory.

use std::path::{Path, PathBuf};

/// The variable with the directory of the newest servers, which take precedence.
pub const NEWEST_SERVERS: &str = "HOLDFAST_NEWEST_SERVERS";
/// The program of etcd, and the directory of ZooKeeper's jars.
const NAMES: [&str; 2] = ["etcd", "zookeeper"];

/// Returns a program or a directory of the newest servers.
pub(super) fn newest(name: &str) -> Option<PathBuf> {
    let path = directory()?.join(name);
    // Servers change their directory before they read their files.
    path.exists().then(|| std::path::absolute(&path).unwrap_or(path))
}

fn directory() -> Option<PathBuf> {
    std::env::var_os(NEWEST_SERVERS).map(PathBuf::from)
}

/// Returns `true` if the variable has a directory.
///
/// # Errors
/// The directory has no such servers, so Debian's would be measured in their place; the text says how to install them.
pub fn has_newest_servers() -> Result<bool, String> {
    directory().map_or(Ok(false), |directory| complete(&directory).map(|()| true))
}

fn complete(directory: &Path) -> Result<(), String> {
    match NAMES.iter().find(|name| !directory.join(name).exists()) {
        None => Ok(()),
        Some(missing) => Err(format!(
            "{NEWEST_SERVERS}: `{}` has no {missing}: run scripts/maintain/newest-servers, which prints the directory, or unset the variable",
            directory.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_the_newest_servers_is_an_error_that_names_the_script() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("etcd"), "").unwrap();
        let error = complete(place.path()).unwrap_err();
        assert!(error.contains("no zookeeper: run scripts/maintain/newest-servers"), "{error}");
        std::fs::create_dir(place.path().join("zookeeper")).unwrap();
        assert_eq!(complete(place.path()), Ok(()));
    }
}
