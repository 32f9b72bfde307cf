//! Who signs records: `--sign`, or the variable FULLSEND_SIGN_KEY.

use std::collections::BTreeMap;

use super::configuration::variable;
use super::exit::{Exit, Failure};
use crate::record::dsse::RecordSigner;
use crate::scripts;

/// Loads the signer that the caller names, so that a wrong key stops a run before it starts.
pub fn signer(
    given: Option<&str>,
    environment: &BTreeMap<String, String>,
) -> Result<Option<RecordSigner>, Failure> {
    let Some(text) = given.map(str::to_owned).or_else(|| variable("FULLSEND_SIGN_KEY")) else {
        return Ok(None);
    };
    let mut variables = scripts::base_environment(environment);
    // A command that asks an agent or a hardware token for a signature needs these variables.
    for name in ["SSH_AUTH_SOCK", "GPG_TTY", "XDG_RUNTIME_DIR", "USER", "LOGNAME"] {
        variables.extend(variable(name).map(|value| (name.to_owned(), value)));
    }
    RecordSigner::load(&text, variables)
        .map(Some)
        .map_err(|error| Failure::new(Exit::Missing, format!("the record cannot be signed: {error}")))
}
