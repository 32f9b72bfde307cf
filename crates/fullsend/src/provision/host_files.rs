//! Files of the host that the harness names: read after the pre-script, which may have made them, and shown inside
//! read-only at their destination. A file that holds a credential is delivered byte for byte, and is an exception that
//! the record names.

use std::io::Read;
use std::path::PathBuf;

use sandbox::{Mount, MountKind};
use scan::Origin;
use serde_json::Value as Json;

use super::quoting::Quoting;
use super::{ProvisionError, RunContext, env_files};
use crate::event::RunEvent;
use crate::harness::Harness;
use crate::harness::reference::LocalPath;
use crate::harness::skills::HostFile;
use crate::harness::template::Template;
use crate::inputs::Look;
use crate::resolve::layers::ReadError;

/// The largest file that is copied in.
const MAX_BYTES: u64 = 64 << 20;

#[derive(Debug)]
pub struct HostFileError {
    pub source: String,
    pub why: String,
}

impl std::fmt::Display for HostFileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the host file `{}` {}", self.source, self.why)
    }
}

impl std::error::Error for HostFileError {}

/// What the files of the host become inside.
#[derive(Debug, Default)]
pub struct Delivered {
    pub mounts: Vec<Mount>,
    /// Of the files in `.env.d/`.
    pub variables: Vec<(String, String)>,
}

/// All host files and `agent_input`.
/// All of it is scanned here, after the pre-script, which may have made it, and before there is a sandbox; and is
/// delivered as it is, whatever was found.
pub fn deliver(harness: &Harness, around: &RunContext<'_>) -> Result<Delivered, ProvisionError> {
    let look = Look { guard: around.guard, emit: around.emit };
    let (mut mounts, mut variables) = (Vec::new(), Vec::new());
    for file in &harness.host_files.0 {
        let mounted = mount(file, &mut variables, around).map_err(ProvisionError::HostFile)?;
        if let Some(Mount { kind: MountKind::File { contents, .. }, target }) = &mounted {
            look.file("host_file", &target.to_string_lossy(), contents, Origin::Configuration)
                .map_err(ProvisionError::Barred)?;
        }
        mounts.extend(mounted);
    }
    if let Some(input) = &harness.agent_input {
        let source = input_directory(&input.value, around).map_err(ProvisionError::HostFile)?;
        look.directory("agent_input", "agent-input", &source, Origin::Issue, &[])
            .map_err(ProvisionError::Barred)?;
        mounts.push(Mount {
            target: "/sandbox/workspace/agent-input".into(),
            kind: MountKind::ReadOnly { source },
        });
    }
    Ok(Delivered { mounts, variables })
}

fn mount(
    file: &HostFile,
    variables: &mut Vec<(String, String)>,
    around: &RunContext<'_>,
) -> Result<Option<Mount>, HostFileError> {
    let wrong = |why: String| HostFileError { source: file.src.raw().to_owned(), why };
    let optional = file.optional == Some(true);
    let path = match file.src.expand(around.variables) {
        Ok(path) if path.is_empty() && optional => return Ok(None),
        Ok(path) => path,
        Err(_) if optional => return Ok(None),
        Err(name) => return Err(wrong(format!("needs the variable {name}, which is not set"))),
    };
    let bytes = match read(&path, around) {
        Ok(bytes) => bytes,
        Err(ReadError::Missing) if optional => return Ok(None),
        Err(error) => return Err(wrong(error.to_string())),
    };
    let target = file.dest.as_str().replacen("/tmp/workspace", "/sandbox/workspace", 1);
    let contents = if target.starts_with("/sandbox/workspace/.env.d/") {
        let found = assignments(file, &bytes, around).map_err(wrong)?;
        let text = env_files::write(&found);
        variables.extend(found);
        text.into_bytes()
    } else if file.expand == Some(true) {
        expand(&bytes, Quoting::of(&target), around).map_err(wrong)?
    } else {
        note_credential(file, bytes, around)
    };
    Ok(Some(Mount { target: target.into(), kind: MountKind::File { contents, mode: 0o444 } }))
}

