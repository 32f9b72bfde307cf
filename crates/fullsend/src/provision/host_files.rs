//! Files of the host that the harness names: read after the pre-script, which may have created them, and read-only
//! inside. A file that contains a credential is delivered unchanged, and is an exception in the record; with `mask: true` its values are
//! placeholders. A start file of a shell sets variables, so it gets the placeholder too.

use std::io::Read;
use std::path::{Path, PathBuf};

use sandbox::{Mount, MountKind};
use scan::Origin;
use serde_json::Value as Json;

use super::env_files::EnvFileError;
use super::placeholders::Placeholders;
use super::quoting::Quoting;
use super::{ProvisionError, RunContext, env_files, masked_file, start_files};
use crate::event::{InputKind, RunEvent};
use crate::harness::Harness;
use crate::harness::reference::LocalPath;
use crate::harness::skills::HostFile;
use crate::harness::template::Template;
use crate::inputs::InputScanner;
use crate::inputs::instruction_files::{Coverage, ScannedFile, walk};
use crate::resolve::layers::LayerReadError;
use crate::resolve::library::Library;
use crate::resolve::variables::VariableLookup;
use crate::runtime::paths;

/// Where files of variables are.
const VARIABLES: &str = "/sandbox/workspace/.env.d/";

/// The name of a `.env` file, for which `Quoting::of` picks the quoting of a shell.
const SHELL_NAME: &str = "variables.env";

/// The largest file that is copied in.
const MAX_BYTES: u64 = 64 << 20;

#[derive(Debug)]
pub struct HostFileError {
    /// `host_files` or `agent_input`.
    pub field: &'static str,
    pub source: String,
    pub why: String,
}

