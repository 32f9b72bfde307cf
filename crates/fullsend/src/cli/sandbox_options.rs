//! What the commands about sandboxes share: the policy, the image, failures and exit codes.

use std::io::Read;
use std::path::{Path, PathBuf};

use policy::Policy;
use yaml::Sources;

use super::configuration::{ConfigurationOptions, variable};
use super::exit::{Exit, Failure};
use super::pull_options::{PullOptions, pull_image};
use crate::check::policies::{CheckedPolicy, unenforceable};
use crate::defaults;
use crate::event::exit::{exited, signalled};
use crate::harness::image::ImageRef;
use crate::image::ImageError;
use crate::resolve::layers::{LayerKind, LayerPath};

/// The file of a policy is text.
const MAX_POLICY_BYTES: u64 = 1 << 20;

pub fn failed(why: impl Into<String>) -> Failure {
    Failure::new(Exit::SandboxUnavailable, why)
}

/// The name and the text of a policy.
pub fn policy_text(path: Option<&Path>) -> Result<(String, String), Failure> {
    let Some(path) = path else {
        let (name, text) = defaults::DEFAULT_POLICY;
        return Ok((name.to_owned(), text.to_owned()));
    };
    let unreadable = |error| failed(format!("cannot read the policy {}: {error}", path.display()));
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(MAX_POLICY_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_POLICY_BYTES {
        return Err(failed(format!("the policy {} is larger than 1 MiB", path.display())));
    }
    Ok((path.display().to_string(), text))
}

/// Checks a policy and shows what is wrong with it.
pub fn check_policy((name, text): (String, String), sources: &mut Sources) -> Result<CheckedPolicy, Failure> {
    let id = sources.add(&name, text);
    let parsed = Policy::parse(sources, id).map_err(|problems| {
        super::check::show(sources, &problems);
        failed(format!("{name} is not a valid policy"))
    })?;
    let unenforceable = unenforceable(&parsed.policy);
    super::check::show(sources, &parsed.warnings);
    super::check::show(sources, &unenforceable);
    if unenforceable.iter().any(yaml::Diagnostic::is_error) {
        return Err(failed(format!("the policy {name} cannot be enforced on this machine")));
    }
    let effective = policy::baseline(&parsed.policy);
    let found = LayerPath { layer: LayerKind::Repository, path: name };
    Ok(CheckedPolicy { found, policy: parsed.policy, effective })
}

/// Where an image is, pulled if it must be, and where it is unpacked.
pub fn image_and_cache(name: &str, pull: &PullOptions) -> Result<(PathBuf, PathBuf), Failure> {
    let wrong = |error: ImageError| failed(error.to_string());
    let path = match ImageRef::parse(name, |path| Path::new(path).exists()) {
        Ok(ImageRef::Host(path) | ImageRef::Layered(path)) => PathBuf::from(path),
        Ok(ImageRef::Registry(name)) => pull_image(&name, pull, &ConfigurationOptions::default())
            .map_err(|failure| Failure { exit: Exit::SandboxUnavailable, ..failure })?,
        Err(why) => return Err(wrong(ImageError::Name { why })),
    };
    let cache = crate::provision::image::cache(&variable);
    let cache = cache.ok_or_else(|| {
        failed("cannot choose a cache for the image: neither XDG_CACHE_HOME nor HOME is set")
    })?;
    Ok((path, cache))
}

pub fn code(exit: sandbox::CommandExit) -> u8 {
    match exit {
        sandbox::CommandExit::Code(code) => exited(code),
        sandbox::CommandExit::Signal(signal) => signalled(signal),
    }
}
