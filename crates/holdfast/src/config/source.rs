//! Merges the three layers of the configuration: file < environment < flags.
//!
//! Each value keeps its origin for error messages. Unknown keys are errors. The parser of a key interprets its value. Every
//! error names the origin of the value and the fix.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use holdfast_types::{MemberAddresses, NodeId};
use thiserror::Error;

use super::schema::{KEYS, MEMBER_KEYS, PREFIX, is_foreign, most_similar, variable};
use super::units::{self, Scalar};

/// The sources of a configuration. The environment is a parameter, so tests do not change the process environment.
#[derive(Clone, Debug)]
pub(crate) struct ConfigSources {
    pub(crate) file: PathBuf,
    /// The names and values of the variables.
    pub(crate) environment: Vec<(String, String)>,
    /// Each flag: its text, its key, and its value.
    pub(crate) flags: Vec<(String, String, String)>,
}

impl ConfigSources {
    /// The file and the environment of this process.
    pub(crate) fn of_process(file: PathBuf) -> Self {
        let utf8 = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            // An empty variable counts as unset.
            let value = value.into_string().ok().filter(|value| !value.is_empty())?;
            Some((name.into_string().ok()?, value))
        };
        Self {
            file,
            environment: std::env::vars_os().filter_map(utf8).collect(),
            flags: Vec::new(),
        }
    }

    /// Adds a flag that sets a key, if `value` is given.
    #[must_use]
    pub(crate) fn with_flag(mut self, flag: &str, key: &str, value: Option<String>) -> Self {
        self.flags.extend(value.map(|value| (flag.to_owned(), key.to_owned(), value)));
        self
    }
}

/// All layers, merged.
#[derive(Debug)]
pub(super) struct ConfigLayers {
    file: PathBuf,
    values: BTreeMap<String, (Scalar, Origin)>,
    members: Vec<BTreeMap<String, Scalar>>,
}

impl ConfigLayers {
    pub(super) fn gather(sources: &ConfigSources) -> Result<Self, ConfigError> {
        let mut layers =
            Self { file: sources.file.clone(), values: BTreeMap::new(), members: Vec::new() };
        layers.add_file(&sources.file)?;
        layers.add_environment(&sources.environment)?;
        layers.add_flags(&sources.flags)?;
        Ok(layers)
    }

