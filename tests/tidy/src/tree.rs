//! The files of the repository in memory, read from the disk or constructed by a test.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use crate::Source;

/// Ignored folders, at any depth.
const SKIPPED: [&str; 4] = [".git", "target", "data", "node_modules"];

/// One file.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// The text; bytes that are not UTF-8 are replaced.
    pub text: String,
    /// True if any execute bit is set.
    pub executable: bool,
}

/// All files, by path from the root with `/` between the components.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, File>,
}

impl Tree {
    /// Reads every file below `root`, except in folders that hold build products.
    ///
    /// # Errors
    /// The first I/O error.
    pub fn load(root: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.read_folder(root, "")?;
        Ok(tree)
    }

    /// A tree of the given paths and texts, none executable.
    pub fn of<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let file = |text: &str| File { text: text.to_owned(), executable: false };
        Self {
            files: files.into_iter().map(|(path, text)| (path.to_owned(), file(text))).collect(),
        }
    }

    /// The same tree with one more file.
    #[must_use]
    pub fn with(mut self, path: &str, text: &str, executable: bool) -> Self {
        self.files.insert(path.to_owned(), File { text: text.to_owned(), executable });
        self
    }

    /// One file.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.get(path)
    }

    /// The text of one file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.file(path).map(|file| file.text.as_str())
    }

    /// Every file, in order of path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// Files whose path has this suffix.
    pub fn ending<'a>(&'a self, suffix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let files = self.files().filter(move |(path, _)| path.ends_with(suffix));
        files.map(|(path, file)| (path, file.text.as_str()))
    }

    /// True if a file or a folder of this path exists; the empty path is the root.
    pub fn exists(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        path.is_empty()
            || self.files.contains_key(path)
            || self
                .files
                .range(folder.clone()..)
                .next()
                .is_some_and(|(p, _)| p.starts_with(&folder))
    }

    /// The folders directly below `folder` that hold a `Cargo.toml`, by name.
    pub fn packages(&self, folder: &str) -> Vec<&str> {
        let inner = |path: &'_ str| -> Option<usize> {
            let name = path.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix("/Cargo.toml")?;
            (!name.contains('/')).then_some(name.len())
        };
        let start = folder.len() + 1;
        let paths = self.files.keys();
        paths.filter_map(|path| inner(path).map(|len| &path[start..start + len])).collect()
    }

    /// Every Rust file, parsed. Files outside packages, e.g. fixtures, are left out.
    ///
    /// # Errors
    /// The path and reason of the first file that is not Rust.
    pub fn sources(&self) -> Result<Vec<Source>, String> {
        let parsed = self.ending(".rs").map(|(path, text)| Source::parse(path, text));
        let mut sources = parsed.collect::<Result<Vec<_>, _>>()?;
        crate::source::mark_test_modules(&mut sources);
        Ok(sources)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
                self.read_folder(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() {
                self.files.insert(path, read_file(&entry.path())?);
            }
        }
        Ok(())
    }
}

fn read_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::PermissionsExt;
    let executable = fs::metadata(path)?.permissions().mode() & 0o111 != 0;
    let text = String::from_utf8_lossy(&fs::read(path)?).into_owned();
    Ok(File { text, executable })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_read_without_build_products() {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [("a/b.rs", "fn x() {}"), ("target/debug/c.rs", "nonsense(")] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let tree = Tree::load(root.path()).unwrap();
        assert_eq!(tree.files().map(|(path, _)| path).collect::<Vec<_>>(), ["a/b.rs"]);
        assert!(
            tree.exists("a") && tree.exists("a/b.rs") && !tree.exists("a/c") && !tree.exists("b")
        );
    }

    #[test]
    fn packages_are_the_folders_with_a_manifest() {
        let tree = Tree::of([
            ("crates/codec/Cargo.toml", ""),
            ("crates/codec/fuzz/Cargo.toml", ""),
            ("crates/raft/src/lib.rs", ""),
        ]);
        assert_eq!(tree.packages("crates"), ["codec"]);
    }
}
