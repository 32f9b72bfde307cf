//! Where answers come from, behind one shape: a status and a body in portions.

use crate::scripted::{Emission, ScriptedAnswer, ScriptedModel};
use crate::wire::{Request, Wire};
use bytes::Bytes;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

#[derive(Clone)]
pub enum Upstream {
    Scripted(Arc<ScriptedModel>),
}

pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) body: ReplyBody,
}

pub(super) enum ReplyBody {
    Scripted(VecDeque<Emission>),
}

#[derive(Debug)]
pub enum UpstreamError {
    Cut,
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut => f.write_str("the connection to the model broke off"),
        }
    }
}

impl std::error::Error for UpstreamError {}

impl Upstream {
    pub fn scripted(model: ScriptedModel) -> Self {
        Self::Scripted(Arc::new(model))
    }

    #[expect(clippy::unused_async, reason = "upstreams over the network wait here")]
    pub(super) async fn send(
        &self,
        wire: Wire,
        request: &Request,
        body: &Bytes,
    ) -> Result<Reply, UpstreamError> {
        match self {
            Self::Scripted(model) => {
                let ScriptedAnswer { status, content_type, emissions } = model.answer(wire, request, body);
                let body = ReplyBody::Scripted(emissions.into());
                Ok(Reply { status, content_type: content_type.to_owned(), body })
            }
        }
    }
}

impl ReplyBody {
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, UpstreamError>> {
        match self {
            Self::Scripted(emissions) => loop {
                match emissions.pop_front()? {
                    Emission::Bytes(bytes) => return Some(Ok(bytes)),
                    Emission::Sleep(duration) => tokio::time::sleep(duration).await,
                    Emission::Cut => return Some(Err(UpstreamError::Cut)),
                }
            },
        }
    }
}
