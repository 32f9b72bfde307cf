//! DNS messages, as far as egress needs them: questions for addresses and their replies. The bytes may be hostile:
//! compressed names cannot make it loop, and it allocates nothing by a count that a message claims.

mod message;

pub use message::{
    DnsQuestion, DnsReply, QuestionType, ReplyCode, read_question, read_reply, write_question, write_reply,
};
