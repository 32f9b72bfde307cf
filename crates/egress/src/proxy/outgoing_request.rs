//! Puts credentials into a decided request. Placeholders that are not replaced are refused, wherever in the request they
//! are.

use super::admission::AdmittedConnection;
use super::body_rules::BodyRules;
use super::client::ClientConnection;
use super::decide::DecidedRequest;
use super::destination::Destination;
use super::form_method::FormMethodCheck;
use super::held_bodies::{BODY_TIME, HeldBody};
use super::outgoing_check::{self, MessageCheck, watch};
use super::record::ConnectionRecord;
use super::refusal::Refusal;
use super::signing::{MAX_HASHED_BODY, PendingSignature, take_client_signature};
use crate::credentials::{BodyFormat, CredentialScope, SubstituteError};
use crate::http1::{BodyError, Framing, RequestHead, collect_body};
use crate::websocket::prepare_handshake;
use zeroize::Zeroizing;

/// A body with credentials is read whole. A larger body is relayed, and a placeholder in it refuses the request.
pub(super) const MAX_SUBSTITUTED_BODY: u64 = 256 << 10;

/// A request with its credentials, except those in the body.
pub(super) struct SubstitutedHead {
    pub(super) head: RequestHead,
    /// Path and query; they may hold credentials.
    pub(super) target: Zeroizing<String>,
    /// The format of the body, if the endpoint replaces placeholders in it.
    pub(super) body_format: Option<BodyFormat>,
    /// For an endpoint whose requests are signed.
    pub(super) signature: Option<PendingSignature>,
}

impl SubstitutedHead {
    /// Whether the signature covers a body that must be read before the head is sent.
    pub(super) fn must_hash_body(&self) -> bool {
        let has_body = self.head.framing != Framing::None;
        has_body && self.signature.as_ref().is_some_and(PendingSignature::needs_body)
    }

    /// Signs the request with this body, where the endpoint's requests are signed.
    pub(super) fn sign(&mut self, host: &str, body: &[u8]) {
        if let Some(signature) = &self.signature {
            signature.add_to(&mut self.head, host, &self.target, body);
        }
    }
}

/// A request as it is sent.
pub(super) struct OutgoingRequest {
    /// It may hold credentials.
    pub(super) head: Zeroizing<Vec<u8>>,
    pub(super) body: OutgoingBody,
    /// Reserves the memory of a held body until the request is sent.
    pub(super) _held: Option<HeldBody>,
}

pub(super) enum OutgoingBody {
    /// As the client sends it.
    Relayed,
    Substituted(Zeroizing<Vec<u8>>),
}

/// Whether requests must be read: for a rule, or because a credential is bound to this server.
pub(super) fn must_read_requests(connection: &AdmittedConnection) -> bool {
    let AdmittedConnection { proxy, admitted, destination, .. } = connection;
    let settings = admitted.credentials(None);
    let provider = settings.provider.as_deref();
    let has_credentials = !settings.allow_uninspected
        && proxy.config.credentials.is_bound(&destination.host, destination.port, provider);
    admitted.reads_requests() || has_credentials || settings.signing.is_some()
}

pub(super) async fn outgoing_request(
    connection: &AdmittedConnection,
    head: &RequestHead,
    decided: &DecidedRequest,
    client: &mut ClientConnection,
    record: &mut ConnectionRecord,
) -> Result<OutgoingRequest, Refusal> {
    if let Some(rules) = &decided.body {
        return decided_body(connection, head, decided, rules, client, record).await;
    }
    let mut substituted = substitute_head(connection, head, decided).await?;
    let host = connection.host_header();
    let idle = connection.proxy.config.limits.idle;
    let format = substituted.body_format.filter(|_| match substituted.head.framing {
        Framing::Length(length) => length <= MAX_SUBSTITUTED_BODY,
        Framing::Chunked => true,
        Framing::None | Framing::UntilClose => false,
    });
    let framing = substituted.head.framing;
    let mut held = None;
    let body = if substituted.must_hash_body() {
        held = Some(connection.proxy.held_bodies.reserve(held_bytes(framing))?);
        // It is reserved already.
        let mut has_memory = |_| true;
        let collecting = collect_body(&mut client.reader, framing, MAX_HASHED_BODY, idle, &mut has_memory);
        let collected = tokio::time::timeout(BODY_TIME, collecting).await.map_err(|_| body_too_slow())?;
        let body = collected.map_err(|error| unhashed(&error))?;
        check_message(connection, &body, decided.form_check.clone())?;
        OutgoingBody::Substituted(Zeroizing::new(body))
    } else if let Some(format) = format {
        let mut memory = connection.proxy.held_bodies.empty();
        let mut has_memory = |bytes: u64| memory.grow(bytes).is_ok();
        let collected =
            collect_body(&mut client.reader, framing, MAX_SUBSTITUTED_BODY, idle, &mut has_memory).await;
        let received = collected.map_err(|error| body_refusal(&error))?;
        let body = substitute_body(connection, &received, format, decided).await?;
        memory.grow(body.len() as u64)?;
        held = Some(memory);
        OutgoingBody::Substituted(body)
    } else {
        OutgoingBody::Relayed
    };
    match &body {
        OutgoingBody::Substituted(bytes) => {
            substituted.head.framing = Framing::Length(bytes.len() as u64);
            substituted.sign(&host, bytes);
        }
        OutgoingBody::Relayed => substituted.sign(&host, b""),
    }
    let SubstitutedHead { head, target, .. } = substituted;
    let written = connection.proxy.defences.write_head(&head, &host, &target);
    Ok(OutgoingRequest { head: Zeroizing::new(written), body, _held: held })
}

