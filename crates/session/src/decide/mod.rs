//! Pure decisions over a session's state: what may come in (`ingress`), how a wake starts (`claim`) and ends (`commit`),
//! who may write about it (`lease`), what else may happen (`control`). Each one drafts events; none reads a clock or a store.

pub(crate) mod approval;
pub(crate) mod children;
pub(crate) mod claim;
pub(crate) mod commit;
pub(crate) mod control;
pub(crate) mod directive;
pub(crate) mod draft;
pub(crate) mod header;
pub(crate) mod ingress;
pub(crate) mod lease;
pub(crate) mod limits;
pub(crate) mod memory;
pub(crate) mod refusal;
pub(crate) mod retry;
