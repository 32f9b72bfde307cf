//! What the policy says about text from the client.

use super::super::admission::AdmittedConnection;
use super::super::decide::DecidedRequest;
use super::super::record::ConnectionRecord;
use super::super::refusal::Refusal;
use policy::{CanonicalPath, Operations, PolicyDecision, Query, RequestAction};

pub(super) enum TextRule {
    Allow,
    Audit(Refusal),
    Deny(Refusal),
}

/// Decided once for the whole websocket: the rules for text depend only on the request that opened it.
pub(super) fn text_rule(connection: &AdmittedConnection, decided: &DecidedRequest) -> TextRule {
    let AdmittedConnection { proxy, admitted, destination, .. } = connection;
    let query = decided.path_and_query.split_once('?').map_or("", |(_, query)| query);
    let (Ok(path), Ok(query)) =
        (CanonicalPath::new(&decided.path, admitted.encoded_slash()), Query::parse(query))
    else {
        return TextRule::Deny(Refusal::path(format!("{}: the path cannot be parsed again", decided.path)));
    };
    let action = RequestAction::WebsocketText;
    let operations = &Operations::default();
    let request = policy::InspectedRequest { action, path: &path, query: &query, operations };
    let what = format!("{} {destination}{path}", RequestAction::WebsocketText.method());
    let refusal = |denial: &policy::Denial| Refusal::policy(denial, &proxy.config.locate, &what);
    match admitted.decide(&request) {
        PolicyDecision::Allow(_) => TextRule::Allow,
        PolicyDecision::Audit(denial) => TextRule::Audit(refusal(&denial)),
        PolicyDecision::Deny(denial) => TextRule::Deny(refusal(&denial)),
    }
}

/// The record of text on an open websocket.
pub(super) fn text_record(connection: &AdmittedConnection, decided: &DecidedRequest) -> ConnectionRecord {
    let mut record = connection.new_record();
    record.request(RequestAction::WebsocketText.method(), &decided.path);
    record
}