    fn add_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let text = fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            ConfigError::Syntax { path: path.to_owned(), message: error.to_string() }
        })?;
        for (key, value) in &table {
            if let (Some(blocks), "member") = (value.as_array(), key.as_str()) {
                self.add_members(blocks)?;
            } else if let (Some(section), true) = (value.as_table(), is_section(key)) {
                for (name, value) in section {
                    self.add_file_value(format!("{key}.{name}"), value)?;
                }
            } else {
                self.add_file_value(key.clone(), value)?;
            }
        }
        Ok(())
    }

    fn add_file_value(&mut self, key: String, value: &toml::Value) -> Result<(), ConfigError> {
        let origin = Origin::File(self.file.clone());
        self.set(key, Scalar::of(value), origin)
    }

    fn add_members(&mut self, blocks: &[toml::Value]) -> Result<(), ConfigError> {
        for block in blocks {
            let toml::Value::Table(block) = block else {
                return Err(self.bad_member("member", "write one [[member]] block for each node"));
            };
            if let Some(key) = block.keys().find(|key| !MEMBER_KEYS.contains(&key.as_str())) {
                let similar = most_similar(key, MEMBER_KEYS.iter().copied());
                return Err(ConfigError::UnknownKey {
                    origin: Origin::File(self.file.clone()),
                    key: format!("member.{key}"),
                    similar: similar.map(|key| format!("member.{key}")),
                });
            }
            let scalars = block.iter().map(|(key, value)| (key.clone(), Scalar::of(value)));
            self.members.push(scalars.collect());
        }
        Ok(())
    }

    fn add_environment(&mut self, environment: &[(String, String)]) -> Result<(), ConfigError> {
        for (name, value) in environment {
            if !name.starts_with(PREFIX) || is_foreign(name) {
                continue;
            }
            let origin = Origin::Env(name.clone());
            let Some(key) = KEYS.iter().find(|key| variable(key) == *name) else {
                let known: Vec<String> = KEYS.iter().map(|key| variable(key)).collect();
                let similar =
                    most_similar(name, known.iter().map(String::as_str)).map(str::to_owned);
                return Err(ConfigError::UnknownKey { origin, key: name.clone(), similar });
            };
            self.set((*key).to_owned(), Scalar::Text(value.clone()), origin)?;
        }
        Ok(())
    }

    fn add_flags(&mut self, flags: &[(String, String, String)]) -> Result<(), ConfigError> {
        for (flag, key, value) in flags {
            self.set(key.clone(), Scalar::Text(value.clone()), Origin::Flag(flag.clone()))?;
        }
        Ok(())
    }

    fn set(&mut self, key: String, value: Scalar, origin: Origin) -> Result<(), ConfigError> {
        if !KEYS.contains(&key.as_str()) {
            let known = KEYS.iter().copied().chain(["member"]);
            let similar = most_similar(&key, known).map(str::to_owned);
            return Err(ConfigError::UnknownKey { origin, key, similar });
        }
        self.values.insert(key, (value, origin));
        Ok(())
    }

    /// Reads an optional key.
    pub(super) fn optional<T>(
        &self,
        key: &str,
        read: impl FnOnce(&Scalar) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        let Some((value, origin)) = self.values.get(key) else { return Ok(None) };
        read(value).map(Some).map_err(|problem| ConfigError::BadValue {
            origin: origin.clone(),
            key: key.to_owned(),
            problem,
        })
    }

    /// Reads a key with a default.
    pub(super) fn or<T>(
        &self,
        key: &str,
        read: impl FnOnce(&Scalar) -> Result<T, String>,
        default: T,
    ) -> Result<T, ConfigError> {
        Ok(self.optional(key, read)?.unwrap_or(default))
    }

    /// Reads a required key.
    pub(super) fn required<T>(
        &self,
        key: &str,
        read: impl FnOnce(&Scalar) -> Result<T, String>,
    ) -> Result<T, ConfigError> {
        self.optional(key, read)?.ok_or_else(|| {
            let variable = variable(key);
            self.missing(
                key,
                format!("write `{key} = ...` at the top of the file, or set {variable}"),
            )
        })
    }

    /// Reads the `[[member]]` blocks: the nodes of the cluster and their addresses. Ids are unique and addresses well-formed.
    pub(super) fn members(&self) -> Result<BTreeMap<NodeId, MemberAddresses>, ConfigError> {
        let mut members = BTreeMap::new();
        for block in &self.members {
            let id = NodeId(self.member_key(block, "id", units::node_id)?);
            let member = MemberAddresses {
                http: self.member_key(block, "http", units::address)?,
                peer: self.member_key(block, "peer", units::address)?,
                zookeeper: self.member_key(block, "zookeeper", units::address)?,
            };
            if members.insert(id, member).is_some() {
                let problem = format!("{id} is given twice: every node needs its own id");
                return Err(self.bad_member("member.id", &problem));
            }
        }
        if members.is_empty() {
            let fix = "write one [[member]] block with id, http, peer and zookeeper for each node";
            return Err(self.missing("member", fix));
        }
        Ok(members)
    }

    fn missing(&self, key: &str, fix: impl Into<String>) -> ConfigError {
        ConfigError::Missing { path: self.file.clone(), key: key.to_owned(), fix: fix.into() }
    }

    /// Reads a required key of a `[[member]]` block.
    fn member_key<T>(
        &self,
        block: &BTreeMap<String, Scalar>,
        key: &str,
        read: impl FnOnce(&Scalar) -> Result<T, String>,
    ) -> Result<T, ConfigError> {
        let name = format!("member.{key}");
        let Some(value) = block.get(key) else {
            return Err(
                self.bad_member(&name, &format!("is missing: add `{key} = ...` to the block"))
            );
        };
        read(value).map_err(|problem| self.bad_member(&name, &problem))
    }

    fn bad_member(&self, key: &str, problem: &str) -> ConfigError {
        let origin = Origin::File(self.file.clone());
        ConfigError::BadValue { origin, key: key.to_owned(), problem: problem.to_owned() }
    }
}

fn is_section(key: &str) -> bool {
    KEYS.iter().any(|known| known.split_once('.').is_some_and(|(section, _)| section == key))
}

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    File(PathBuf),
    Env(String),
    /// The flag as typed.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Env(name) => write!(f, "environment variable {name}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// The reason for a rejected configuration.
#[derive(Debug, Error)]
pub(crate) enum ConfigError {
    #[error(
        "{}: cannot read the configuration: {source}; name an existing file with --config \
         (cluster-config/ has commented examples)",
        path.display()
    )]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{}: not valid TOML: {message}", path.display())]
    Syntax {
        path: PathBuf,
        /// The parser's message, with line and column.
        message: String,
    },
    #[error("{origin}: unknown key {key:?}{}; docs/configuration.md lists all keys", hint(similar.as_deref()))]
    UnknownKey {
        origin: Origin,
        key: String,
        /// The most similar known key.
        similar: Option<String>,
    },
    #[error("{origin}: {key}: {problem}")]
    BadValue {
        origin: Origin,
        key: String,
        /// The problem, and what to write instead.
        problem: String,
    },
    /// A required key is missing.
    #[error("{}: {key} is missing: {fix}", path.display())]
    Missing { path: PathBuf, key: String, fix: String },
    /// Some values contradict each other.
    #[error("{0}")]
    Inconsistent(String),
}

fn hint(similar: Option<&str>) -> String {
    similar.map_or_else(String::new, |key| format!(": did you mean {key:?}?"))
}
