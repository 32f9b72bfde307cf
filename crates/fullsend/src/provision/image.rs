//! The image of a run: found as the harness names it, unpacked, and made part of the sandbox's spec.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sandbox::SandboxSpec;

use super::RunContext;
use crate::cancel::Cancel;
use crate::event::finding::{FindingAction, FindingFamily, FindingOrigin, FindingSeverity};
use crate::event::log::Emitter;
use crate::event::{FindingEvent, InputKind, RunEvent};
use crate::harness::image::{ImageName, ImageRef};
use crate::harness::reference::LocalPath;
use crate::image::{self, Caps, Image, ImageError};
use crate::registry::{self, OnPullProgress, PullError, PullProgress, PullSettings};
use crate::resolve::Resolved;
use crate::resolve::library::Library;

/// Why the image of a run cannot be used.
#[derive(Debug)]
pub enum RunImageError {
    Image(ImageError),
    Pull(PullError),
}

impl std::fmt::Display for RunImageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Image(error) => error.fmt(f),
            Self::Pull(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RunImageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Image(error) => Some(error),
            Self::Pull(error) => Some(error),
        }
    }
}

impl From<ImageError> for RunImageError {
    fn from(error: ImageError) -> Self {
        Self::Image(error)
    }
}

impl From<PullError> for RunImageError {
    fn from(error: PullError) -> Self {
        Self::Pull(error)
    }
}

/// Where the image of a harness is.
enum ImagePlace {
    Host(PathBuf),
    Registry(ImageName),
}

/// The harness that needs the image, and the listener for its progress.
pub struct ImageSearch<'a> {
    pub resolved: &'a Resolved,
    pub library: &'a Library,
    pub variables: &'a dyn Fn(&str) -> Option<String>,
    pub cancel: &'a Cancel,
    pub on_progress: OnPullProgress<'a>,
}

/// The harness's image, pulled if it must be, and ready in the cache; its digest goes into the record.
pub fn prepare(resolved: &Resolved, around: &RunContext<'_>) -> Result<Option<Image>, RunImageError> {
    let named = resolved.harness.image.as_ref().map(|name| name.raw().to_owned()).unwrap_or_default();
    let on_progress = |progress: PullProgress| {
        let PullProgress { bytes, total_bytes } = progress;
        around.emit.emit(RunEvent::ImagePull { name: named.clone(), bytes, total_bytes });
    };
    let search = ImageSearch {
        resolved,
        library: around.library,
        variables: around.variables,
        cancel: around.cancel,
        on_progress: &on_progress,
    };
    let Some((name, image)) = find(&search)? else { return Ok(None) };
    let sha256 = image.digest.clone();
    around.emit.emit(RunEvent::Input { kind: InputKind::Image, name, sha256 });
    Ok(Some(image))
}

/// The harness's image by its name, ready in the cache.
pub fn find(search: &ImageSearch<'_>) -> Result<Option<(String, Image)>, RunImageError> {
    let ImageSearch { resolved, library, variables, cancel, on_progress } = search;
    let Some((name, place)) = locate(resolved, library, variables)? else { return Ok(None) };
    let cache = cache(variables).ok_or_else(no_cache)?;
    let path = match place {
        ImagePlace::Host(path) => path,
        ImagePlace::Registry(image) => {
            let store = registry::store_directory(variables).ok_or_else(no_cache)?;
            registry::fetch(&image, &pull_settings(resolved, &store), variables, cancel, *on_progress)?
        }
    };
    let image = image::prepare(&path, &cache, Caps::default())?;
    Ok(Some((name, image)))
}

/// Whether a run would refuse the harness's image. No registry is contacted.
pub fn check(
    resolved: &Resolved,
    library: &Library,
    variables: &dyn Fn(&str) -> Option<String>,
) -> Result<(), RunImageError> {
    let path = match locate(resolved, library, variables)? {
        None => return Ok(()),
        Some((_, ImagePlace::Host(path))) => Some(path),
        Some((_, ImagePlace::Registry(image))) => {
            let store = registry::store_directory(variables).ok_or_else(no_cache)?;
            registry::find(&image, &pull_settings(resolved, &store))?
        }
    };
    Ok(path.map_or(Ok(()), |path| image::check(&path))?)
}

fn no_cache() -> ImageError {
    ImageError::Name { why: "needs a cache: set HOME or XDG_CACHE_HOME".to_owned() }
}

fn pull_settings<'a>(resolved: &'a Resolved, store: &'a Path) -> PullSettings<'a> {
    PullSettings { settings: resolved.images.as_ref(), mode: resolved.pull_mode(), store }
}

