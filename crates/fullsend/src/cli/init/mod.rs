//! `fullsend init`: a working `.fullsend` directory with one harness that `check` accepts. Existing files stay
//! unchanged.

mod ci;
mod claude;
mod project;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::exit::{Exit, Failure};
use crate::check::codeowners;
use crate::defaults;
use crate::harness::names::RuntimeName;
use crate::render::schema;
use crate::runtime;
use project::Toolchain;

#[derive(Args, Debug)]
pub struct Arguments {
    /// Use this runtime: native, claude or codex [default: native, or claude with --from-claude]
    #[arg(long, value_parser = parse_runtime)]
    runtime: Option<RuntimeName>,
    /// Add this owner of .fullsend to CODEOWNERS, such as @acme/platform
    #[arg(long, value_name = "@OWNER")]
    owner: Option<String>,
    /// Also write a pipeline that runs the agent on pull or merge requests
    #[arg(long, value_name = "FORGE")]
    ci: Option<ci::Forge>,
    /// Copy the agents and skills of .claude and the MCP servers of .mcp.json
    #[arg(long)]
    from_claude: bool,
    /// Use this repository [default: the one around the current directory]
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
}

pub(super) fn parse_runtime(word: &str) -> Result<RuntimeName, String> {
    RuntimeName::parse(word).ok_or_else(|| format!("one of {}", RuntimeName::WORDS.join(", ")))
}

/// A file that was written, or kept as it was.
struct WrittenFile {
    path: String,
    is_new: bool,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let place = super::configuration::ConfigurationOptions {
        repo: arguments.repo.clone(),
        fullsend_dir: None,
        org_dir: None,
        config_ref: Some("worktree".to_owned()),
        forge: None,
    };
    let repository = place.repository()?;
    let toolchains = project::detect(&repository);
    let default = if arguments.from_claude { RuntimeName::Claude } else { RuntimeName::Native };
    let runtime = arguments.runtime.unwrap_or(default);
    let variable = model_variable(runtime);
    let layer = repository.join(".fullsend");
    let mut written = Vec::new();
    let mut left = Vec::new();
    if arguments.from_claude {
        let taken_over = claude::take_over(&repository, &layer, &toolchains)?;
        written.extend(taken_over.written);
        left.extend(taken_over.left);
    }
    for (name, text) in files(runtime, &toolchains) {
        written.push(write_new(&layer, name, &text)?);
    }
    written.iter_mut().for_each(|file| file.path = format!(".fullsend/{}", file.path));
    if let Some(forge) = arguments.ci {
        written.extend(ci::write(&repository, forge, variable)?);
    }
    let mut out = std::io::stdout().lock();
    for WrittenFile { path, is_new } in written {
        writeln!(out, "{} {path}", if is_new { "wrote" } else { "kept " })?;
    }
    for sentence in left {
        writeln!(out, "left  {sentence}")?;
    }
    writeln!(out, "{}", add_code_owner(&repository, arguments.owner.as_deref())?)?;
    super::write_stderr(&format!("\n{}", next(&toolchains, variable)));
    Ok(Exit::Done)
}

/// What was found, and the commands that lead to the first result.
fn next(toolchains: &[Toolchain], variable: &str) -> String {
    let found: Vec<String> = toolchains
        .iter()
        .map(|found| match &found.test {
            Some(test) => format!("{} (tests: `{test}`, packages: `{}`)", found.language, found.network),
            None => format!("{} (packages: `{}`)", found.language, found.network),
        })
        .collect();
    let found = if found.is_empty() { String::new() } else { format!("Found: {}.\n", found.join(", ")) };
    format!("{found}Next: set {variable}, then `fullsend check` and `fullsend run assess`.\n")
}

