//! The names that all client libraries share: options with their defaults, errors, causes of a loss, members of a guard and
//! metrics. `names.json` is the table. Each adapter describes its library, and [`NameTable::differences`] compares both.
//!
//! The table has neutral names. Each language derives its own by the case of its style; an exception names its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::adapter::Adapter;
use crate::protocol::Call;

const ANSWER_TIME: Duration = Duration::from_secs(20);

/// What an adapter answers to `describe`: sections of names, each with its attributes.
pub type Description = BTreeMap<String, BTreeMap<String, Map<String, Value>>>;

/// The content of `names.json`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NameTable {
    /// The style of each language.
    pub languages: BTreeMap<String, LanguageStyle>,
    /// The names by section: `client_options`, `lock_options`, `errors`, `loss_causes`, `guard_members` and `metrics`.
    pub sections: BTreeMap<String, Vec<NamedItem>>,
}

/// How a language writes names.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LanguageStyle {
    /// The case of options, members and metrics.
    pub case: NameCase,
    /// Parts of names in capitals.
    #[serde(default)]
    pub initialisms: BTreeSet<String>,
    /// The end of the name of an error.
    #[serde(default)]
    pub error_suffix: String,
    /// The type of a duration without a unit of its own.
    pub duration: String,
    /// More names of a section, each with its reason.
    #[serde(default)]
    pub also: BTreeMap<String, BTreeMap<String, String>>,
}

/// The case of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameCase {
    /// `queue_max`
    Snake,
    /// `queueMax`
    Camel,
    /// `QueueMax`
    Pascal,
}

/// One name of the table.
#[derive(Clone, Debug, Deserialize)]
pub struct NamedItem {
    /// The neutral name, in snake case.
    pub name: String,
    /// For readers: what it means, or what the caller may do.
    #[serde(default)]
    pub meaning: String,
    /// The error codes that become this error.
    #[serde(default)]
    pub codes: Vec<String>,
    /// Languages that differ.
    #[serde(default)]
    pub except: BTreeMap<String, NameException>,
    /// What every library must agree on, e.g. `type` and `default`.
    #[serde(flatten)]
    pub attributes: Map<String, Value>,
}

/// How one language differs.
#[derive(Clone, Debug, Deserialize)]
pub struct NameException {
    /// Why.
    pub reason: String,
    /// The names in this language, instead of the derived one. Empty: the library has no such thing.
    pub names: Option<Vec<String>>,
    /// Attributes that differ. The comparison skips one that is `null`.
    #[serde(flatten)]
    pub attributes: Map<String, Value>,
}

/// Asks an adapter for the names of its library.
///
/// # Errors
/// If the adapter does not answer.
pub async fn describe(command: &str) -> Result<Description, String> {
    let mut adapter = Adapter::start(command)?;
    let id = adapter.send(Call::Describe {}).await?;
    let answer = adapter.answer(id, ANSWER_TIME).await?.ok_or("no answer to describe")?;
    let described = answer.result.map_err(|error| error.message)?;
    serde_json::from_value(described).map_err(|error| format!("describe: {error}"))
}

impl NameTable {
    /// Reads `names.json`.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn read() -> Result<Self, String> {
        serde_json::from_str(include_str!("../names.json"))
            .map_err(|error| format!("names.json: {error}"))
    }

    /// The differences between the table and a library, one line each.
    ///
    /// # Errors
    /// If the table has no such language.
    pub fn differences(&self, language: &str, found: &Description) -> Result<Vec<String>, String> {
        let style =
            self.languages.get(language).ok_or_else(|| format!("no language {language}"))?;
        let mut differences = Vec::new();
        for (section, items) in &self.sections {
            let wanted = wanted(section, items, language, style);
            let empty = BTreeMap::new();
            let found = found.get(section).unwrap_or(&empty);
            let also = style.also.get(section).cloned().unwrap_or_default();
            for (name, attributes) in &wanted {
                match found.get(name) {
                    None => differences.push(format!("{section}: {name} is missing")),
                    Some(found) => {
                        let of = format!("{section}: {name}");
                        differences.extend(differing(&of, attributes, found));
                    }
                }
            }
            let is_new = |name: &&String| !wanted.contains_key(*name) && !also.contains_key(*name);
            let more = found.keys().filter(is_new);
            differences.extend(more.map(|name| format!("{section}: the table has no {name}")));
            let gone = also.keys().filter(|name| !found.contains_key(*name));
            differences.extend(gone.map(|name| format!("{section}: {name} is missing")));
        }
        Ok(differences)
    }

    /// The kind of error that a code becomes: `rejected` unless the table names another one.
    pub fn kind_of_code(&self, code: &str) -> String {
        let errors = self.sections.get("errors").into_iter().flatten();
        let mut errors = errors.filter(|error| error.codes.iter().any(|named| named == code));
        errors.next().map_or("rejected".to_owned(), |error| error.name.replace('_', "-"))
    }
}

