//! Credentials written out in a configuration file. A harness is a template: values come from outside.

use redact::find_secret_in_field;
use yaml::{Diagnostic, Node};

use crate::resolve::Resolved;
use crate::resolve::layers::LayerKind;
use crate::resolve::library::Library;

/// Looks at every scalar of the harness files and of the layers' configuration.
pub fn check(library: &mut Library, resolved: &Resolved, problems: &mut Vec<Diagnostic>) {
    let mut files = resolved.files.clone();
    for layer in [LayerKind::Organisation, LayerKind::Repository] {
        files.extend(library.layers.get(layer).and_then(|layer| layer.find("config.yaml")));
    }
    for found in files {
        problems.extend(library.diagnostics(&found, literals).iter().cloned());
    }
}

pub fn literals(tree: &Node) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    tree.each_scalar(&mut |path, node| problems.extend(literal(path, node)));
    problems
}

/// A value that the secret scanner knows. `${VAR}` is never one; the text around it may be.
fn literal(path: &str, node: &Node) -> Option<Diagnostic> {
    let written = node.scalar()?;
    let text = &without_variables(written);
    let field = path.rsplit('.').next().unwrap_or(path);
    let secret = find_secret_in_field(field, text)?;
    let message = format!("`{path}` contains a credential in plain text ({})", secret.format);
    Some(
        Diagnostic::error("literal-credential", node.at, message)
            .label("if this was committed, revoke it")
            .help("keep it in a secret store, give it to the run as an environment variable, and write `${VARIABLE}` here"),
    )
}

fn without_variables(text: &str) -> String {
    let mut parts = text.split("${");
    let first = parts.next().unwrap_or("").to_owned();
    parts.fold(first, |all, part| all + part.split_once('}').map_or(part, |(_, rest)| rest))
}