/// The harness's image by its name, and where it is. Nothing is read.
fn locate(
    resolved: &Resolved,
    library: &Library,
    variables: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<(String, ImagePlace)>, ImageError> {
    let Some(name) = &resolved.harness.image else { return Ok(None) };
    let at = name.at;
    let wrong = |why: String| ImageError::Name { why };
    let name = name.expand(variables).map_err(|name| wrong(format!("needs {name}, which is not set")))?;
    let find =
        |path: &str| LocalPath::parse(path).ok().and_then(|path| library.find(&path, at, "image").ok());
    let place = match ImageRef::parse(&name, |path| find(path).is_some()).map_err(wrong)? {
        ImageRef::Registry(image) => ImagePlace::Registry(locked(resolved, image).map_err(wrong)?),
        ImageRef::Host(path) => ImagePlace::Host(PathBuf::from(path)),
        ImageRef::Layered(path) => find(&path)
            .and_then(|found| library.layers.host_path(&found))
            .map(ImagePlace::Host)
            .ok_or_else(|| wrong(format!("names `{path}`, which no layer has on disk")))?,
    };
    Ok(Some((name, place)))
}

/// The image by the digest that the lock file has, if nothing else may be used.
fn locked(resolved: &Resolved, image: ImageName) -> Result<ImageName, String> {
    let Some(lock) = &resolved.lock else { return Ok(image) };
    let help = "run `fullsend lock` and review the change of fullsend.lock";
    let digest = lock.image(&image.to_string());
    let digest = digest.ok_or_else(|| format!("names `{image}`, which is not in fullsend.lock: {help}"))?;
    if image.sha256.as_ref().is_some_and(|named| named != digest) {
        return Err(format!("names `{image}`, and fullsend.lock has the digest {digest}: {help}"));
    }
    Ok(ImageName { sha256: Some(digest.to_owned()), ..image })
}

/// The harness's image, if it is in a registry.
pub fn registry_name(
    resolved: &Resolved,
    library: &Library,
    variables: &dyn Fn(&str) -> Option<String>,
) -> Option<ImageName> {
    match locate(resolved, library, variables) {
        Ok(Some((_, ImagePlace::Registry(image)))) => Some(image),
        _ => None,
    }
}

/// Where unpacked images are kept.
pub fn cache(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let absolute = |path: &String| path.starts_with('/');
    let home = || variable("HOME").filter(absolute).map(|home| PathBuf::from(home).join(".cache"));
    let cache = variable("XDG_CACHE_HOME").filter(absolute).map(PathBuf::from);
    cache.or_else(home).map(|cache| cache.join("fullsend/images"))
}

/// A warning for each variable of an image that would send the model's requests elsewhere. The runtime's start clears them.
fn model_variables<'a>(
    image: &'a [(String, String)],
    inputs: &'a [&str],
) -> impl Iterator<Item = FindingEvent> + 'a {
    let moving = image.iter().map(|(name, _)| name).filter(|name| inputs.contains(&name.as_str()));
    moving.map(|name| FindingEvent {
        place: format!("{name} in the image"),
        origin: FindingOrigin::Configuration,
        rule: "model_variable".to_owned(),
        category: FindingFamily::Egress,
        severity: FindingSeverity::Low,
        excerpt: format!("{name} is cleared: the model gateway serves the model"),
        advice: "leave it out of the image, and name the service in a provider file".to_owned(),
        action: FindingAction::Cleaned,
        ..FindingEvent::default()
    })
}

/// The same in a run, which reports these variables.
pub fn apply_in_run(image: Option<&Image>, spec: &mut SandboxSpec, inputs: &[&str], emit: &Emitter) {
    let Some(image) = image else { return };
    apply(image, spec);
    model_variables(&image.environment, inputs).for_each(|finding| emit.emit(RunEvent::Finding(finding)));
}

/// Adds the image below everything else: its variables apply only if nothing else sets them. Its `PATH` comes after our
/// own tools.
pub fn apply(image: &Image, spec: &mut SandboxSpec) {
    spec.image.clone_from(&image.layers);
    let mut variables: Vec<(OsString, OsString)> =
        image.environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
    if let Some((_, path)) = variables.iter_mut().find(|(name, _)| name == "PATH") {
        let ours = spec.environment.iter().find(|(name, _)| name == "PATH");
        let ours = ours.and_then(|(_, path)| path.to_str()).unwrap_or_default();
        let tools = ours.split(':').filter(|entry| entry.starts_with("/opt/fullsend"));
        let image = path.to_str().unwrap_or_default().to_owned();
        *path = tools.chain([image.as_str()]).collect::<Vec<_>>().join(":").into();
        spec.environment.retain(|(name, _)| name != "PATH");
    }
    spec.environment.splice(0..0, variables);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::names::RuntimeName;
    use crate::runtime;

    #[test]
    fn an_image_that_would_move_the_model_is_reported() {
        let image =
            [("CLAUDE_CODE_USE_VERTEX", "1"), ("LANG", "C"), ("ANTHROPIC_BEDROCK_BASE_URL", "http://x")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let claude = runtime::of(RuntimeName::Claude).model_variables;
        let places: Vec<String> = model_variables(&image, claude).map(|finding| finding.place).collect();
        assert_eq!(
            places,
            ["CLAUDE_CODE_USE_VERTEX in the image", "ANTHROPIC_BEDROCK_BASE_URL in the image"]
        );
    }
}