impl std::fmt::Display for HostFileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` `{}` {}", self.field, self.source, self.why)
    }
}

impl std::error::Error for HostFileError {}

/// The mounts and variables that the host files become.
#[derive(Debug, Default)]
pub struct DeliveredFiles {
    pub mounts: Vec<Mount>,
    /// The variables that the files in `.env.d/` set.
    pub variables: Vec<(String, String)>,
    /// Files in `.env.d/` that only a shell can read. They are evaluated inside.
    pub shell_files: Vec<ShellFile>,
}

/// A file of variables with shell code.
#[derive(Debug)]
pub struct ShellFile {
    /// As the harness names it.
    pub source: String,
    /// Its path inside.
    pub target: String,
    /// The text for the shell. `${VAR}` is expanded already if the harness has `expand: true`.
    pub text: String,
}

/// Delivers the host files and `agent_input`. They are scanned here, after the pre-script, which may have made them. A
/// finding that blocks stops the run; otherwise they are delivered unchanged. Files that need a shell are scanned in
/// `shell_variables.rs`.
pub fn deliver(
    harness: &Harness,
    placeholders: &Placeholders<'_>,
    around: &RunContext<'_>,
) -> Result<DeliveredFiles, ProvisionError> {
    let scanner = InputScanner { guard: around.guard, emit: around.emit };
    let mut delivered = DeliveredFiles::default();
    for file in &harness.host_files.0 {
        let Some(contents) =
            contents(file, &mut delivered, placeholders, around).map_err(ProvisionError::HostFile)?
        else {
            continue;
        };
        let target = target(file);
        let scan = |contents: &[u8]| {
            let found = scanner.file(InputKind::HostFile, &target, contents, Origin::Configuration);
            found.map_err(ProvisionError::Blocked)
        };
        if start_files::is_start_file(&target) {
            let text = placeholders.conceal(&target, &String::from_utf8_lossy(&contents));
            scan(text.as_bytes())?;
            delivered.mounts.extend(start_files::mounts(&target, &text, placeholders));
        } else {
            // Files of variables and masked files have placeholders already.
            if !target.starts_with(VARIABLES) && file.mask != Some(true) {
                note_credential(file, &contents, placeholders, around);
            }
            scan(&contents)?;
            let kind = MountKind::File { contents, mode: 0o444 };
            delivered.mounts.push(Mount { target: target.into(), kind });
        }
    }
    if let Some(input) = &harness.agent_input {
        let source = input_directory(&input.value, around.library, around.repository, around.variables)
            .map_err(ProvisionError::HostFile)?;
        scanner
            .directory(InputKind::AgentInput, "agent-input", &source, Origin::Issue, &[])
            .map_err(ProvisionError::Blocked)?;
        refuse_credentials(&source, input.value.raw(), placeholders).map_err(ProvisionError::HostFile)?;
        let kind = MountKind::ReadOnly { source };
        delivered.mounts.push(Mount { target: paths::AGENT_INPUT.into(), kind });
    }
    Ok(delivered)
}

/// Checks the file before the pre-script runs, as far as possible: the pre-script may still create it. Returns the
/// names of the variables that it sets.
pub fn check(
    file: &HostFile,
    has_pre_script: bool,
    library: &Library,
    variables: VariableLookup<'_>,
) -> Result<Vec<String>, HostFileError> {
    let may_change = |path: String| path.starts_with('/') && has_pre_script;
    if file.src.expand(variables).is_ok_and(may_change) {
        return Ok(Vec::new());
    }
    match load(file, library, variables, variables)? {
        Some(HostFileContents::Variables(found)) => Ok(found.into_iter().map(|(name, _)| name).collect()),
        _ => Ok(Vec::new()),
    }
}

/// The mount or variables that one file becomes.
enum HostFileContents {
    /// A file of variables.
    Variables(Vec<(String, String)>),
    /// A file of variables that only a shell can read.
    Shell(String),
    Expanded(Vec<u8>),
    Verbatim(Vec<u8>),
}

/// The path inside. `/tmp/workspace` is an alias of `/sandbox/workspace`.
fn target(file: &HostFile) -> String {
    file.dest.as_str().replacen("/tmp/workspace", "/sandbox/workspace", 1)
}

/// What the file becomes inside; `None` if it is missing, or needs a shell.
fn contents(
    file: &HostFile,
    delivered: &mut DeliveredFiles,
    placeholders: &Placeholders<'_>,
    around: &RunContext<'_>,
) -> Result<Option<Vec<u8>>, HostFileError> {
    // The path of a source uses the host's values; the contents of a file use the sandbox's.
    let sources = around.variables;
    Ok(match load(file, around.library, sources, &|name| placeholders.expand(name))? {
        None => None,
        Some(HostFileContents::Variables(found)) => {
            let found = placeholders.filter(file.dest.as_str(), found);
            let text = env_files::write(&found);
            delivered.variables.extend(found);
            Some(text.into_bytes())
        }
        Some(HostFileContents::Shell(text)) => {
            let source = file.src.raw().to_owned();
            delivered.shell_files.push(ShellFile { source, target: target(file), text });
            None
        }
        Some(HostFileContents::Expanded(bytes) | HostFileContents::Verbatim(bytes))
            if file.mask == Some(true) =>
        {
            let wrong = |why| HostFileError { field: "host_files", source: file.src.raw().to_owned(), why };
            let text = String::from_utf8(bytes)
                .map_err(|_| wrong("is not text, and cannot be masked".to_owned()))?;
            Some(masked_file::mask(&text, placeholders).map_err(wrong)?.into_bytes())
        }
        Some(HostFileContents::Expanded(bytes) | HostFileContents::Verbatim(bytes)) => Some(bytes),
    })
}

/// A credential enters by `host_files` alone.
fn refuse_credentials(
    directory: &Path,
    source: &str,
    placeholders: &Placeholders<'_>,
) -> Result<(), HostFileError> {
    walk(directory, Coverage::Everything, Origin::Issue, &mut |seen: ScannedFile<'_>| {
        let Ok(bytes) = &seen.contents else { return Ok(()) };
        let found = placeholders.found_in(&String::from_utf8_lossy(bytes)).into_iter().next();
        found.map_or(Ok(()), |name| {
            let why = format!(
                "contains the credential {name} of a provider, in {}: a file with a credential enters by \
                 `host_files` alone",
                seen.path
            );
            Err(HostFileError { field: "agent_input", source: source.to_owned(), why })
        })
    })
}

/// `None`: the file is optional and missing. `sources` has the values for the path on the host, `values` those for the
/// contents.
fn load(
    file: &HostFile,
    library: &Library,
    sources: VariableLookup<'_>,
    values: VariableLookup<'_>,
) -> Result<Option<HostFileContents>, HostFileError> {
    let wrong = |why: String| HostFileError { field: "host_files", source: file.src.raw().to_owned(), why };
    let optional = file.optional == Some(true);
    let path = match file.src.expand(sources) {
        Ok(path) if path.is_empty() && optional => return Ok(None),
        Ok(path) => path,
        Err(_) if optional => return Ok(None),
        Err(name) => return Err(wrong(format!("needs the variable {name}, which is not set"))),
    };
    let bytes = match read(&path, file.src.at, library) {
        Ok(bytes) => bytes,
        Err(LayerReadError::Missing) if optional => return Ok(None),
        Err(error) => return Err(wrong(error.to_string())),
    };
    let target = target(file);
    let expands = file.expand == Some(true);
    Ok(Some(if target.starts_with(VARIABLES) {
        let text = std::str::from_utf8(&bytes).map_err(|_| wrong("is not text".to_owned()))?;
        match env_files::parse(text, expands.then_some(values)) {
            Ok(found) => HostFileContents::Variables(found),
            Err(EnvFileError::Refused(why)) => return Err(wrong(why)),
            Err(EnvFileError::Logic(_)) if expands => {
                let expanded = expand(&bytes, Quoting::of(SHELL_NAME), values).map_err(wrong)?;
                HostFileContents::Shell(String::from_utf8_lossy(&expanded).into_owned())
            }
            Err(EnvFileError::Logic(_)) => HostFileContents::Shell(text.to_owned()),
        }
    } else if expands {
        HostFileContents::Expanded(expand(&bytes, Quoting::of(&target), values).map_err(wrong)?)
    } else {
        HostFileContents::Verbatim(bytes)
    }))
}

/// An absolute path is the host's; any other is the layers'.
fn read(path: &str, at: yaml::Span, library: &Library) -> Result<Vec<u8>, LayerReadError> {
    if !path.starts_with('/') {
        let local = LocalPath::parse(path).map_err(|_| LayerReadError::Outside)?;
        let found = library.find(&local, at, "host_files").map_err(|_| LayerReadError::Missing)?;
        return library.layers.layer(&found).read(&found.path).map(|text| text.as_bytes().to_vec());
    }
    let about = std::fs::metadata(path)?;
    if about.is_dir() {
        return Err(LayerReadError::Directory);
    }
    if !about.is_file() {
        return Err(LayerReadError::NotAFile);
    }
    if about.len() > MAX_BYTES {
        return Err(LayerReadError::TooLarge { bytes: about.len(), most: MAX_BYTES });
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Expands `${VAR}` in the contents, line by line.
fn expand(bytes: &[u8], mut quoting: Quoting, variables: VariableLookup<'_>) -> Result<Vec<u8>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "is not text, and cannot be expanded".to_owned())?;
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let template = Template::parse(line).map_err(|why| format!("{why}: {}", line.trim()))?;
        for part in template.parts() {
            match part {
                Ok(text) => {
                    quoting.pass(text);
                    out.push_str(text);
                }
                Err(name) => {
                    let value = variables(name)
                        .ok_or_else(|| format!("needs the variable {name}, which is not set"))?;
                    out.push_str(&quoting.write(&value).map_err(|why| format!("{why}: {}", line.trim()))?);
                }
            }
        }
    }
    Ok(out.into_bytes())
}

/// A credential that enters the sandbox as a file is an exception in the record, and its values are masked everywhere.
fn note_credential(file: &HostFile, bytes: &[u8], placeholders: &Placeholders<'_>, around: &RunContext<'_>) {
    let text = String::from_utf8_lossy(bytes);
    let deliver = |what: String| {
        around.emit.emit(RunEvent::Exception {
            field: "host_files".to_owned(),
            what: format!("delivers {what} to {}", file.dest.value),
            reason: "the harness names it".to_owned(),
            until: String::new(),
        });
    };
    let declared = placeholders.found_in(&text);
    declared.iter().for_each(|name| deliver(format!("the credential {name} of a provider")));
    let mut found = Vec::new();
    let text = text.as_ref();
    match serde_json::from_str(text) {
        Ok(document) => secrets_of("", &document, &mut found),
        Err(_) => found.extend(
            redact::find_secrets(text)
                .into_iter()
                .map(|secret| (secret.format, text[secret.range].to_owned())),
        ),
    }
    found.retain(|(_, value)| !placeholders.has_placeholder(value));
    if let Some((format, _)) = found.first().filter(|_| declared.is_empty()) {
        deliver(format!("a credential ({format})"));
    }
    for (format, value) in found {
        // A value that is too short to be masked stays visible.
        drop(around.guard.add_known_value(format, &value));
    }
}

/// A JSON document is parsed, so that values are found without JSON's escapes.
fn secrets_of(field: &str, value: &Json, found: &mut Vec<(&'static str, String)>) {
    match value {
        Json::String(text) => {
            let secret = redact::find_secret_in_field(field, text);
            found.extend(secret.map(|secret| (secret.format, text[secret.range].to_owned())));
        }
        Json::Array(items) => items.iter().for_each(|item| secrets_of(field, item, found)),
        Json::Object(fields) => fields.iter().for_each(|(name, value)| secrets_of(name, value, found)),
        _ => {}
    }
}

/// A directory of a layer or of the repository, not through a link that leaves it; or one that the operator names in a
/// variable.
pub fn input_directory(
    input: &Template,
    library: &Library,
    repository: &Path,
    variables: VariableLookup<'_>,
) -> Result<PathBuf, HostFileError> {
    let wrong = |why: String| HostFileError { field: "agent_input", source: input.raw().to_owned(), why };
    let path = input
        .expand(variables)
        .map_err(|name| wrong(format!("needs the variable {name}, which is not set")))?;
    let (place, root) = if path.starts_with('/') {
        (PathBuf::from(&path), PathBuf::from("/"))
    } else {
        let local = LocalPath::parse(&path).map_err(wrong)?;
        match library.layers.find(&local) {
            Some(found) => {
                let root = library.layers.layer(&found).path().unwrap_or(repository);
                (root.join(&found.path), root.to_owned())
            }
            None => (repository.join(&path), repository.to_owned()),
        }
    };
    let place = place.canonicalize().ok().filter(|place| place.is_dir());
    let place = place.ok_or_else(|| wrong("is not a directory".to_owned()))?;
    if place.starts_with(&root) {
        Ok(place)
    } else {
        Err(wrong("is a symbolic link to a place outside its directory".to_owned()))
    }
}
