//! A bundle: a session in one file, to move it to another store. It has the log, memory, learnings and attachments, one JSON
//! object per line, and ends with a digest of all lines before. It has no lease and no program.
//!
//! An import folds the log again. If events, memory and digest do not match, it changes nothing.

use std::cell::RefCell;
use std::io::{BufRead, Read, Write};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::api::sessions::{PAGE_LIMIT, Sessions, check_complete};
use crate::decide::header::check_header;
use crate::decide::memory::check_memory_writes;
use crate::decide::refusal::SessionRefusal;
use crate::log::digest::Sha256Digest;
use crate::log::event::{EVENT_VERSION, SessionEvent};
use crate::log::header::SessionHeader;
use crate::log::id::SessionId;
use crate::log::learning::StoredLearning;
use crate::log::memory::{MemoryAuthor, MemoryFile, MemoryWrite};
use crate::log::seq::Seq;
use crate::log::state::{SessionState, ToolRequest, ToolRequestKind};
use crate::store::{Session, SessionChange, SessionError, StoreError};

/// Version 2 has events of version 2; version 3 has events of version 3 and names the end of the log. All are imported.
const BUNDLE_VERSION: u32 = 3;
const MAX_LINE_BYTES: u64 = 16 << 20;
const MAX_ATTACHMENT_BYTES: usize = 256 << 20;

#[derive(Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case", deny_unknown_fields)]
enum Record {
    Bundle {
        version: u32,
        header: SessionHeader,
        #[serde(default)]
        head: Option<Seq>,
    },
    Event {
        event: SessionEvent,
    },
    Memory {
        file: MemoryFile,
    },
    Learning {
        learning: StoredLearning,
    },
    Attachment {
        attachment: Attachment,
    },
    End {
        digest: Sha256Digest,
    },
}

/// A file that belongs to the session but not to its store, such as a transcript of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attachment {
    pub name: String,
    pub content: String,
}

impl Sessions {
    /// Writes a session as it is now, and returns the head of its log. Later appends are not in it.
    pub fn export(
        &mut self,
        id: SessionId,
        attachments: &mut dyn Iterator<Item = Attachment>,
        out: &mut dyn Write,
    ) -> Result<Seq, SessionError> {
        let (session, memory) = self.session_with_memory(id)?;
        let mut writer = Writer { out, hasher: Sha256::new() };
        let head = Some(session.state.head);
        writer.write(&Record::Bundle {
            version: BUNDLE_VERSION,
            header: bundle_header(&session.header),
            head,
        })?;
        let mut after = Seq(0);
        while after < session.state.head {
            let page = self.store.events(id, after, session.state.head, PAGE_LIMIT)?;
            check_complete(id, after, session.state.head, PAGE_LIMIT, &page)?;
            after = page.last().map_or(session.state.head, |event| event.seq);
            page.into_iter().try_for_each(|event| writer.write(&Record::Event { event }))?;
        }
        memory.into_iter().try_for_each(|file| writer.write(&Record::Memory { file }))?;
        let mut learnings = self.store.learnings(
            session.header.repository.as_deref(),
            &session.header.agent,
            self.limits.learnings_per_agent,
        )?;
        learnings.retain(|learning| learning.session_id == id);
        learnings.into_iter().rev().try_for_each(|learning| writer.write(&Record::Learning { learning }))?;
        for attachment in attachments {
            writer.write(&Record::Attachment { attachment })?;
        }
        let digest = Sha256Digest(writer.hasher.clone().finalize().into());
        writer.write(&Record::End { digest })?;
        Ok(session.state.head)
    }

