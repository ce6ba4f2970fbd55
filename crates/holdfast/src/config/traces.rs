//! The section `[traces]`: the export of traces to a collector of OpenTelemetry.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use http::{HeaderName, HeaderValue, Uri};

use super::error::ConfigError;
use super::source::ConfigLayers;
use super::units;
use super::units::Scalar;

const SAMPLE_DEFAULT: f64 = 0.01;

/// The configuration of the export.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TracesConfig {
    /// The URL of the collector, without the path of the signal and without a slash at its end.
    pub(crate) endpoint: String,
    /// Of the calls without a `traceparent`, the share that is traced, from 0 to 1.
    pub(crate) sample: f64,
    headers_file: Option<PathBuf>,
}

impl TracesConfig {
    /// Reads the section; `None` if the node exports no traces.
    pub(super) fn read(layers: &ConfigLayers) -> Result<Option<Self>, ConfigError> {
        let endpoint = layers.optional("traces.endpoint", endpoint)?;
        let sample = layers.optional("traces.sample", sample)?;
        let headers_file = layers.optional("traces.headers_file", headers_file)?;
        match (endpoint, sample, headers_file) {
            (Some(endpoint), sample, headers_file) => {
                let sample = sample.unwrap_or(SAMPLE_DEFAULT);
                Ok(Some(Self { endpoint, sample, headers_file }))
            }
            (None, None, None) => Ok(None),
            (None, Some(_), _) => Err(without_endpoint("traces.sample")),
            (None, None, Some(_)) => Err(without_endpoint("traces.headers_file")),
        }
    }

    /// The headers of each export. They may be secret, so that the configuration does not keep them.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn headers(&self) -> Result<HashMap<String, String>, String> {
        self.headers_file.as_deref().map_or_else(|| Ok(HashMap::new()), read_headers)
    }
}

fn without_endpoint(key: &str) -> ConfigError {
    let fix = "set it to the URL of your collector, or remove the section [traces]";
    ConfigError::Inconsistent(format!("{key} needs traces.endpoint: {fix}"))
}

fn endpoint(value: &Scalar) -> Result<String, String> {
    let wanted = "the URL of a collector, such as \"http://127.0.0.1:4318\"";
    let text = value.text(wanted)?.trim_end_matches('/');
    let uri: Uri = text.parse().map_err(|_| format!("{text:?} is not a URL: write {wanted}"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(format!("{text:?} is not an http or https URL: write {wanted}"));
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("has a password, which logs would show: put the header Authorization into traces.headers_file".to_owned());
    }
    if uri.query().is_some() || uri.path().ends_with("/v1/traces") {
        return Err(format!(
            "{text:?} has more than the base: the node adds /v1/traces; write {wanted}"
        ));
    }
    Ok(text.to_owned())
}

fn sample(value: &Scalar) -> Result<f64, String> {
    let wanted = "a number from 0 to 1, such as 0.01 for one call in a hundred";
    let sample = match value {
        Scalar::Fraction(sample) => Some(*sample),
        Scalar::Number(0) => Some(0.0),
        Scalar::Number(1) => Some(1.0),
        Scalar::Text(text) => text.trim().parse().ok(),
        Scalar::Number(_) | Scalar::Bool(_) | Scalar::Other(_) => None,
    };
    sample
        .filter(|sample| (0.0..=1.0).contains(sample))
        .ok_or_else(|| format!("is not a share of the calls: write {wanted}"))
}

fn headers_file(value: &Scalar) -> Result<PathBuf, String> {
    let path = units::path(value)?;
    read_headers(&path).map(|_| path)
}

/// Reads one header a line, such as `Authorization: Bearer …`. Empty lines, and lines with `#`, are comments.
fn read_headers(path: &Path) -> Result<HashMap<String, String>, String> {
    let text = fs::read_to_string(path).map_err(|error| {
        format!("cannot read {}: {error}; name a file that this node can read", path.display())
    })?;
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let header = |(at, line): (usize, &str)| {
        let pair = line.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
        let pair = pair.filter(|(name, value)| {
            name.parse::<HeaderName>().is_ok() && value.parse::<HeaderValue>().is_ok()
        });
        let (name, value) = pair.ok_or_else(|| {
            format!("{}: line {} is not a header: write NAME: VALUE", path.display(), at + 1)
        })?;
        Ok((name.to_owned(), value.to_owned()))
    };
    lines.map(header).collect()
}
