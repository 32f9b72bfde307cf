//! `session create`: an agent, where it runs, what it is given. All of that is kept for good; nothing runs yet.

use std::io::Write;
use std::path::Path;

use clap::Args;
use serde_json::json;

use super::super::configuration::{Configuration, ConfigurationOptions};
use super::super::exit::{Exit, Failure};
use super::store::{StoreArguments, failure, moment};
use crate::resolve::{environment, resolve};
use crate::wake::resources::MOUNTS_BELOW;
use session::{ResourceAccess, SessionEnvironment, SessionHeader, SessionId, SessionResource, Sha256Digest};

#[derive(Args, Debug)]
pub struct Arguments {
    /// The harness that its wakes run
    #[arg(long, value_name = "NAME")]
    agent: String,
    /// Where it runs: environments/ID.yaml of a layer
    #[arg(long, value_name = "ID")]
    environment: Option<String>,
    /// A file or directory of this machine for the agent: SOURCE:MOUNT, or SOURCE:MOUNT:rw; may be given several times
    #[arg(long, value_name = "SOURCE:MOUNT[:rw]")]
    resource: Vec<String>,
    /// Its id, chosen by you: created again with the same one, it is the same session
    #[arg(long, value_name = "ID")]
    id: Option<SessionId>,
    /// Print JSON, as it does anyway
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: StoreArguments,
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
    let mut sessions = arguments.place.open()?;
    let mut moment = moment(&mut sessions)?;
    // Creating it again must not fail because time went on.
    let known =
        arguments.id.and_then(|id| sessions.session(id).ok()).map(|session| session.header.created_ms);
    let header = SessionHeader {
        id: arguments.id.unwrap_or_else(|| SessionId::generate(&mut moment)),
        agent: arguments.agent.clone(),
        environment,
        resources,
        created_ms: known.unwrap_or(moment.now),
    };
    let session = sessions.create(&header).map_err(failure)?;
    writeln!(std::io::stdout().lock(), "{}", json!({ "id": session.header.id }))?;
    Ok(Exit::Done)
}

fn digested(opened: &mut Configuration, id: &str) -> Result<SessionEnvironment, Failure> {
    let found = environment::find(&opened.library, id);
    let digest = found.and_then(|found| environment::digest(&mut opened.library, &found));
    let digest =
        digest.ok_or_else(|| Failure::new(Exit::Missing, format!("environment `{id}` cannot be read")))?;
    Ok(SessionEnvironment { id: id.to_owned(), digest: Sha256Digest(digest) })
}

/// `SOURCE:MOUNT[:rw]`. A mount without a leading slash lies below the workspace.
fn resource(text: &str) -> Result<SessionResource, Failure> {
    let wrong = |why: String| {
        Failure::new(Exit::Usage, format!("--resource {text}: {why}")).help(format!(
            "write SOURCE:MOUNT or SOURCE:MOUNT:rw, such as ./docs:docs; mounts lie below {MOUNTS_BELOW}"
        ))
    };
    let (rest, access) = match text.rsplit_once(':') {
        Some((rest, "rw")) => (rest, ResourceAccess::ReadWrite),
        Some((rest, "ro")) => (rest, ResourceAccess::ReadOnly),
        _ => (text, ResourceAccess::ReadOnly),
    };
    let (source, mount) = rest.rsplit_once(':').ok_or_else(|| wrong("it names no mount".to_owned()))?;
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