/// The most that is held of a body.
fn held_bytes(framing: Framing) -> u64 {
    match framing {
        Framing::Length(length) => length.min(MAX_HASHED_BODY),
        Framing::None | Framing::Chunked | Framing::UntilClose => MAX_HASHED_BODY,
    }
}

pub(super) fn body_too_slow() -> Refusal {
    let seconds = BODY_TIME.as_secs();
    Refusal::unreadable(format!(
        "the body did not arrive within {seconds} seconds, but a signed request is sent only with its whole body"
    ))
}

/// Why a body cannot be signed.
pub(super) fn unhashed(error: &BodyError) -> Refusal {
    match error {
        BodyError::TooLarge => body_too_long_to_sign(),
        error => body_refusal(error),
    }
}

/// Why a body cannot be held.
fn body_refusal(error: &BodyError) -> Refusal {
    match error {
        BodyError::NoMemory => Refusal::memory_taken(),
        error => Refusal::unreadable(error.to_string()),
    }
}

pub(super) fn body_too_long_to_sign() -> Refusal {
    let most = MAX_HASHED_BODY >> 20;
    Refusal::unreadable(format!(
        "the body is longer than {most} MiB and its hash is not known before it is sent; send `x-amz-content-sha256` \
         with the hash or UNSIGNED-PAYLOAD, or give the endpoint `credential_signing: sigv4:no_body`"
    ))
}

/// Checks a whole body that is sent unchanged. No placeholder in it is replaced.
pub(super) fn check_message(
    connection: &AdmittedConnection,
    body: &[u8],
    form: Option<Box<FormMethodCheck>>,
) -> Result<(), Refusal> {
    let watcher = watch(connection.proxy.config.leak_watcher.as_ref(), &connection.destination);
    MessageCheck::new("body", watcher).with_form(form).refusal(body).map_or(Ok(()), Err)
}

/// Reads a body that rules apply to, and decides it.
async fn decided_body(
    connection: &AdmittedConnection,
    head: &RequestHead,
    decided: &DecidedRequest,
    rules: &BodyRules,
    client: &mut ClientConnection,
    record: &mut ConnectionRecord,
) -> Result<OutgoingRequest, Refusal> {
    let idle = connection.proxy.config.limits.idle;
    let mut held = connection.proxy.held_bodies.empty();
    let mut has_memory = |bytes: u64| held.grow(bytes).is_ok();
    let collected = collect_body(&mut client.reader, head.framing, rules.most, idle, &mut has_memory).await;
    let body = collected.map_err(|error| match error {
        BodyError::TooLarge => rules.too_large(connection, head),
        error => body_refusal(&error),
    })?;
    rules.decide(connection, head, &body, record)?;
    let mut substituted = substitute_head(connection, head, decided).await?;
    if substituted.head.framing == Framing::Chunked {
        substituted.head.framing = Framing::Length(body.len() as u64);
    }
    let host = connection.host_header();
    substituted.sign(&host, &body);
    let SubstitutedHead { head, target, .. } = substituted;
    let written = connection.proxy.defences.write_head(&head, &host, &target);
    let body = OutgoingBody::Substituted(Zeroizing::new(body));
    Ok(OutgoingRequest { head: Zeroizing::new(written), body, _held: Some(held) })
}

