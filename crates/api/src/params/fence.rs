//! Asking whether a token is still good.

use holdfast_types::FencingToken;

use super::query::Query;
use super::{REDIRECT, ReadParams, about};
use crate::{Absent, ErrorCode, Fields, Param, ParamList, Refusal};

/// How a token is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FenceModeParam {
    /// It must be the present holder's.
    #[default]
    Current,
    /// It must not be smaller than any that was granted.
    Monotonic,
}

/// `GET /v1/fence/{name}`: is this token still good?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceParams {
    /// The token to judge.
    pub token: FencingToken,
    /// How.
    pub mode: FenceModeParam,
    /// How to read.
    pub read: ReadParams,
}

impl FenceParams {
    /// What the call takes.
    pub const KEYS: ParamList = ParamList::of_call(&[
        Param::number("token", (0, FencingToken::END - 1), "The token to judge").needed("1"),
        Param::word(
            "mode",
            &["current", "monotonic"],
            "It must be the present holder's, or just not smaller than any that was granted",
        )
        .absent(Absent::Word("current")),
        about::STALE,
        about::REDIRECT,
    ]);

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead; the token is needed.
    pub fn parse(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let mode = match fields.value("mode") {
            None | Some("current") => FenceModeParam::Current,
            Some("monotonic") => FenceModeParam::Monotonic,
            Some(_) => {
                let detail = "'mode' is neither 'current' nor 'monotonic'";
                return Err(Refusal::of("mode", ErrorCode::InvalidArgument, detail));
            }
        };
        Ok(Self { token: token(fields)?, mode, read: ReadParams::parse(fields) })
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        query.text("token", Some(&self.token.to_string()));
        query.text("mode", (self.mode == FenceModeParam::Monotonic).then_some("monotonic"));
        query.flag("stale", self.read.stale);
        query.flag(REDIRECT, self.read.redirect);
        query.0
    }
}

fn token(fields: &Fields<'_>) -> Result<FencingToken, Refusal> {
    let refused = |detail: &str| {
        Refusal::of("token", ErrorCode::InvalidArgument, detail)
            .hint("add ?token=N with the number of the grant")
    };
    let text = fields.value("token").ok_or_else(|| refused("the token to judge is missing"))?;
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let token = text.parse().ok().filter(|n| digits && *n < FencingToken::END);
    token.map(FencingToken).ok_or_else(|| refused("'token' is not a number below 2^53"))
}
