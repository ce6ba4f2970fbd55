//! A recording: a script with a server's replies, for comparison without that server.
//!
//! Format: comments (`#`), then one line for each step (`> step`), followed by its replies, indented by two spaces.

use crate::play::Transcript;
use crate::script::{Step, parse_script};

/// A script and its transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Description for readers.
    pub about: String,
    /// The script.
    pub steps: Vec<Step>,
    /// The transcript.
    pub transcript: Transcript,
}

impl Recording {
    /// Parses a file's text.
    ///
    /// # Errors
    /// The line and its error.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut about, mut steps, mut transcript) = (String::new(), Vec::new(), Transcript::new());
        for line in text.lines() {
            if let Some(comment) = line.strip_prefix('#') {
                about.push_str(comment.trim());
                about.push('\n');
            } else if let Some(step) = line.strip_prefix("> ") {
                steps.extend(parse_script(step)?);
                transcript.push(Vec::new());
            } else if let Some(seen) = line.strip_prefix("  ") {
                let lines = transcript.last_mut().ok_or("a line before the first step")?;
                lines.push(seen.to_owned());
            } else if !line.trim().is_empty() {
                return Err(format!("`{line}`: neither a step nor a reply"));
            }
        }
        Ok(Self { about, steps, transcript })
    }

    /// Writes it.
    pub fn print(&self) -> String {
        let nothing = Vec::new();
        let mut out: Vec<String> = self.about.lines().map(|line| format!("# {line}")).collect();
        for (at, step) in self.steps.iter().enumerate() {
            out.push(format!("> {step}"));
            let lines = self.transcript.get(at).unwrap_or(&nothing);
            out.extend(lines.iter().map(|line| format!("  {line}")));
        }
        out.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Generator;

    #[test]
    fn every_generated_script_round_trips() {
        for seed in 0..200 {
            let steps = Generator::script(seed, 100);
            let transcript = steps.iter().map(|_| vec!["0 reply h:1 done".to_owned()]).collect();
            let recording = Recording { about: format!("seed {seed}\n"), steps, transcript };
            assert_eq!(Recording::parse(&recording.print()).unwrap(), recording);
        }
    }
}
