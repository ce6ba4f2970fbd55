//! The header `traceparent` of W3C Trace Context, and the part of it that nodes send each other.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The parent of a span: a trace, and one of its spans. Neither id is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceContext {
    pub trace: u128,
    pub span: u64,
}

/// The value of the header for a sampled trace.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-01", self.trace, self.span)
    }
}

/// The value of a header `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traceparent {
    pub context: TraceContext,
    /// Whether the caller traces the call.
    pub sampled: bool,
}

/// The text is not a `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextError;

impl FromStr for Traceparent {
    type Err = ContextError;

    /// Reads version 00, and the fields of version 00 from a later version.
    fn from_str(text: &str) -> Result<Self, ContextError> {
        let mut fields = text.split('-');
        let mut next = |len: usize| fields.next().and_then(|field| hex(field, len));
        let (version, trace, span, flags) = (next(2), next(32), next(16), next(2));
        let is_readable = match version {
            Some(0) => fields.next().is_none(),
            Some(version) => version < 0xff,
            None => false,
        };
        let (Some(trace @ 1..), Some(span @ 1..), Some(flags), true) =
            (trace, span, flags, is_readable)
        else {
            return Err(ContextError);
        };
        let span = u64::try_from(span).map_err(|_| ContextError)?;
        Ok(Self { context: TraceContext { trace, span }, sampled: flags & 1 == 1 })
    }
}

/// Reads lower-case hexadecimal digits.
fn hex(field: &str, len: usize) -> Option<u128> {
    let is_hex = field.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if field.len() != len || !is_hex {
        return None;
    }
    u128::from_str_radix(field, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: u128 = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;
    const SAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn the_flag_decides_and_the_context_is_written_as_it_was_read() {
        let read: Traceparent = SAMPLED.parse().unwrap();
        let context = TraceContext { trace: TRACE, span: 0x00f0_67aa_0ba9_02b7 };
        assert_eq!(read, Traceparent { context, sampled: true });
        assert_eq!(read.context.to_string(), SAMPLED);
        for (flags, sampled) in [("00", false), ("02", false), ("03", true), ("ff", true)] {
            let text = SAMPLED.replace("-01", &format!("-{flags}"));
            assert_eq!(text.parse(), Ok(Traceparent { context, sampled }), "{text}");
        }
        let later = SAMPLED.replacen("00-", "cc-", 1) + "-what-the-future-adds";
        assert_eq!(later.parse(), Ok(read));
    }

    #[test]
    fn other_texts_are_errors() {
        let no_trace = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        let no_span = "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01";
        let forbidden = SAMPLED.replacen("00-", "ff-", 1);
        let (longer, upper) = (format!("{SAMPLED}-00"), SAMPLED.to_uppercase());
        let signed = SAMPLED.replacen("-4bf9", "-+bf9", 1);
        for text in ["", "00", no_trace, no_span, &forbidden, &longer, &upper, &signed] {
            assert_eq!(text.parse::<Traceparent>(), Err(ContextError), "{text:?}");
        }
    }
}
