//! Durable sessions: an append-only event log per session, the state that it folds to, wakes, leases, memory and learnings,
//! over a store. The crate knows nothing of runs, harnesses or models. It reads no clock and no source of randomness:
//! callers pass both in. Its API has no async.
//!
//! Four modules, each importing only those before it: `log` contains the events and the fold that turns them into a
//! state; `decide` contains the pure decisions over that state; `store` writes one decision in one atomic step; `api`
//! is what callers use.

mod api;
mod decide;
mod log;
mod store;

pub use api::bundle::{Attachment, ImportTerms, ImportedSession};
pub use api::context::{ContextFit, ContextSource, ContextWindow, fit};
pub use api::object_store::{
    DirectoryObjects, MAX_OBJECT_BYTES, ObjectStore, ObjectStoreError, SharedObjects,
};
pub use api::sessions::{PAGE_LIMIT, RemoveTerms, Sessions};
pub use api::worker::{ClaimTarget, ClaimedWake, Renewal};
pub use decide::approval::{Approval, Approvals};
pub use decide::children::{ChildEffects, ChildResult, SpawnedSession};
pub use decide::commit::{FOLLOW_UP, FailureClass, WakeCommit, WakeEnding};
pub use decide::control::DeadLetterAction;
pub use decide::directive::{
    CustomToolCall, DIRECTIVE_SCHEMA, DIRECTIVE_TAG, Directive, DirectiveError, DirectiveOutcome,
    SpawnRequest, WakeRequest,
};
pub use decide::ingress::{SessionInput, admit};
pub use decide::lease::{Lease, LeaseHolder, LeaseTerms};
pub use decide::limits::SessionLimits;
pub use decide::refusal::SessionRefusal;
pub use log::cron::next_after;
pub use log::digest::{InvalidDigest, Sha256Digest};
pub use log::event::{
    ApprovalDecision, CompletedSpan, EVENT_VERSION, Payload, QueuedWake, RunReport, SessionEvent,
    SessionUsage, StartedSpan, ToolRequestRef, WakeEnd, WakeStart,
};
pub use log::fold::InvalidTransition;
pub use log::header::{
    HEADER_VERSION, ParentSession, ResourceAccess, SessionEnvironment, SessionHeader, SessionResource,
};
pub use log::id::{EventId, InvalidId, RequestId, SessionId, SpanId, WakeId};
pub use log::learning::{Learning, LearningKind, StoredLearning};
pub use log::memory::{
    CHECKPOINT, MemoryAuthor, MemoryFile, MemoryWrite, SESSION_STATE, WORKING_BUFFER, put_section, section,
};
pub use log::seq::{Seq, SeqSet};
pub use log::state::{
    ChildSession, CurrentWake, DueTimes, STATE_VERSION, SessionState, ToolRequest, ToolRequestKind, WakePhase,
};
pub use log::status::{ErrorClass, SessionStatus, SpanResult, StopReason, WakePriority};
pub use log::time::{TimeSeed, Timestamp};
pub use store::postgres::{PostgresOptions, PostgresStore};
pub use store::sqlite::{SqliteStore, StoreProbe};
pub use store::{
    ClaimFilter, DecideFn, EventClass, FoundSession, ListFilter, ListedSession, Session, SessionChange,
    SessionError, Store, StoreError, StoreSurvey, StoredObject, StoredWorker, UpdateTarget, WaitFor,
    WorkerDescription,
};
