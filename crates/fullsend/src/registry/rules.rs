//! What the configuration says about images: which may be used, and where else they may come from. Pure.

use super::error::PullError;
use crate::harness::config::ImageSettings;
use crate::harness::image::ImageName;

/// Whether this image may be used.
pub fn judge(name: &ImageName, settings: Option<&ImageSettings>) -> Result<(), PullError> {
    let Some(settings) = settings else { return Ok(()) };
    let refused = |why: &str| Err(PullError::NotAllowed { name: name.to_string(), why: why.to_owned() });
    if let Some(allowed) = &settings.allow
        && !allowed.iter().any(|prefix| name.is_under(&prefix.value))
    {
        return refused("`images.allow` in config.yaml does not name it");
    }
    if settings.require_digest.as_ref().is_some_and(|set| set.value) && name.sha256.is_none() {
        return refused("`images.require_digest` in config.yaml wants NAME@sha256:DIGEST");
    }
    Ok(())
}

/// Where else the image may be, in the order in which they are asked.
pub fn mirrors(name: &ImageName, settings: Option<&ImageSettings>) -> Vec<ImageName> {
    let mirrors = settings.into_iter().flat_map(|settings| &settings.mirrors);
    mirrors.filter_map(|mirror| name.mirrored(&mirror.of.value, &mirror.at.value)).collect()
}
