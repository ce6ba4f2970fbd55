//! The first administrator of a development cluster.

use crate::owner_proof::OwnerProof;
use holdfast_api::IssuedTokenBody;
use holdfast_client::Client;
use serde_json::Map;

use super::layout::Layout;
use super::secure::SecureFiles;

/// Adds the administrator of a secure cluster, unless an earlier start did, and keeps its access token.
pub(super) async fn add_administrator(layout: &Layout, files: &SecureFiles) -> Result<(), String> {
    if files.token.exists() {
        return Ok(());
    }
    let token = first_administrator(layout).await?;
    let header = format!("Authorization: Bearer {token}\n");
    let written = crate::write_file(&files.token, &header, 0o600);
    written.map_err(|error| format!("{}: {error}", files.token.display()))
}

/// Adds the first administrator through the first node, and returns the access token.
pub async fn first_administrator(layout: &Layout) -> Result<String, String> {
    let endpoint = layout.http(1).to_string();
    let client = match layout.security() {
        Some(files) => files.client(&endpoint)?,
        None => Client::builder([endpoint]).build().map_err(|error| error.to_string())?,
    };
    let proof = OwnerProof::write(&layout.data_dir(1))?;
    let call = proof.call("/v1/auth/bootstrap", Map::new());
    let issued = client.call::<IssuedTokenBody>(&call).await;
    Ok(issued.map_err(|error| error.to_string())?.token)
}