/// An absolute path is the host's; any other is the layers'.
fn read(path: &str, around: &RunContext<'_>) -> Result<Vec<u8>, ReadError> {
    if !path.starts_with('/') {
        let local = LocalPath::parse(path).map_err(|_| ReadError::Outside)?;
        let found = around.library.layers.find(&local).ok_or(ReadError::Missing)?;
        return around.library.layers.layer(&found).read(&found.path).map(|text| text.as_bytes().to_vec());
    }
    let about = std::fs::metadata(path)?;
    if about.is_dir() {
        return Err(ReadError::Directory);
    }
    if !about.is_file() {
        return Err(ReadError::NotAFile);
    }
    if about.len() > MAX_BYTES {
        return Err(ReadError::TooLarge { bytes: about.len(), most: MAX_BYTES });
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The variables of a file in `.env.d/`.
fn assignments(
    file: &HostFile,
    bytes: &[u8],
    around: &RunContext<'_>,
) -> Result<Vec<(String, String)>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "is not text".to_owned())?;
    env_files::parse(text, (file.expand == Some(true)).then_some(around.variables))
}

/// `${VAR}` in the contents, each line as a text of its own.
fn expand(bytes: &[u8], mut quoting: Quoting, around: &RunContext<'_>) -> Result<Vec<u8>, String> {
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
                    let value = (around.variables)(name);
                    let value =
                        value.ok_or_else(|| format!("needs the variable {name}, which is not set"))?;
                    out.push_str(&quoting.write(&value).map_err(|why| format!("{why}: {}", line.trim()))?);
                }
            }
        }
    }
    Ok(out.into_bytes())
}

/// A credential that enters the sandbox as a file is a weakness that was chosen: the record says so, and its values are
/// masked wherever they turn up.
fn note_credential(file: &HostFile, bytes: Vec<u8>, around: &RunContext<'_>) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(&bytes) else { return bytes };
    let mut found = Vec::new();
    match serde_json::from_str(text) {
        Ok(document) => secrets_of("", &document, &mut found),
        Err(_) => found.extend(
            redact::find_secrets(text)
                .into_iter()
                .map(|secret| (secret.format, text[secret.range].to_owned())),
        ),
    }
    if let Some((format, _)) = found.first() {
        around.emit.emit(RunEvent::Exception {
            field: "host_files".to_owned(),
            what: format!("delivers a credential ({format}) to {}", file.dest.value),
            reason: "the harness names it".to_owned(),
            until: String::new(),
        });
    }
    for (format, value) in found {
        // What is too short to be told from other text stays visible.
        drop(around.guard.learn(format, &value));
    }
    bytes
}

/// In a document values are as programs read them, without what JSON writes around them.
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

/// A directory of a layer or of the repository, and in neither through a link that leads out; or one that the operator
/// names in a variable.
fn input_directory(input: &Template, around: &RunContext<'_>) -> Result<PathBuf, HostFileError> {
    let wrong = |why: String| HostFileError { source: input.raw().to_owned(), why };
    let path = input
        .expand(around.variables)
        .map_err(|name| wrong(format!("needs the variable {name}, which is not set")))?;
    let (place, root) = if path.starts_with('/') {
        (PathBuf::from(&path), PathBuf::from("/"))
    } else {
        let local = LocalPath::parse(&path).map_err(wrong)?;
        match around.library.layers.find(&local) {
            Some(found) => {
                let root = around.library.layers.layer(&found).path().unwrap_or(around.repository);
                (root.join(&found.path), root.to_owned())
            }
            None => (around.repository.join(&path), around.repository.to_owned()),
        }
    };
    let place = place.canonicalize().ok().filter(|place| place.is_dir());
    let place = place.ok_or_else(|| wrong("is not a directory".to_owned()))?;
    if place.starts_with(&root) {
        Ok(place)
    } else {
        Err(wrong("leads out of its place through a link".to_owned()))
    }
}
