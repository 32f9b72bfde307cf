//! Whether one request on an admitted connection may pass.

use super::admission::AdmittedConnection;
use super::body_rules::BodyRules;
use super::form_method::{FormMethodCheck, MethodDecision};
use super::outgoing_check;
use super::readings;
use super::record::ConnectionRecord;
use super::refusal::Refusal;
use crate::http1::{HeadError, RequestHead, RequestTarget};
use policy::{CanonicalPath, EncodedSlash, Operations, PolicyDecision, Query, RequestAction};

/// The target of an allowed request, in the canonical form that was checked.
pub(super) struct DecidedRequest {
    pub(super) path: String,
    pub(super) path_and_query: String,
    /// Every path that some server might decode from this request.
    pub(super) readings: Vec<String>,
    /// Rules apply to the body: nothing is decided yet.
    pub(super) body: Option<BodyRules>,
    /// For a body in which a server may read another method.
    pub(super) form_check: Option<Box<FormMethodCheck>>,
}

impl DecidedRequest {
    fn new(path: &str, query: Option<&str>, readings: &[CanonicalPath]) -> Self {
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        Self {
            path: path.to_owned(),
            path_and_query: format!("{path}{query}"),
            readings: readings.iter().map(|path| path.as_str().to_owned()).collect(),
            body: None,
            form_check: None,
        }
    }

    /// No rule reads the request, so its spelling stays.
    fn as_sent(path: &str, query: Option<&str>) -> Self {
        let canonical = CanonicalPath::new(path, EncodedSlash::Keep).ok();
        let readings = canonical.and_then(|path| readings::paths(&path).ok()).unwrap_or_default();
        let mut decided = Self::new(path, query, &readings);
        if readings.is_empty() {
            // No endpoint matches an empty path, so no credential goes to a path that cannot be read.
            decided.readings.push(String::new());
        }
        decided
    }
}

/// Decides a request whose target is a path on the connection's own server.
pub(super) fn decide(
    connection: &AdmittedConnection,
    head: &RequestHead,
    record: &mut ConnectionRecord,
) -> Result<DecidedRequest, Refusal> {
    let RequestTarget::Origin { path, query } = &head.target else {
        return Err(Refusal::head(HeadError::Target));
    };
    record.request(&head.method, path);
    let proxy = &connection.proxy;
    outgoing_check::check_head(proxy.config.leak_watcher.as_ref(), &connection.destination, head)?;
    proxy.defences.check_host(head, &connection.destination, connection.default_port())?;
    decide_path(connection, head, path, query.as_deref(), record)
}

pub(super) fn decide_path(
    connection: &AdmittedConnection,
    head: &RequestHead,
    path: &str,
    query: Option<&str>,
    record: &mut ConnectionRecord,
) -> Result<DecidedRequest, Refusal> {
    let AdmittedConnection { proxy, admitted, destination, .. } = connection;
    let locate = &proxy.config.locate;
    let method = &head.method;
    if !admitted.reads_requests() {
        record.allowed(locate(&admitted.cause()));
        return Ok(DecidedRequest::as_sent(path, query));
    }
    let canonical = proxy
        .defences
        .canonical_path(path, admitted.encoded_slash())
        .map_err(|error| Refusal::path(format!("{method} {path}: {error}")))?;
    record.request(method, canonical.as_str());
    let parsed = Query::parse(query.unwrap_or_default())
        .map_err(|error| Refusal::path(format!("{method} {canonical}: {error}")))?;
    let mut audited = None;
    let mut allowed = None;
    readings::check_path_headers(head)?;
    let paths = readings::paths(&canonical)?;
    if let Some(most) = paths.iter().filter_map(|path| admitted.max_body_bytes(path.as_str())).min() {
        let mut decided = DecidedRequest::new(canonical.as_str(), query, &paths);
        decided.body = Some(BodyRules::new(head, paths, parsed, most)?);
        return Ok(decided);
    }
    for path in &paths {
        for method in readings::methods(head, &parsed)? {
            let action = RequestAction::Http(&method);
            let operations = &Operations::default();
            let request = policy::InspectedRequest { action, path, query: &parsed, operations };
            let what = || format!("{method} {destination}{path}");
            match proxy.defences.decide(admitted, &request) {
                PolicyDecision::Allow(cause) => allowed = allowed.or(Some(cause)),
                PolicyDecision::Audit(denial) => {
                    audited = audited.or_else(|| Some(Refusal::policy(&denial, locate, &what())));
                }
                PolicyDecision::Deny(denial) => return Err(Refusal::policy(&denial, locate, &what())),
            }
        }
    }
    match (audited, allowed) {
        (Some(refusal), _) => record.audited(&refusal),
        (None, Some(cause)) => record.allowed(locate(&cause)),
        (None, None) => {}
    }
    let decide_method = |method: &str| {
        let action = RequestAction::Http(method);
        let operations = &Operations::default();
        let decisions = paths.iter().map(|path| {
            let request = policy::InspectedRequest { action, path, query: &parsed, operations };
            match proxy.defences.decide(admitted, &request) {
                PolicyDecision::Allow(_) => MethodDecision::Allowed,
                PolicyDecision::Audit(_) => MethodDecision::Audited,
                PolicyDecision::Deny(_) => MethodDecision::Denied,
            }
        });
        decisions.max().unwrap_or(MethodDecision::Denied)
    };
    let mut decided = DecidedRequest::new(canonical.as_str(), query, &paths);
    decided.form_check = FormMethodCheck::new(head, decide_method)?.map(Box::new);
    record.audit_by(decided.form_check.as_deref().and_then(FormMethodCheck::audited));
    Ok(decided)
}
