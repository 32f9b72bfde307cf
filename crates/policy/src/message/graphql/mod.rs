//! GraphQL over HTTP: a document in a GET's query or in the body of a POST, alone or in a batch, or the id of a stored
//! one. Every operation of a document is decided, not only the selected one.

mod document;
mod lexer;

use super::content_type;
use super::json::{self, Json, fold};
use super::operation::Operation;
use super::{BodyRequest, MessageError, ProtocolSettings};

const MAX_BATCH: usize = 100;
/// The keys under which services take the id of a stored document.
const ID_KEYS: &[&str] = &["id", "documentId", "doc_id"];
const KEYS: &[&str] = &["query", "operationName", "variables", "extensions", "id", "documentId", "doc_id"];

/// One request of a batch.
#[derive(Default)]
struct GraphqlRequest {
    document: Option<String>,
    operation_name: Option<String>,
    /// Ids of stored documents.
    stored: Vec<String>,
}

pub(super) fn read(
    settings: &ProtocolSettings,
    request: &BodyRequest<'_>,
) -> Result<Vec<Operation>, MessageError> {
    match request.method {
        "GET" if request.body.is_empty() => of_query(request)?.operations(settings),
        "POST" => {
            let names_graphql = |key: &[u8]| {
                let key = fold(&String::from_utf8_lossy(key));
                KEYS.iter().any(|known| fold(known) == key)
            };
            if request.query.keys().any(names_graphql) {
                return Err(MessageError::new("a POST has parts of its GraphQL request in the URL"));
            }
            let types = ["application/json", "application/graphql", "application/graphql+json"];
            if content_type::check(request.content_type, &types)? == "application/graphql" {
                let text = std::str::from_utf8(request.body)
                    .map_err(|_| MessageError::new("the GraphQL document is not UTF-8"))?;
                let request = GraphqlRequest { document: Some(text.to_owned()), ..GraphqlRequest::default() };
                return request.operations(settings);
            }
            of_body(settings, request.body)
        }
        _ => Err(MessageError::new("GraphQL uses POST, and GET without a body")),
    }
}

fn of_body(settings: &ProtocolSettings, body: &[u8]) -> Result<Vec<Operation>, MessageError> {
    match json::parse(body)? {
        Json::List(batch) if batch.is_empty() => Err(MessageError::new("the batch is empty")),
        Json::List(batch) if batch.len() > MAX_BATCH => {
            Err(MessageError::new(format!("the batch has more than {MAX_BATCH} members")))
        }
        Json::List(batch) => {
            let mut all = Vec::new();
            for (index, member) in batch.iter().enumerate() {
                let operations = of_json(member).and_then(|request| request.operations(settings));
                let place = format!("member {} of the batch", index + 1);
                all.extend(operations.map_err(|error| error.within(&place))?);
            }
            Ok(all)
        }
        message => of_json(&message)?.operations(settings),
    }
}

fn of_json(message: &Json) -> Result<GraphqlRequest, MessageError> {
    let Json::Object(entries) = message else {
        return Err(MessageError::new("the request is not an object"));
    };
    let mut request = GraphqlRequest::default();
    for (key, value) in entries {
        match (key.as_str(), value) {
            (key, Json::Null) if KEYS.contains(&key) => {}
            ("query", Json::Text(text)) => request.document = Some(text.clone()),
            ("operationName", Json::Text(text)) => request.operation_name = Some(text.clone()),
            ("variables", Json::Object(_)) => {}
            ("extensions", extensions @ Json::Object(_)) => request.stored.extend(persisted(extensions)?),
            (key, Json::Text(text)) if ID_KEYS.contains(&key) => request.stored.push(text.clone()),
            (key, _) if KEYS.contains(&key) => {
                return Err(MessageError::new(format!("`{key}` has the wrong type")));
            }
            _ => {
                return Err(MessageError::new(format!(
                    "the request has keys other than {}",
                    KEYS.join(", ")
                )));
            }
        }
    }
    Ok(request)
}

/// A key that is there twice could be read either way.
fn of_query(request: &BodyRequest<'_>) -> Result<GraphqlRequest, MessageError> {
    let mut parsed = GraphqlRequest::default();
    let mut seen = Vec::new();
    for (key, value) in request.query.pairs() {
        let text = std::str::from_utf8(value).map_err(|_| MessageError::new("the query is not UTF-8"))?;
        let key =
            KEYS.iter().copied().find(|known| known.as_bytes() == key).filter(|key| !seen.contains(key));
        let Some(key) = key else {
            return Err(MessageError::new(format!(
                "the URL has a parameter twice, or others than {}",
                KEYS.join(", ")
            )));
        };
        seen.push(key);
        match key {
            _ if text.is_empty() => {}
            "query" => parsed.document = Some(text.to_owned()),
            "operationName" => parsed.operation_name = Some(text.to_owned()),
            "extensions" => parsed.stored.extend(persisted(&json::parse(text.as_bytes())?)?),
            "variables" => drop(json::parse(text.as_bytes())?),
            _ => parsed.stored.push(text.to_owned()),
        }
    }
    Ok(parsed)
}

/// The id of a stored document in the extensions of a request.
fn persisted(extensions: &Json) -> Result<Option<String>, MessageError> {
    let Json::Object(entries) = extensions else {
        return Err(MessageError::new("`extensions` has the wrong type"));
    };
    let Some((key, value)) = entries.iter().find(|(key, _)| fold(key) == "persistedquery") else {
        return Ok(None);
    };
    let known = |(key, _): &(String, Json)| ["version", "sha256Hash"].contains(&key.as_str());
    match (value, value.get("sha256Hash")) {
        (Json::Object(entries), Some(Json::Text(hash)))
            if key == "persistedQuery" && entries.iter().all(known) =>
        {
            Ok(Some(hash.clone()))
        }
        _ => Err(MessageError::new("`extensions.persistedQuery` is malformed")),
    }
}

impl GraphqlRequest {
    fn operations(self, settings: &ProtocolSettings) -> Result<Vec<Operation>, MessageError> {
        let mut all = Vec::new();
        for id in &self.stored {
            let Some(registered) = &settings.persisted_queries else {
                return Err(MessageError::new(
                    "the request names a stored query, which needs `persisted_queries: allow_registered`",
                ));
            };
            let operation = registered.get(id).ok_or_else(|| {
                MessageError::new(
                    "the request names a stored query that `graphql_persisted_queries` does not have",
                )
            })?;
            all.push(operation.clone());
        }
        if let Some(text) = &self.document {
            let operations = document::operations(text)?;
            let named = self.operation_name.as_deref().filter(|name| !name.is_empty());
            let selects =
                |name: &str| operations.iter().any(|operation| operation.name.as_deref() == Some(name));
            if named.map_or(operations.len() > 1, |name| !selects(name)) {
                return Err(MessageError::new("`operationName` names no operation of the document"));
            }
            all.extend(operations);
        }
        if all.is_empty() {
            return Err(MessageError::new("the request has neither a query nor the id of a stored one"));
        }
        Ok(all.into_iter().map(Operation::Graphql).collect())
    }
}
