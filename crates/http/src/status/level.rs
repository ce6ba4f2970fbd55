//! Rejections that the feature level causes.

use holdfast_api::{ErrorCode, Problem};
use holdfast_types::{FeatureLevel, RoleName};

use super::HttpError;

pub(super) fn too_low(needed: FeatureLevel) -> HttpError {
    let detail = format!("the call needs the feature level {needed}");
    let hint =
        format!("when every node runs a program that knows it: holdfast cluster level {needed}");
    Box::new(Problem::new(ErrorCode::LevelTooLow, detail).hint(hint))
}

pub(super) fn not_one_step(present: FeatureLevel) -> HttpError {
    let detail = format!("the cluster has the feature level {present}, and it changes by one");
    not_ready(detail)
}

pub(super) fn in_use(role: &RoleName) -> HttpError {
    let detail = format!("the role '{role}' has a permission of the present feature level");
    let hint = format!("replace its permissions: holdfast auth role set {role}");
    Box::new(Problem::new(ErrorCode::LevelNotReady, detail).hint(hint))
}

pub(super) fn not_ready(detail: String) -> HttpError {
    let hint = "holdfast cluster level shows the programs of all nodes";
    Box::new(Problem::new(ErrorCode::LevelNotReady, detail).hint(hint))
}
