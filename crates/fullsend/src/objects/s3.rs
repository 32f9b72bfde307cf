//! Objects in an S3-compatible store: signed requests with bounded time, size and repetitions. After a failure it sends
//! nothing for a while, so that an outage does not use up the lease of a wake. It reads no environment.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use egress::credentials::Secret;
use egress::sigv4::{AwsKey, SignedPayload, SignedRequest, sign};
use hyper::Method;
use hyper::header::HeaderName;
use model::upstream::AwsKeys;
use session::{MAX_OBJECT_BYTES, ObjectStore, ObjectStoreError, SessionId, Sha256Digest};

use super::s3_address::S3Address;
use super::s3_error::{Refusal, S3Error};
use crate::fetch::{FetchRequest, Fetcher, HostNetwork, Post};

/// How often one request is sent at most.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// How long nothing is sent after a failure.
const REST: Duration = Duration::from_secs(30);

/// An error is a page of text at most.
const MAX_ERROR_BYTES: usize = 64 << 10;

pub struct S3Objects {
    address: S3Address,
    keys: AwsKeys,
    network: HostNetwork,
    /// How long a call may take, with all its attempts.
    call_timeout: Duration,
    /// When the last call failed, and why.
    failed: Mutex<Option<(Instant, String)>>,
}

/// One request of the API.
struct Call<'a> {
    method: Method,
    key: &'a str,
    body: Option<&'a [u8]>,
}

/// The server's answer.
enum Reply {
    Body(Vec<u8>),
    NoSuchKey,
}

impl S3Objects {
    pub fn new(address: S3Address, keys: AwsKeys, network: HostNetwork, call_timeout: Duration) -> Self {
        Self { address, keys, network, call_timeout, failed: Mutex::new(None) }
    }

    fn key(&self, session: SessionId, digest: Sha256Digest) -> String {
        self.address.key(&format!("{session}/{digest}"))
    }

    /// Sends a request again until it succeeds, the time is up, or a retry would not help.
    fn call(&self, call: &Call<'_>) -> Result<Reply, ObjectStoreError> {
        self.check_rest()?;
        let result = self.call_until(call, Instant::now() + self.call_timeout);
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        *failed = result.as_ref().err().map(|error| (Instant::now(), error.to_string()));
        result.map_err(|error| error as ObjectStoreError)
    }

    fn check_rest(&self) -> Result<(), ObjectStoreError> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        match &*failed {
            Some((at, why)) if at.elapsed() < REST => Err(format!("{why} (a moment ago)").into()),
            _ => Ok(()),
        }
    }

    fn call_until(&self, call: &Call<'_>, deadline: Instant) -> Result<Reply, Box<S3Error>> {
        let mut pause = FIRST_PAUSE;
        let mut attempt = 1;
        loop {
            let error = match self.attempt(call, deadline) {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if attempt >= ATTEMPTS || !error.is_transient() || left <= pause {
                return Err(error);
            }
            std::thread::sleep(pause);
            pause *= 3;
            attempt += 1;
        }
    }

    fn attempt(&self, call: &Call<'_>, deadline: Instant) -> Result<Reply, Box<S3Error>> {
        let Call { method, key, body } = call;
        let failed = |refusal| S3Error::new(&self.address, method, key, refusal);
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let executor = executor.map_err(|error| failed(Refusal::Key(error.to_string())))?;
        let aws_key = executor.block_on(self.keys.key(self.network.dialer()));
        let aws_key = aws_key.map_err(|why| failed(Refusal::Key(why)))?;
        let fetcher =
            Fetcher::new(self.network.clone()).map_err(|source| failed(Refusal::Unreachable(source)))?;
        let address = self.address.object(key);
        let signed = self.sign(&aws_key, call, &address.authority(), &address.target);
        let headers: Vec<(HeaderName, String)> = signed.headers;
        let post = body.map(|bytes| Post { content_type: "application/octet-stream", bytes });
        let left = deadline.saturating_duration_since(Instant::now());
        let answer = fetcher.send(&FetchRequest {
            headers: &headers,
            authorization: Some(&signed.authorization),
            method: Some(method.clone()),
            post,
            timeout: left,
            ..FetchRequest::new(&address)
        });
        let answer = answer.map_err(|source| failed(Refusal::Unreachable(source)))?;
        let status = answer.status;
        let region = answer.headers.get("x-amz-bucket-region").and_then(|value| value.to_str().ok());
        let region = region.map(str::to_owned);
        let limit = if status.is_success() { MAX_OBJECT_BYTES } else { MAX_ERROR_BYTES };
        let body = answer.whole_before(limit, deadline);
        let body = body.map_err(|source| failed(Refusal::Unreachable(source)))?;
        if status.is_success() {
            return Ok(Reply::Body(body));
        }
        let answered = Refusal::answered(status.as_u16(), &body, region);
        if answered.is_missing_key() { Ok(Reply::NoSuchKey) } else { Err(failed(answered)) }
    }

    fn sign(&self, key: &AwsKey, call: &Call<'_>, host: &str, target: &str) -> SignedHeaders {
        let request = SignedRequest {
            method: call.method.as_str(),
            host,
            target,
            headers: &[],
            payload: SignedPayload::Bytes(call.body.unwrap_or_default()),
            region: &self.address.region,
            service: "s3",
        };
        let mut headers = Vec::new();
        let mut authorization = String::new();
        for (name, value) in sign(key, &request, SystemTime::now()) {
            if name == "authorization" {
                value.as_str().clone_into(&mut authorization);
            } else {
                headers.push((HeaderName::from_static(name), value.as_str().to_owned()));
            }
        }
        SignedHeaders { headers, authorization: Secret::new(authorization) }
    }
}

struct SignedHeaders {
    headers: Vec<(HeaderName, String)>,
    authorization: Secret,
}

impl ObjectStore for S3Objects {
    fn put(&self, session: SessionId, digest: Sha256Digest, content: &[u8]) -> Result<(), ObjectStoreError> {
        let key = self.key(session, digest);
        match self.call(&Call { method: Method::PUT, key: &key, body: Some(content) })? {
            Reply::Body(_) => Ok(()),
            Reply::NoSuchKey => Err(format!("{} answered to PUT {key} with NoSuchKey", self.address).into()),
        }
    }

    fn get(&self, session: SessionId, digest: Sha256Digest) -> Result<Option<Vec<u8>>, ObjectStoreError> {
        let key = self.key(session, digest);
        Ok(match self.call(&Call { method: Method::GET, key: &key, body: None })? {
            Reply::Body(content) => Some(content),
            Reply::NoSuchKey => None,
        })
    }

    fn remove(&self, session: SessionId, digest: Sha256Digest) -> Result<(), ObjectStoreError> {
        let key = self.key(session, digest);
        self.call(&Call { method: Method::DELETE, key: &key, body: None }).map(drop)
    }

    fn remove_session(&self, session: SessionId, known: &[Sha256Digest]) -> Result<(), ObjectStoreError> {
        known.iter().try_for_each(|digest| self.remove(session, *digest))
    }
}
