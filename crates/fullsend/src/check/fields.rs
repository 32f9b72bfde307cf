//! Rules between fields of one harness: required together, exclusive, deprecated.

use yaml::{Diagnostic, Span, Spanned};

use crate::harness::Harness;
use crate::harness::names::SandboxPath;
use crate::harness::provider::is_reserved_for;
use crate::harness::template::Template;
use crate::resolve::Resolved;
use crate::resolve::library::Library;

/// More attempts than this rarely help: then the prompt is wrong.
const MANY_ITERATIONS: u64 = 3;

pub fn check(library: &Library, resolved: &Resolved, problems: &mut Vec<Diagnostic>) {
    let harness = &resolved.harness;
    validation(library, resolved, problems);
    runtime_fetch(harness, problems);
    deprecated(harness, problems);
    names(harness, problems);
    destinations(harness, problems);
}

fn validation(library: &Library, resolved: &Resolved, problems: &mut Vec<Diagnostic>) {
    let harness = &resolved.harness;
    let repeats = &harness.validation_loop;
    if let (Some(one), Some(other)) = (&harness.output_schema, &repeats.schema)
        && one != other
    {
        let message = "`output_schema` and `validation_loop.schema` name different files, and they are the same setting";
        problems.push(
            Diagnostic::error("two-schemas", other.at, message)
                .related(one.at, "the other one")
                .help("keep one"),
        );
    }
    if let Some(block) = resolved.tree.get("validation_loop")
        && repeats.script.is_none()
        && harness.schema().is_none()
        && library.layer_of(block.at) != crate::resolve::layers::LayerKind::Builtin
        && block.get("preflight_check").is_none()
    {
        let message = "`validation_loop` has neither a `script` nor a schema, so it would accept anything";
        problems.push(
            Diagnostic::error("empty-validation", block.at, message)
                .help("name an `output_schema`, or a `script`"),
        );
    }
    if repeats.max_iterations.get() > MANY_ITERATIONS {
        let message = format!(
            "`validation_loop.max_iterations` is {}: each attempt runs the agent again and costs as much as the first",
            repeats.max_iterations.value
        );
        problems.push(
            Diagnostic::warning("many-iterations", repeats.max_iterations.at, message)
                .help("an agent that fails twice needs a better prompt or schema"),
        );
    }
}

fn runtime_fetch(harness: &Harness, problems: &mut Vec<Diagnostic>) {
    if harness.allow_runtime_fetch.value && harness.allowed_remote_resources.is_empty() {
        let message = "`allow_runtime_fetch` needs at least one prefix in `allowed_remote_resources`";
        problems.push(Diagnostic::error("nothing-to-fetch", harness.allow_runtime_fetch.at, message));
    }
    if let (Some(most), false) = (&harness.max_runtime_fetches, harness.allow_runtime_fetch.value) {
        let message = "`max_runtime_fetches` has no meaning without `allow_runtime_fetch: true`";
        problems.push(
            Diagnostic::error("no-runtime-fetch", most.at, message).help("remove it, or allow fetching"),
        );
    }
}

fn deprecated(harness: &Harness, problems: &mut Vec<Diagnostic>) {
    for (name, value) in harness.runner_env.0.iter() {
        let shadowed = harness.env.runner.0.get(name).is_some();
        let (message, help) = if shadowed {
            (
                format!(
                    "`runner_env.{}` has no effect: `env.runner.{}` takes precedence",
                    name.value, name.value
                ),
                "remove it",
            )
        } else {
            (format!("`runner_env.{}` is deprecated", name.value), "move it to `env.runner`")
        };
        problems.push(Diagnostic::warning("deprecated", value.at, message).help(help));
    }
    for file in &harness.host_files.0 {
        if file.expand == Some(true) && file.dest.as_str().contains("/.env.d/") {
            let message = "an expanded file in `.env.d/` is deprecated";
            problems.push(
                Diagnostic::warning("deprecated", file.dest.at, message)
                    .help("move its variables to `env.sandbox`"),
            );
        }
    }
}

fn names(harness: &Harness, problems: &mut Vec<Diagnostic>) {
    let reserved =
        |(name, value): &(&Spanned<String>, &Spanned<Template>)| is_reserved_for(name, value.raw());
    for (name, _) in harness.env.sandbox.0.iter().filter(reserved) {
        let message = format!("`env.sandbox.{}` is reserved: it decides how the sandbox works", name.value);
        problems.push(Diagnostic::error("reserved-name", name.at, message).help("choose another name"));
    }
    for (index, server) in harness.api_servers.iter().enumerate() {
        let same =
            |other: &&crate::harness::ApiServer| other.name == server.name || other.port == server.port;
        if let Some(other) = harness.api_servers[..index].iter().find(same) {
            let message = format!(
                "two api servers share the name `{}` or the port {}",
                server.name.value, server.port.value
            );
            problems.push(
                Diagnostic::error("server-collision", server.name.at, message)
                    .related(other.name.at, "the other one"),
            );
        }
    }
    if harness.agent.local().is_some_and(|path| !path.as_str().ends_with(".md")) {
        problems.push(Diagnostic::error(
            "agent-file",
            harness.agent.at,
            "`agent` must be a Markdown file that ends in `.md`",
        ));
    } else if !crate::harness::names::is_identifier(harness.agent.stem()) {
        let message = "the name of the agent's file must be made of letters, digits, `-` and `_`";
        problems.push(Diagnostic::error("agent-file", harness.agent.at, message));
    }
}

/// Host files may land in the workspace and the temporary directories, never over what the harness itself provides.
fn destinations(harness: &Harness, problems: &mut Vec<Diagnostic>) {
    for file in &harness.host_files.0 {
        if let Some(why) = refused_destination(&file.dest) {
            let message = format!("`{}` {why}", file.dest.value);
            problems.push(
                Diagnostic::error("destination", file.dest.at, message)
                    .help("choose a path below /sandbox/workspace"),
            );
        }
    }
}

fn refused_destination(dest: &SandboxPath) -> Option<&'static str> {
    let path = dest.as_str().replacen("/tmp/workspace", "/sandbox/workspace", 1);
    let below = |place: &str| path == place || path.starts_with(&format!("{place}/"));
    let provided = ["/sandbox/workspace/.env", "/sandbox/workspace/.claude", "/sandbox/workspace/output"];
    if provided.iter().any(|place| below(place)) {
        return Some("is written by fullsend");
    }
    if ["/proc", "/dev", "/sys"].iter().any(|place| below(place)) {
        return Some("cannot hold files of the host");
    }
    None
}

/// The span for messages about the whole harness.
pub fn place(resolved: &Resolved) -> Span {
    resolved.harness.agent.at
}
