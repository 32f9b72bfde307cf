//! Fields that are read, merged and explained, and that a run cannot honour yet. A harness that uses one is refused when
//! it runs: nothing is ever left out in silence. Each line here goes away with the work that makes the field live.

use yaml::Diagnostic;

use crate::check::Checked;
use crate::check::references::image_to_pull;
use crate::resolve::library::Library;

/// One error for each field that this run would have to ignore.
pub fn unbuilt(checked: &Checked, library: &Library) -> Vec<Diagnostic> {
    let harness = &checked.resolved.harness;
    let image = image_to_pull(library, harness);
    let image = image.map(|(at, message)| Diagnostic::error("image-not-pulled", at, message));
    let mut found: Vec<Diagnostic> = image.into_iter().collect();
    let mut say = |at, field: &str, instead: &str| {
        let message = format!("`{field}` is not honoured by a run yet, and is never ignored");
        found.push(Diagnostic::error("not-built", at, message).help(instead.to_owned()));
    };
    if let Some(model) = &harness.security.host_scanners.llm_guard.model {
        say(
            model.at,
            "security.host_scanners.llm_guard.model",
            "leave it out: there is no learned scanner yet",
        );
    }
    for endpoint in checked.policy.policy.networks.iter().flat_map(|network| &network.endpoints) {
        if endpoint.credentials.signing.is_some() {
            say(endpoint.at, "credential_signing", "requests are not signed yet: leave the endpoint out");
        }
    }
    found
}
