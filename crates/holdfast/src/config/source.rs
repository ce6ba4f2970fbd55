//! Gathers the three layers, file < environment < flags, and remembers where each value came from.
//!
//! Owns the merge and the refusal of unknown keys. Refuses to know what a key means: readers are handed in.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use holdfast_types::NodeId;

use super::error::Origin;
use super::schema::{KEYS, MEMBER_KEYS, PREFIX, is_foreign, nearest, variable};
use super::{Address, ConfigError, Member, units};

/// Where a configuration comes from. The environment is handed in, so that tests need not change their own.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    /// The TOML file.
    pub(crate) file: PathBuf,
    /// The environment: names and values.
    pub(crate) environment: Vec<(String, String)>,
    /// Flags: how the flag is typed, the key it sets, the value.
    pub(crate) flags: Vec<(String, String, String)>,
}

impl Sources {
    /// The file and this process's environment.
    pub(crate) fn of_process(file: PathBuf) -> Self {
        let utf8 = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self {
            file,
            environment: std::env::vars_os().filter_map(utf8).collect(),
            flags: Vec::new(),
        }
    }

    /// Adds a flag that sets a key.
    #[must_use]
    pub(crate) fn with_flag(mut self, flag: &str, key: &str, value: Option<String>) -> Self {
        self.flags.extend(value.map(|value| (flag.to_owned(), key.to_owned(), value)));
        self
    }
}

/// A value before its key's reader has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    /// Text: a TOML string, or anything from the environment or a flag.
    Text(String),
    /// A TOML number.
    Number(i64),
    /// A TOML `true` or `false`.
    Truth(bool),
    /// A TOML value of a kind that no key takes.
    Other(&'static str),
}

impl Scalar {
    /// The text, or a complaint that says what was wanted.
    pub(super) fn text(&self, wanted: &str) -> Result<&str, String> {
        match self {
            Self::Text(text) if text.trim().is_empty() => Err(format!("is empty: write {wanted}")),
            Self::Text(text) => Ok(text),
            Self::Number(number) => Err(format!("{number} is a bare number: write {wanted}")),
            Self::Truth(truth) => Err(format!("is {truth}: write {wanted}")),
            Self::Other(kind) => Err(format!("is {kind}: write {wanted}")),
        }
    }

    fn of(value: &toml::Value) -> Self {
        match value {
            toml::Value::String(text) => Self::Text(text.clone()),
            toml::Value::Integer(number) => Self::Number(*number),
            toml::Value::Float(_) => Self::Other("a fraction"),
            toml::Value::Boolean(truth) => Self::Truth(*truth),
            toml::Value::Datetime(_) => Self::Other("a date"),
            toml::Value::Array(_) => Self::Other("a list"),
            toml::Value::Table(_) => Self::Other("a table"),
        }
    }
}

/// All layers merged.
#[derive(Debug)]
pub(super) struct Layers {
    file: PathBuf,
    values: BTreeMap<String, (Scalar, Origin)>,
    members: Vec<BTreeMap<String, Scalar>>,
}

impl Layers {
    pub(super) fn gather(sources: &Sources) -> Result<Self, ConfigError> {
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
                let meant = nearest(key, MEMBER_KEYS.iter().copied());
                return Err(ConfigError::UnknownKey {
                    origin: Origin::File(self.file.clone()),
                    key: format!("member.{key}"),
                    meant: meant.map(|key| format!("member.{key}")),
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
                let meant = nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
                return Err(ConfigError::UnknownKey { origin, key: name.clone(), meant });
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
            let meant = nearest(&key, known).map(str::to_owned);
            return Err(ConfigError::UnknownKey { origin, key, meant });
        }
        self.values.insert(key, (value, origin));
        Ok(())
    }

    /// A key that need not be there.
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

    /// A key with a default.
    pub(super) fn or<T>(
        &self,
        key: &str,
        read: impl FnOnce(&Scalar) -> Result<T, String>,
        default: T,
    ) -> Result<T, ConfigError> {
        Ok(self.optional(key, read)?.unwrap_or(default))
    }

    /// A key that must be there.
    pub(super) fn required<T>(
        &self,
        key: &str,
        read: impl FnOnce(&Scalar) -> Result<T, String>,
    ) -> Result<T, ConfigError> {
        self.optional(key, read)?.ok_or_else(|| ConfigError::Missing {
            path: self.file.clone(),
            key: key.to_owned(),
            fix: format!("write `{key} = ...` at the top of the file, or set {}", variable(key)),
        })
    }

    /// The `[[member]]` blocks, with unique ids and addresses that parse.
    pub(super) fn members(&self) -> Result<BTreeMap<NodeId, Member>, ConfigError> {
        let mut members = BTreeMap::new();
        for block in &self.members {
            let id = NodeId(self.member_key(block, "id", units::node_id)?);
            let member = Member {
                http: self.member_key(block, "http", Address::read)?,
                peer: self.member_key(block, "peer", Address::read)?,
                zookeeper: self.member_key(block, "zookeeper", Address::read)?,
            };
            if members.insert(id, member).is_some() {
                let problem = format!("{id} is given twice: every node has an id of its own");
                return Err(self.bad_member("member.id", &problem));
            }
        }
        if members.is_empty() {
            let fix = "write one [[member]] block with id, http, peer and zookeeper for each node";
            let (path, key) = (self.file.clone(), "member".to_owned());
            return Err(ConfigError::Missing { path, key, fix: fix.to_owned() });
        }
        Ok(members)
    }

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
