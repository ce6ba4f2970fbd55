//! The proof that a caller owns the data directory of a node: a file with random text in it, and the text in the call.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Args;
use holdfast_api::{ErrorCode, JsonBody, Problem};
use holdfast_client::http::Method;
use holdfast_client::{Call, Copies, Error};
use holdfast_types::OWNER_PROOF_FILE;
use serde_json::{Map, Value};

use crate::arguments::NodesArgs;
use crate::exit::CommandFailure;
use crate::new_file::{as_owner_of, write_file};

/// The data directory of the node that is called.
#[derive(Debug, Args)]
pub(crate) struct OwnerArgs {
    /// The data directory of a node in --addr. The command writes a file there, and the node reads it.
    #[arg(long, value_name = "DIR", env = "HOLDFAST_DATA_DIR")]
    pub data_dir: PathBuf,
}

/// The file, which exists until the node has read it or this is dropped.
pub struct OwnerProof {
    file: PathBuf,
    text: String,
}

impl OwnerProof {
    /// Writes the file, for the owner of the directory also if the caller is root.
    pub fn write(data_dir: &Path) -> Result<Self, CommandFailure> {
        let file = data_dir.join(OWNER_PROOF_FILE);
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(CommandFailure::failed)?;
        let text = URL_SAFE_NO_PAD.encode(bytes);
        as_owner_of(data_dir, || write_file(&file, &text, 0o600))??;
        Ok(Self { file, text })
    }

    /// Sends the call to each node until one accepts it: only the node of the directory can check the proof.
    pub(crate) async fn send<T: JsonBody>(
        &self,
        nodes: &NodesArgs,
        path: &str,
        params: Map<String, Value>,
    ) -> Result<T, CommandFailure> {
        let call = self.call(path, params);
        let mut failed = Vec::new();
        for address in &nodes.addr {
            match nodes.only(address).client()?.call(&call).await {
                Err(error) if may_be_another_node(&error) => failed.push((address.as_str(), error)),
                result => return Ok(result?),
            }
        }
        Err(nodes.failure(failed))
    }

    /// The call with the proof and other parameters in its body: logs may show the target. It is not repeated after a lost
    /// answer, because a copy would create a second secret.
    pub fn call(&self, path: &str, mut params: Map<String, Value>) -> Call {
        params.insert("proof".to_owned(), self.text.as_str().into());
        let body = Value::from(params).to_string().into_bytes();
        Call { body, ..Call::new(Method::POST, path).copies(Copies::Never) }
    }
}

/// Whether the node has certainly not executed the call, and another node may accept it.
fn may_be_another_node(error: &Error) -> bool {
    let is_forbidden = |problem: &Problem| problem.code == ErrorCode::Forbidden;
    matches!(error, Error::Unavailable(_)) || error.problem().is_some_and(is_forbidden)
}

impl Drop for OwnerProof {
    fn drop(&mut self) {
        // The node deletes the file after it has compared it.
        drop(std::fs::remove_file(&self.file));
    }
}