/// The names of a section as a language writes them, with their attributes.
fn wanted(
    section: &str,
    items: &[NamedItem],
    language: &str,
    style: &LanguageStyle,
) -> BTreeMap<String, Map<String, Value>> {
    let mut wanted = BTreeMap::new();
    for item in items {
        let exception = item.except.get(language);
        let derived = || vec![derived_name(section, &item.name, style)];
        let names = exception.and_then(|exception| exception.names.clone()).unwrap_or_else(derived);
        let mut attributes = item.attributes.clone();
        for (key, value) in exception.into_iter().flat_map(|exception| &exception.attributes) {
            if value.is_null() {
                attributes.remove(key);
            } else {
                attributes.insert(key.clone(), value.clone());
            }
        }
        for name in names {
            wanted.entry(name).or_insert_with(|| attributes.clone());
        }
    }
    wanted
}

fn derived_name(section: &str, name: &str, style: &LanguageStyle) -> String {
    match section {
        "errors" => in_case(name, NameCase::Pascal, &style.initialisms) + &style.error_suffix,
        // The words of the HTTP API, as they are.
        "loss_causes" => name.replace('_', "-"),
        _ => in_case(name, style.case, &style.initialisms),
    }
}

fn in_case(name: &str, case: NameCase, initialisms: &BTreeSet<String>) -> String {
    if case == NameCase::Snake {
        return name.to_owned();
    }
    let parts = name.split('_').enumerate();
    let written = parts.map(|(at, part)| match part.split_at_checked(1) {
        _ if initialisms.contains(part) => part.to_uppercase(),
        Some((first, rest)) if at > 0 || case == NameCase::Pascal => first.to_uppercase() + rest,
        Some(_) | None => part.to_owned(),
    });
    written.collect()
}

/// An attribute that a library does not have is `null`.
fn differing(of: &str, wanted: &Map<String, Value>, found: &Map<String, Value>) -> Vec<String> {
    let found = |key: &str| found.get(key).unwrap_or(&Value::Null);
    let differing = wanted.iter().filter(|(key, value)| found(key) != *value);
    differing
        .map(|(key, value)| format!("{of}: {key} is {}, the table has {value}", found(key)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(case: NameCase) -> LanguageStyle {
        LanguageStyle {
            case,
            initialisms: ["ttl".to_owned()]
                .into_iter()
                .filter(|_| case == NameCase::Pascal)
                .collect(),
            error_suffix: "Error".to_owned(),
            duration: String::new(),
            also: BTreeMap::new(),
        }
    }

    #[test]
    fn a_name_has_the_case_of_its_language() {
        let derived = |name, case| derived_name("lock_options", name, &style(case));
        assert_eq!(derived("queue_max", NameCase::Snake), "queue_max");
        assert_eq!(derived("queue_max", NameCase::Camel), "queueMax");
        assert_eq!(derived("queue_max", NameCase::Pascal), "QueueMax");
        assert_eq!(derived("ttl", NameCase::Pascal), "TTL");
        assert_eq!(derived_name("errors", "busy", &style(NameCase::Snake)), "BusyError");
        assert_eq!(
            derived_name("loss_causes", "not_renewed", &style(NameCase::Camel)),
            "not-renewed"
        );
    }

    #[test]
    fn every_exception_and_every_name_of_one_language_has_a_reason() {
        let table = NameTable::read().expect("a table");
        for item in table.sections.values().flatten() {
            for (language, exception) in &item.except {
                assert!(table.languages.contains_key(language), "{}: {language}", item.name);
                assert!(exception.reason.len() > 10, "{} in {language} has no reason", item.name);
            }
        }
        for reason in table.languages.values().flat_map(|style| style.also.values().flatten()) {
            assert!(reason.1.len() > 10, "{} has no reason", reason.0);
        }
    }
}
