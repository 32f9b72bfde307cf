//! Counts of tokens: how long a request would be, as the service says. A runtime asks for it to plan its context. A count costs
//! nothing and starts no answer, so the budget does not see it; every rule for requests holds. A count that fails is not tried
//! again: the runtime estimates instead.

use super::Gateway;
use crate::upstream::request::UpstreamRequest;
use crate::wire::codec;
use crate::wire::fault::{Fault, FaultKind};
use serde::Deserialize;
use std::time::Duration;

const MAX_ANSWER_BYTES: usize = 64 << 10;
/// For connecting and for the whole answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Anthropic's and Google's name of the field, and Amazon's.
#[derive(Deserialize)]
struct CountForm {
    #[serde(alias = "inputTokens")]
    input_tokens: u64,
}

pub(super) async fn count(gateway: &Gateway, outgoing: UpstreamRequest<'_>) -> Result<u64, Fault> {
    if !gateway.upstream.counts_tokens(outgoing.wire) {
        let message = "fullsend: the model's service does not count tokens";
        return Err(Fault::new(FaultKind::NotFound, message));
    }
    let sent = tokio::time::timeout(PATIENCE, gateway.upstream.send(outgoing)).await;
    let late = |_| Fault::new(FaultKind::Timeout, "the model's service did not count in time");
    let response = sent.map_err(late)?.map_err(|error| Fault::new(FaultKind::Upstream, error.to_string()))?;
    let (response, bytes) = response.with_whole_body(MAX_ANSWER_BYTES, PATIENCE).await;
    if response.status != 200 {
        return Err(codec::read_fault(outgoing.wire, response.status, &bytes));
    }
    let form: CountForm = serde_json::from_slice(&bytes)
        .map_err(|error| Fault::new(FaultKind::Upstream, format!("the count cannot be read: {error}")))?;
    Ok(form.input_tokens)
}
