//! `session create`: stores the agent, the environment and the resources of a new session. They never change later. Nothing
//! runs yet.

use std::io::Write;
use std::path::Path;

use clap::Args;
use serde_json::json;

use super::super::configuration::{Configuration, ConfigurationOptions};
use super::super::exit::{Exit, Failure};
use super::repository::repository_id;
use super::store::{StoreOptions, failure, time_seed};
use crate::resolve::{environment, resolve};
use crate::wake::resources::MOUNTS_BELOW;
use session::{ResourceAccess, SessionEnvironment, SessionHeader, SessionId, SessionResource, Sha256Digest};

#[derive(Args, Debug)]
pub struct Arguments {
    /// Run this harness in every wake
    #[arg(long, value_name = "NAME")]
    agent: String,
    /// Run in this environment: environments/ID.yaml of a layer
    #[arg(long, value_name = "ID")]
    environment: Option<String>,
    /// Mount a file or directory of this machine: SOURCE:MOUNT, or SOURCE:MOUNT:rw for write access; can be repeated
    #[arg(long, value_name = "SOURCE:MOUNT[:rw]")]
    resource: Vec<String>,
    /// Use this id; creating it again returns the same session
    #[arg(long, value_name = "ID")]
    id: Option<SessionId>,
    /// Print JSON; this is the default
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreOptions,
    #[command(flatten)]
    layers: ConfigurationOptions,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let mut opened = arguments.layers.open()?;
    opened.choices.environment.clone_from(&arguments.environment);
    let mut problems = Vec::new();
    let resolved = resolve(&mut opened.library, &arguments.agent, &opened.choices, &mut problems);
    if resolved.is_none() {
        super::super::check::show(&opened.library.sources, &problems);
        return Ok(super::super::check::verdict(&problems));
    }
    let resources = arguments.resource.iter().map(|text| resource(text)).collect::<Result<_, _>>()?;
    let environment = arguments.environment.as_ref().map(|id| digested(&mut opened, id)).transpose()?;
    let mut sessions = arguments.store.open()?;
    let mut seed = time_seed(&mut sessions)?;
    // A repeated call must send the same header, so it uses the time of the first session.
    let known =
        arguments.id.and_then(|id| sessions.session(id).ok()).map(|session| session.header.created_ms);
    let header = SessionHeader {
        id: arguments.id.unwrap_or_else(|| SessionId::generate(&mut seed)),
        repository: Some(repository_id(&opened.repository)),
        agent: arguments.agent.clone(),
        environment,
        resources,
        created_ms: known.unwrap_or(seed.now),
        imported: false,
    };
    let session = sessions.create(&header).map_err(failure)?;
    writeln!(std::io::stdout().lock(), "{}", json!({ "id": session.header.id }))?;
    Ok(Exit::Done)
}

fn digested(opened: &mut Configuration, id: &str) -> Result<SessionEnvironment, Failure> {
    let found = environment::find(&opened.library, id);
    let digest = found.and_then(|found| environment::digest(&mut opened.library, &found));
    let digest =
        digest.ok_or_else(|| Failure::new(Exit::Missing, format!("cannot read environment `{id}`")))?;
    Ok(SessionEnvironment { id: id.to_owned(), digest: Sha256Digest(digest) })
}

/// `SOURCE:MOUNT[:rw]`. A mount without a leading slash is below the directory of resources.
fn resource(text: &str) -> Result<SessionResource, Failure> {
    let wrong = |why: String| {
        Failure::new(Exit::Usage, format!("--resource {text}: {why}")).help(format!(
            "write SOURCE:MOUNT or SOURCE:MOUNT:rw, such as ./docs:docs; mounts are below {MOUNTS_BELOW}"
        ))
    };
    let (rest, access) = match text.rsplit_once(':') {
        Some((rest, "rw")) => (rest, ResourceAccess::ReadWrite),
        Some((rest, "ro")) => (rest, ResourceAccess::ReadOnly),
        _ => (text, ResourceAccess::ReadOnly),
    };
    let (source, mount) = rest.rsplit_once(':').ok_or_else(|| wrong("the mount is missing".to_owned()))?;
    let path = Path::new(source).canonicalize().map_err(|error| wrong(format!("{source}: {error}")))?;
    let kind = if path.is_dir() { "directory" } else { "file" };
    let mount = if mount.starts_with('/') { mount.to_owned() } else { format!("{MOUNTS_BELOW}/{mount}") };
    let resource = SessionResource {
        id: mount.rsplit('/').next().unwrap_or_default().to_owned(),
        kind: kind.to_owned(),
        source: path.to_str().ok_or_else(|| wrong("the source is not UTF-8".to_owned()))?.to_owned(),
        mount,
        access,
    };
    crate::wake::resources::check(&resource).map_err(|why| wrong(why.to_owned()))?;
    Ok(resource)
}
