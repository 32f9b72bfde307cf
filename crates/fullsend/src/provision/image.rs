//! The image of a run: found as the harness names it, unpacked, and made part of the sandbox's spec.

use std::ffi::OsString;
use std::path::PathBuf;

use sandbox::SandboxSpec;

use super::RunContext;
use crate::event::finding::{FindingAction, FindingFamily, FindingOrigin, FindingSeverity};
use crate::event::log::Emitter;
use crate::event::{FindingEvent, InputKind, RunEvent};
use crate::harness::Harness;
use crate::harness::image::ImageRef;
use crate::harness::reference::LocalPath;
use crate::image::{self, Caps, Image, ImageError};
use crate::resolve::library::Library;

/// The harness's image, ready in the cache; its digest goes into the record.
pub fn prepare(harness: &Harness, around: &RunContext<'_>) -> Result<Option<Image>, ImageError> {
    let Some((name, image)) = find(harness, around.library, around.variables)? else { return Ok(None) };
    let sha256 = image.digest.clone();
    around.emit.emit(RunEvent::Input { kind: InputKind::Image, name, sha256 });
    Ok(Some(image))
}

/// The harness's image by its name, ready in the cache.
pub fn find(
    harness: &Harness,
    library: &Library,
    variables: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<(String, Image)>, ImageError> {
    let Some((name, path)) = locate(harness, library, variables)? else { return Ok(None) };
    let no_cache = || ImageError::Name { why: "needs a cache: set HOME or XDG_CACHE_HOME".to_owned() };
    let cache = cache(variables).ok_or_else(no_cache)?;
    let image = image::prepare(&path, &cache, Caps::default())?;
    Ok(Some((name, image)))
}

/// The harness's image by its name, and where it is on the host. Nothing is read.
pub fn locate(
    harness: &Harness,
    library: &Library,
    variables: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<(String, PathBuf)>, ImageError> {
    let Some(name) = &harness.image else { return Ok(None) };
    let wrong = |why: String| ImageError::Name { why };
    let name = name.expand(variables).map_err(|name| wrong(format!("needs {name}, which is not set")))?;
    let find = |path: &str| LocalPath::parse(path).ok().and_then(|path| library.layers.find(&path));
    let path = match ImageRef::parse(&name, |path| find(path).is_some()).map_err(wrong)? {
        ImageRef::Registry(name) => return Err(ImageError::InRegistry { name }),
        ImageRef::Host(path) => PathBuf::from(path),
        ImageRef::Layered(path) => find(&path)
            .and_then(|found| library.layers.host_path(&found))
            .ok_or_else(|| wrong(format!("names `{path}`, which no layer has on disk")))?,
    };
    Ok(Some((name, path)))
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
    cleared: &'a [&str],
) -> impl Iterator<Item = FindingEvent> + 'a {
    let moving = image.iter().map(|(name, _)| name).filter(|name| cleared.contains(&name.as_str()));
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

/// The same in a run, which reports what would move the model.
pub fn apply_in_run(image: Option<&Image>, spec: &mut SandboxSpec, cleared: &[&str], emit: &Emitter) {
    let Some(image) = image else { return };
    apply(image, spec);
    model_variables(&image.environment, cleared).for_each(|finding| emit.emit(RunEvent::Finding(finding)));
}

/// Puts the image below everything else: its variables count only where nothing else sets them. Its `PATH` comes after our own
/// tools.
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