/// Replaces the placeholders in headers, path and query.
pub(super) async fn substitute_head(
    connection: &AdmittedConnection,
    head: &RequestHead,
    decided: &DecidedRequest,
) -> Result<SubstitutedHead, Refusal> {
    let scope = scope(connection, decided);
    let store = &connection.proxy.config.credentials;
    let refused = |error: SubstituteError| Refusal::credential(&error);
    let mut out = head.clone();
    prepare_handshake(&mut out).map_err(|reason| Refusal::unreadable(reason.to_owned()))?;
    let signature = signature(connection, decided, &scope, &mut out).await?;
    if store.is_bound(scope.host, scope.port, scope.provider) {
        ask_for_uncompressed_response(&mut out);
        // A signed request does not contain the secret key, so no server can send it back: the client may ask for ranges of a response.
        if signature.is_none() {
            ask_for_whole_response(&mut out);
        }
    }
    store.substitute_fields(&mut out.fields, &scope).await.map_err(refused)?;
    let target = store.substitute_target(&decided.path_and_query, &scope).await.map_err(refused)?;
    let format = out.fields.all("content-type").next().and_then(BodyFormat::of);
    let rewrites = connection.admitted.credentials(Some(&decided.path)).rewrite_body;
    let body_format = format.filter(|_| rewrites && head.framing != Framing::None);
    if body_format.is_some() && out.fields.words("content-encoding").iter().any(|word| word != "identity") {
        return Err(refused(SubstituteError::Misplaced { part: "compressed body" }));
    }
    Ok(SubstitutedHead { head: out, target: Zeroizing::new(target), body_format, signature })
}

/// The signature of an endpoint whose requests are signed; the client's own is removed from the head.
async fn signature(
    connection: &AdmittedConnection,
    decided: &DecidedRequest,
    scope: &CredentialScope<'_>,
    head: &mut RequestHead,
) -> Result<Option<PendingSignature>, Refusal> {
    let signing_of = |path: &str| connection.admitted.credentials(Some(path)).signing.as_ref();
    let Some(signing) = signing_of(&decided.path) else { return Ok(None) };
    if decided.readings.iter().any(|path| signing_of(path) != Some(signing)) {
        let detail = "the path can be read in two ways, and only one of them is signed";
        return Err(Refusal::unreadable(detail.to_owned()));
    }
    let payload = take_client_signature(head, &decided.path_and_query, signing)?;
    let key = connection.proxy.config.credentials.signing_key(scope).await;
    let key = key.map_err(|error| Refusal::credential(&error))?;
    PendingSignature::new(key, signing, &scope.host.to_string(), payload).map(Some)
}

/// The response is searched for credentials, so it must not be compressed.
fn ask_for_uncompressed_response(head: &mut RequestHead) {
    head.fields.remove("accept-encoding");
    head.fields.push("Accept-Encoding", b"identity");
    for name in ["a-im", "accept-charset", "grpc-accept-encoding", "connect-accept-encoding"] {
        head.fields.remove(name);
    }
}

/// Two ranges could each contain half of a credential.
fn ask_for_whole_response(head: &mut RequestHead) {
    head.fields.remove("range");
    head.fields.remove("if-range");
}

pub(super) async fn substitute_body(
    connection: &AdmittedConnection,
    body: &[u8],
    format: BodyFormat,
    decided: &DecidedRequest,
) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    let config = &connection.proxy.config;
    outgoing_check::check_bytes(config.leak_watcher.as_ref(), &connection.destination, body)?;
    if let Some(refusal) = decided.form_check.clone().and_then(|mut check| check.refusal(body)) {
        return Err(refusal);
    }
    let substituted = config.credentials.substitute_body(body, format, &scope(connection, decided)).await;
    substituted.map_err(|error| Refusal::credential(&error))
}

/// Replaces the placeholders in a whole text message of a websocket. In JSON the values are escaped.
pub(super) async fn substitute_text(
    connection: &AdmittedConnection,
    text: &[u8],
    decided: &DecidedRequest,
) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok();
    let format = if is_json { BodyFormat::Json } else { BodyFormat::Text };
    substitute_body(connection, text, format, decided).await
}

fn scope<'a>(connection: &'a AdmittedConnection, decided: &'a DecidedRequest) -> CredentialScope<'a> {
    let Destination { host, port } = &connection.destination;
    let provider_of = |path: &str| connection.admitted.credentials(Some(path)).provider.as_deref();
    let provider = provider_of(&decided.path);
    let is_same = decided.readings.iter().all(|path| provider_of(path) == provider);
    CredentialScope {
        host,
        port: *port,
        path: &decided.path,
        readings: &decided.readings,
        provider: provider.filter(|_| is_same),
        tls: connection.tls,
    }
}
