//! The proof that a caller owns the data directory of this node: the content of a file that it has written there.

use std::path::Path;

use holdfast_types::OWNER_PROOF_FILE;
use subtle::ConstantTimeEq as _;

/// The shortest proof, bytes.
const PROOF_BYTES_MIN: usize = 32;

/// Compares a proof with the file, and deletes the file. Returns false if they differ or there is no file.
pub fn take_owner_proof(data_dir: &Path, proof: &str) -> bool {
    let file = data_dir.join(OWNER_PROOF_FILE);
    let Ok(expected) = std::fs::read_to_string(&file) else { return false };
    let is_equal: bool = expected.trim().as_bytes().ct_eq(proof.as_bytes()).into();
    // A wrong proof leaves the file, so that another caller cannot end a call of the owner.
    proof.len() >= PROOF_BYTES_MIN && is_equal && std::fs::remove_file(file).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_accepted_once_and_only_if_it_is_equal() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(OWNER_PROOF_FILE);
        let proof = "0123456789abcdef0123456789abcdef";
        assert!(!take_owner_proof(dir.path(), proof));
        std::fs::write(&file, format!("{proof}\n")).unwrap();
        assert!(!take_owner_proof(dir.path(), "0123456789abcdef0123456789abcdee"));
        assert!(take_owner_proof(dir.path(), proof));
        assert!(!take_owner_proof(dir.path(), proof));
        std::fs::write(&file, "short\n").unwrap();
        assert!(!take_owner_proof(dir.path(), "short"));
    }
}
