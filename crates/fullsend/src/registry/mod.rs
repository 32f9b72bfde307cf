//! Images in registries: whether the configuration allows one, whether the cache has it, and pulling it by the OCI
//! distribution protocol. The result is an OCI layout directory, which `image` checks and unpacks. Nothing of an image
//! is run here.

mod challenge;
mod client;
mod documents;
mod error;
mod login;
mod pull;
mod rules;
mod store;

use std::path::{Path, PathBuf};

use client::RegistrySession;
pub use error::PullError;
pub use pull::{OnPullProgress, PullProgress};
pub use store::ImageStore;

use crate::cancel::Cancel;
use crate::fetch::HostNetwork;
use crate::harness::config::ImageSettings;
use crate::harness::image::{ImageName, PullMode};

/// The rules for images: the configuration, the caller's options, and the cache directory.
pub struct PullSettings<'a> {
    pub settings: Option<&'a ImageSettings>,
    pub mode: PullMode,
    pub store: &'a Path,
}

/// The layout of an image that can be used without a request; `None` if it must be pulled.
pub fn find(name: &ImageName, around: &PullSettings<'_>) -> Result<Option<PathBuf>, PullError> {
    rules::judge(name, around.settings)?;
    let cached = ImageStore::at(around.store).find(name).map(|(_, layout)| layout);
    match (around.mode, cached) {
        (PullMode::Never, None) => Err(PullError::NotCached { name: name.to_string() }),
        (PullMode::Always, _) => Ok(None),
        (PullMode::Never | PullMode::Missing, cached) => Ok(cached),
    }
}

/// The layout of an image, pulled if it must be: from a mirror, or from the registry itself.
pub fn fetch(
    name: &ImageName,
    around: &PullSettings<'_>,
    variables: &dyn Fn(&str) -> Option<String>,
    cancel: &Cancel,
    on_progress: OnPullProgress<'_>,
) -> Result<PathBuf, PullError> {
    if let Some(layout) = find(name, around)? {
        return Ok(layout);
    }
    let failed = |source| PullError::Store { path: around.store.to_owned(), source };
    let store = ImageStore::open(around.store).map_err(failed)?;
    let plain = around.settings.into_iter().flat_map(|settings| &settings.plain_http);
    let plain = plain.map(|host| host.value.as_str().to_owned()).collect();
    let network = HostNetwork::of_host(variables, plain)
        .map_err(|source| PullError::Unreachable { name: name.to_string(), source })?;
    let mut places = rules::mirrors(name, around.settings);
    places.push(name.clone());
    let mut last = None;
    for place in places {
        let login = login::find(&place, variables, cancel)?;
        let session = RegistrySession::new(place, network.clone(), login);
        match pull::pull(name, &session, &store, cancel, on_progress) {
            // A mirror that does not have the image or cannot be reached is skipped; one that sends wrong content is an
            // error.
            Err(
                error
                @ (PullError::Unreachable { .. } | PullError::Answered { .. } | PullError::Login { .. }),
            ) => {
                last = Some(error);
            }
            ended => return ended,
        }
    }
    Err(last.unwrap_or_else(|| PullError::NotCached { name: name.to_string() }))
}

/// Where pulled images are kept.
pub fn store_directory(variables: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let absolute = |path: &String| path.starts_with('/');
    let home = || variables("HOME").filter(absolute).map(|home| PathBuf::from(home).join(".cache"));
    let cache = variables("XDG_CACHE_HOME").filter(absolute).map(PathBuf::from);
    cache.or_else(home).map(|cache| cache.join("fullsend/registry"))
}