/// Path below `.fullsend`, and the text.
fn files(runtime: RuntimeName, toolchains: &[Toolchain]) -> Vec<(&'static str, String)> {
    let init = runtime::of(runtime).init;
    let is_listed = |line: &&str| init.lists_tools || !line.starts_with("tools:");
    let harness = defaults::INIT_HARNESS.replace("runtime: native", &format!("runtime: {runtime}"));
    let agent: String = defaults::INIT_AGENT.split_inclusive('\n').filter(is_listed).collect();
    vec![
        ("harness/assess.yaml", harness + &network_line(toolchains)),
        ("agents/assess.md", agent + &test_line(toolchains)),
        ("schemas/assess.json", defaults::INIT_SCHEMA.to_owned()),
        ("policies/assess.yaml", defaults::INIT_POLICY.to_owned()),
        ("providers/model.yaml", init.provider.to_owned()),
        (".editor/harness.schema.json", format!("{:#}\n", schema::harness())),
        (".editor/policy.schema.json", format!("{:#}\n", schema::policy())),
        (".editor/provider.schema.json", format!("{:#}\n", schema::provider())),
        (".editor/config.schema.json", format!("{:#}\n", schema::config())),
    ]
}

/// The line of a harness that lets the agent fetch the project's packages.
fn network_line(toolchains: &[Toolchain]) -> String {
    let names: Vec<&str> = toolchains.iter().map(|found| found.network).collect();
    if names.is_empty() { String::new() } else { format!("network: [{}]\n", names.join(", ")) }
}

/// The sentence of the prompt that names the project's tests.
fn test_line(toolchains: &[Toolchain]) -> String {
    let mut commands: Vec<String> =
        toolchains.iter().filter_map(|found| found.test.as_ref()).map(|test| format!("`{test}`")).collect();
    commands.dedup();
    match &commands[..] {
        [] => String::new(),
        all => format!("\nThe project's tests run with {}.\n", all.join(" and ")),
    }
}

/// The variable that the runtime's provider reads its key from.
fn model_variable(runtime: RuntimeName) -> &'static str {
    let provider = runtime::of(runtime).init.provider;
    let value = provider.split_once("${").map_or("", |(_, rest)| rest);
    value.split_once('}').map_or("the key of the model", |(name, _)| name)
}

/// Writes the file below `root` unless there is one.
fn write_new(root: &Path, name: &str, text: &str) -> Result<WrittenFile, Failure> {
    write_bytes(root, name, text.as_bytes())
}

fn write_bytes(root: &Path, name: &str, bytes: &[u8]) -> Result<WrittenFile, Failure> {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(|error| failed(&path, &error))?;
    let is_new = match std::fs::File::create_new(&path) {
        Ok(mut file) => file.write_all(bytes).map(|()| true).map_err(|error| failed(&path, &error))?,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(failed(&path, &error)),
    };
    Ok(WrittenFile { path: name.to_owned(), is_new })
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("cannot read or write {}: {error}", path.display()))
}

/// Adds the line to CODEOWNERS, and returns a line about it.
fn add_code_owner(repository: &Path, owner: Option<&str>) -> Result<String, Failure> {
    let there = codeowners::PLACES.iter().find(|place| repository.join(place).is_file());
    if there.is_some() && codeowners::without_owner(repository).is_empty() {
        return Ok("kept  CODEOWNERS: .fullsend has an owner".to_owned());
    }
    let Some(owner) = owner else {
        // The owner of the remote may be an organisation, which cannot own files; its teams can.
        let whose = super::configuration::remote_owner(repository).unwrap_or_else(|| "your-org".to_owned());
        return Ok(format!(
            "left  CODEOWNERS: .fullsend has no owner; run init again with --owner @{whose}/TEAM, or with your own name"
        ));
    };
    let place = there.unwrap_or(&"CODEOWNERS");
    let path = repository.join(place);
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    let comment = "# Agent configuration: changes need an owner's review.";
    let line = format!("{before}{gap}{comment}\n/.fullsend/ {owner}\n");
    std::fs::write(&path, line)
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display())))?;
    Ok(format!("wrote {place}: /.fullsend/ {owner}"))
}
