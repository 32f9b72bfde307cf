//! `session create`: stores the agent, the environment and the resources of a new session. They never change later. Nothing
//! runs yet.

use std::io::Write;
use std::path::Path;

use clap::Args;
use serde_json::json;

use super::super::configuration::{Configuration, ConfigurationOptions, remote_owner};
use super::super::exit::{Exit, Failure};
use super::repository::repository_id;
use super::store::{StoreOptions, failure, time_seed};
use crate::resolve::{environment, resolve};
use crate::wake::resources::{MOUNTS_BELOW, REMOTE_KIND};
use session::{
    ResourceAccess, SessionEnvironment, SessionHeader, SessionId, SessionResource, Sessions, Sha256Digest,
};
use yaml::Diagnostic;

#[derive(Args, Debug)]
pub struct Arguments {
    /// Run this harness in every wake
    #[arg(long, value_name = "NAME")]
    agent: String,
    /// Run in this environment: environments/ID.yaml of a layer
    #[arg(long, value_name = "ID")]
    environment: Option<String>,
    /// Mount a file or directory: SOURCE:MOUNT, or SOURCE:MOUNT:rw for write access; can be repeated. SOURCE is a path of
    /// this machine, git+https://HOST/REPOSITORY@COMMIT//PATH or https://HOST/FILE#sha256=DIGEST
    #[arg(long, value_name = "SOURCE:MOUNT[:rw]")]
    resource: Vec<String>,
    /// Work on this branch, tag or commit in every wake, instead of the default branch; for workers with --checkout. The
    /// harness is that of the default branch
    #[arg(long = "ref", value_name = "REF")]
    reference: Option<String>,
    /// Run only on workers with this label; can be repeated
    #[arg(long, value_name = "LABEL")]
    label: Vec<String>,
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
    let resources = arguments.resource.iter().map(|text| resource(text)).collect::<Result<_, _>>()?;
    let new = NewSession {
        agent: arguments.agent.clone(),
        environment: arguments.environment.clone(),
        reference: arguments.reference.clone(),
        labels: arguments.label.clone(),
        resources,
        id: arguments.id,
    };
    let mut opened = arguments.layers.open()?;
    let mut problems = Vec::new();
    let Some(checked) = new.check(&mut opened, &mut problems)? else {
        super::super::check::show(&opened.library.sources, &problems);
        return Ok(super::super::check::verdict(&problems));
    };
    let mut sessions = arguments.store.of(&arguments.layers).open()?;
    let id = new.store(&mut sessions, &opened, checked)?;
    writeln!(std::io::stdout().lock(), "{}", json!({ "id": id }))?;
    Ok(Exit::Done)
}

/// What a new session runs, where, and with what.
pub struct NewSession {
    pub agent: String,
    pub environment: Option<String>,
    pub reference: Option<String>,
    pub labels: Vec<String>,
    pub resources: Vec<SessionResource>,
    pub id: Option<SessionId>,
}

/// The digests that a session stores of the files that it is created from.
struct CheckedFiles {
    harness: Sha256Digest,
    environment: Option<SessionEnvironment>,
}

impl NewSession {
    /// Creates the session. The first problem of its harness is the error.
    pub fn create(
        &self,
        sessions: &mut Sessions,
        layers: &ConfigurationOptions,
    ) -> Result<SessionId, Failure> {
        let mut opened = layers.open()?;
        let mut problems = Vec::new();
        let Some(checked) = self.check(&mut opened, &mut problems)? else {
            let why = problems.first().map_or("the harness is not valid", |problem| problem.message.as_str());
            return Err(Failure::new(Exit::Invalid, why));
        };
        self.store(sessions, &opened, checked)
    }

    /// The digests of the session's files, if the harness can be resolved.
    fn check(
        &self,
        opened: &mut Configuration,
        problems: &mut Vec<Diagnostic>,
    ) -> Result<Option<CheckedFiles>, Failure> {
        opened.choices.environment.clone_from(&self.environment);
        let Some(resolved) = resolve(&mut opened.library, &self.agent, &opened.choices, problems) else {
            return Ok(None);
        };
        let harness = resolved.digest(&mut opened.library).map(Sha256Digest);
        let harness = harness
            .ok_or_else(|| Failure::new(Exit::Missing, format!("cannot read harness `{}`", self.agent)))?;
        let environment = self.environment.as_ref().map(|id| digested(opened, id)).transpose()?;
        Ok(Some(CheckedFiles { harness, environment }))
    }

    fn store(
        &self,
        sessions: &mut Sessions,
        opened: &Configuration,
        checked: CheckedFiles,
    ) -> Result<SessionId, Failure> {
        let mut seed = time_seed(sessions)?;
        let id = self.id.unwrap_or_else(|| SessionId::generate(&mut seed));
        let mut labels = self.labels.clone();
        labels.sort();
        labels.dedup();
        let mut header = SessionHeader {
            repository: Some(repository_id(&opened.repository)),
            organisation: remote_owner(&opened.repository),
            harness: Some(checked.harness),
            labels,
            environment: checked.environment,
            resources: self.resources.clone(),
            ..SessionHeader::new(id, &self.agent, seed.now).at(self.reference.clone())
        };
        // A repeated call must send the same header. The time and the harness may have changed since the first one.
        if let Some(known) = self.id.and_then(|id| sessions.session(id).ok()).map(|known| known.header) {
            header.version = known.version;
            header.created_ms = known.created_ms;
            header.organisation = known.organisation;
            header.harness = known.harness;
        }
        Ok(sessions.create(&header).map_err(failure)?.header.id)
    }
}

pub(super) fn digested(opened: &mut Configuration, id: &str) -> Result<SessionEnvironment, Failure> {
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
    let (kind, source) = if source.starts_with("https:") || source.starts_with("git+") {
        (REMOTE_KIND, source.to_owned())
    } else {
        let path = Path::new(source).canonicalize().map_err(|error| wrong(format!("{source}: {error}")))?;
        let kind = if path.is_dir() { "directory" } else { "file" };
        (kind, path.to_str().ok_or_else(|| wrong("the source is not UTF-8".to_owned()))?.to_owned())
    };
    let mount = if mount.starts_with('/') { mount.to_owned() } else { format!("{MOUNTS_BELOW}/{mount}") };
    let resource = SessionResource {
        id: mount.rsplit('/').next().unwrap_or_default().to_owned(),
        kind: kind.to_owned(),
        source,
        mount,
        access,
    };
    crate::wake::resources::check(&resource).map_err(wrong)?;
    Ok(resource)
}
