//! Where the objects of sessions are, if not in their store: a directory, or an S3-compatible store. It reads no environment.

mod s3;
mod s3_address;
mod s3_error;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::upstream::AwsKeys;
use session::{DirectoryObjects, ObjectStore, SessionId, Sha256Digest};

use crate::fetch::HostNetwork;
use s3::S3Objects;
use s3_address::S3Address;

/// The object store at an address: a path, or `s3://BUCKET/PREFIX`. Nothing is sent yet.
pub fn open(
    address: &str,
    variable: &dyn Fn(&str) -> Option<String>,
    call_timeout: Duration,
) -> Result<Arc<dyn ObjectStore>, String> {
    if !address.contains("://") {
        return Ok(Arc::new(DirectoryObjects(PathBuf::from(address))));
    }
    let place = S3Address::parse(address, variable)?;
    let home = variable("HOME");
    let keys = AwsKeys::of_host(variable, &place.region, home.as_deref()).ok_or_else(|| {
        format!("{place} needs a key: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE")
    })?;
    let network = HostNetwork::of_host(variable, Vec::new()).map_err(|error| error.to_string())?;
    network.check(&place.object("")).map_err(|error| error.to_string())?;
    Ok(Arc::new(S3Objects::new(place, keys, network, call_timeout)))
}

/// Writes, reads and removes a small object, so that a wrong bucket or a missing permission is noticed before a session
/// needs it.
pub fn probe(objects: &dyn ObjectStore, session: SessionId) -> Result<(), String> {
    let content = format!("fullsend tries this object store as {session}");
    let digest = Sha256Digest::of(content.as_bytes());
    let to_text = |error: session::ObjectStoreError| error.to_string();
    objects.put(session, digest, content.as_bytes()).map_err(to_text)?;
    let read = objects.get(session, digest).map_err(to_text)?;
    objects.remove_session(session, &[digest]).map_err(to_text)?;
    match read {
        Some(read) if read == content.as_bytes() => Ok(()),
        Some(_) => Err("an object came back changed".to_owned()),
        None => Err("an object that was just written is not there".to_owned()),
    }
}