    /// Imports a session, whole or not at all. A bundle is untrusted: its resources, environment and answers about tool
    /// calls count only if the terms accept them, and its parent is dropped.
    pub fn import(
        &mut self,
        bundle: &mut dyn BufRead,
        terms: &ImportTerms,
    ) -> Result<ImportedSession, SessionError> {
        let mut reader = Reader { bundle, hasher: Sha256::new(), line: 0 };
        let (first, _) = reader.read()?;
        let Record::Bundle { version, header: found, head } = first else {
            return Err(reader.refuse("the file is not a bundle"));
        };
        if !(1..=BUNDLE_VERSION).contains(&version) {
            return Err(reader.refuse("the bundle has a version that this program does not know"));
        }
        check_header(&found, &self.limits)?;
        let (header, left_out) = terms.apply(found);
        let folding = RefCell::new(BundleFold { reader, state: SessionState::default(), next: None });
        let mut attachments = Vec::new();
        let limits = &self.limits;
        let mut finish = || {
            let rest = folding.borrow_mut().rest()?;
            let end = folding.borrow().state.head;
            if version > 2 && head != Some(end) {
                return Err(folding.borrow().reader.refuse("events are missing from the bundle"));
            }
            terms.check_answers(&folding.borrow().state)?;
            check_memory_writes(&rest.memory, limits)?;
            let digests = rest.memory.iter().map(|write| write.file.digest()).collect();
            if folding.borrow().state.memory != digests {
                return Err(folding.borrow().reader.refuse("the memory files do not match the log"));
            }
            attachments = rest.attachments;
            let state = folding.borrow().state.clone();
            let memory = rest.memory.into_iter().map(|write| write.file).collect();
            Ok(SessionChange {
                memory,
                learnings: rest.learnings,
                learnings_kept: limits.learnings_per_agent,
                ..SessionChange::of(state, None)
            })
        };
        let mut events = std::iter::from_fn(|| folding.borrow_mut().event().transpose());
        if !self.store.import(&header, &mut events, &mut finish)? {
            return Err(SessionRefusal::Exists.into());
        }
        Ok(ImportedSession { session: self.session(header.id)?, attachments, left_out })
    }
}

/// What an import accepts from its bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportTerms {
    /// The repository that the session belongs to from now on.
    pub repository: Option<String>,
    pub organisation: Option<String>,
    /// The ids of the resources that are accepted, with their paths on this host.
    pub resources: Vec<String>,
    pub environment: bool,
    /// Accept a person's earlier answers about tool calls.
    pub answers: bool,
}

/// An imported session, and what the terms left out.
#[derive(Debug)]
pub struct ImportedSession {
    pub session: Session,
    pub attachments: Vec<Attachment>,
    pub left_out: Vec<String>,
}

impl ImportTerms {
    fn apply(&self, found: SessionHeader) -> (SessionHeader, Vec<String>) {
        let mut left_out = Vec::new();
        let mut header = SessionHeader {
            repository: self.repository.clone(),
            organisation: self.organisation.clone(),
            imported: true,
            ..found
        };
        if let Some(parent) = header.parent.take() {
            // A parent would get a result as if it had started this session, and the budget would be whatever the
            // bundle says.
            left_out.push(format!("parent session {}", parent.session));
        }
        if !self.environment
            && let Some(environment) = header.environment.take()
        {
            left_out.push(format!("environment `{}`", environment.id));
        }
        header.resources.retain(|resource| {
            let accepted = self.resources.contains(&resource.id);
            if !accepted {
                left_out.push(format!("resource `{}` ({})", resource.id, resource.source));
            }
            accepted
        });
        (header, left_out)
    }

    fn check_answers(&self, state: &SessionState) -> Result<(), SessionRefusal> {
        let is_answered = |request: &ToolRequest| {
            request.kind == ToolRequestKind::Confirmation && request.answered.is_some()
        };
        if !self.answers && state.requests.iter().any(is_answered) {
            return Err(SessionRefusal::AnsweredElsewhere);
        }
        Ok(())
    }
}

/// The header in a bundle: where the session came from last does not matter to the next store.
fn bundle_header(header: &SessionHeader) -> SessionHeader {
    SessionHeader { imported: false, ..header.clone() }
}

struct Writer<'a> {
    out: &'a mut dyn Write,
    hasher: Sha256,
}

