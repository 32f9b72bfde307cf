//! Messages of the domain name system, as far as egress needs them: questions for addresses and their answers. Reads
//! hostile bytes; never loops on compressed names and never allocates by a count that a message claims.

mod message;

pub use message::{
    DnsError, DnsQuestion, DnsReply, QuestionType, ReplyCode, read_question, read_reply, write_question,
    write_reply,
};
