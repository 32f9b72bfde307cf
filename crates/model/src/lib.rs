//! Models: the vendors' wire formats, the gateway between the sandbox and the model with its budget, prices and
//! recordings, the upstreams behind it, and the scripted model. It does not know the policy and never reads the
//! environment.

mod allowlist;
mod client;
mod event;
pub mod gateway;
mod http;
mod price;
pub mod recording;
pub mod scripted;
pub mod translate;
pub mod upstream;
pub mod wire;

pub use allowlist::{AllowedFeatures, check_json};
pub use client::{ClientError, ModelClient};
pub use event::{AnswerEnding, ModelEvent, OnModelEvent};
pub use price::{ListedPrice, Money, Price, PriceError, PriceList, Rates};

/// Internals that the fuzz targets and benches use. Not part of the API.
#[doc(hidden)]
pub mod internal {
    pub use crate::wire::sse::SseDecoder;

    /// Whether the gateway passes a request body, without budget and guard.
    pub fn passes_allowlist(wire: crate::wire::Wire, body: &[u8]) -> bool {
        use crate::allowlist::{AllowedFeatures, check_body, check_json};
        let value = check_json(body, usize::MAX).and_then(|()| serde_json::from_slice(body));
        value.is_ok_and(|value| check_body(wire, &value, &AllowedFeatures::default()).is_ok())
            && crate::wire::codec::read_request(wire, body).is_ok()
    }
}