impl Writer<'_> {
    fn write(&mut self, record: &Record) -> Result<(), SessionError> {
        let failed = |error: std::io::Error| StoreError::Unavailable {
            step: "write the bundle",
            source: Box::new(error),
        };
        let mut line =
            without_commands(&serde_json::to_string(record).map_err(|error| failed(error.into()))?);
        line.push('\n');
        self.hasher.update(&line);
        Ok(self.out.write_all(line.as_bytes()).map_err(failed)?)
    }
}

/// Equivalent JSON in which a CI that prints it finds no command (`##[name]`) and no other line end. Both occur only inside
/// strings.
fn without_commands(json: &str) -> String {
    let mut out = json.replace("##", "#\\u0023");
    for end in ['\u{85}', '\u{2028}', '\u{2029}'] {
        out = out.replace(end, &format!("\\u{:04x}", u32::from(end)));
    }
    out
}

struct Reader<'a> {
    bundle: &'a mut dyn BufRead,
    hasher: Sha256,
    line: usize,
}

impl Reader<'_> {
    /// The next record, with the digest of all lines before it.
    fn read(&mut self) -> Result<(Record, Sha256Digest), SessionError> {
        let failed = |error| StoreError::Unavailable { step: "read the bundle", source: Box::new(error) };
        self.line += 1;
        let mut line = Vec::new();
        (&mut *self.bundle).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(failed)?;
        if line.last() != Some(&b'\n') {
            return Err(self.refuse("the bundle is cut off, or a line is too long"));
        }
        let before = Sha256Digest(self.hasher.clone().finalize().into());
        self.hasher.update(&line);
        let record = serde_json::from_slice(&line).map_err(|error| self.refuse(&error.to_string()))?;
        Ok((record, before))
    }

    fn refuse(&self, why: &str) -> SessionError {
        SessionRefusal::Bundle { line: self.line, why: why.to_owned() }.into()
    }
}

/// A bundle that is being read, and the fold of its events.
struct BundleFold<'a> {
    reader: Reader<'a>,
    state: SessionState,
    /// The first record after the events.
    next: Option<(Record, Sha256Digest)>,
}

#[derive(Default)]
struct BundleRecords {
    memory: Vec<MemoryWrite>,
    learnings: Vec<StoredLearning>,
    attachments: Vec<Attachment>,
}

impl BundleFold<'_> {
    fn event(&mut self) -> Result<Option<SessionEvent>, SessionError> {
        if self.next.is_some() {
            return Ok(None);
        }
        let event = match self.reader.read()? {
            (Record::Event { event }, _) => event,
            other => {
                self.next = Some(other);
                return Ok(None);
            }
        };
        if !(1..=EVENT_VERSION).contains(&event.version) {
            return Err(self.reader.refuse("an event has a version that this program does not know"));
        }
        self.state.apply(&event).map_err(|illegal| self.reader.refuse(&illegal.to_string()))?;
        Ok(Some(event))
    }

    /// Everything after the events, up to the digest.
    fn rest(&mut self) -> Result<BundleRecords, SessionError> {
        let mut rest = BundleRecords::default();
        let mut room = MAX_ATTACHMENT_BYTES;
        loop {
            let (record, digest_before) = match self.next.take() {
                Some(next) => next,
                None => self.reader.read()?,
            };
            match record {
                Record::Memory { file } => {
                    rest.memory.push(MemoryWrite { author: MemoryAuthor::Fullsend, file });
                }
                Record::Learning { learning } => rest.learnings.push(learning),
                Record::Attachment { attachment } => {
                    let left = room.checked_sub(attachment.content.len());
                    room = left.ok_or_else(|| self.reader.refuse("the attachments are too large"))?;
                    rest.attachments.push(attachment);
                }
                Record::End { digest } if digest == digest_before => return Ok(rest),
                Record::End { .. } => return Err(self.reader.refuse("the digest does not match")),
                Record::Bundle { .. } | Record::Event { .. } => {
                    return Err(self.reader.refuse("a record is out of place"));
                }
            }
        }
    }
}
