//! Why something could not be fetched. No message contains a credential or a query.

use std::fmt;

use egress::dial::DialError;

#[derive(Debug)]
pub enum FetchError {
    /// The HTTP client cannot be set up.
    Host {
        why: String,
    },
    Address {
        why: String,
    },
    /// Plain HTTP is not enabled for this host.
    Plain {
        address: String,
    },
    /// The address is not allowed.
    Refused {
        address: String,
        why: String,
    },
    Redirects {
        address: String,
    },
    Dial(DialError),
    Http(hyper::Error),
    Timeout {
        address: String,
    },
    TooLarge {
        address: String,
        max_bytes: usize,
    },
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { why } | Self::Address { why } => f.write_str(why),
            Self::Plain { address } => write!(f, "{address} is not allowed over plain http: use https"),
            Self::Refused { address, why } => write!(f, "{address} is not allowed: {why}"),
            Self::Redirects { address } => write!(f, "{address} redirects too often"),
            Self::Dial(error) => error.fmt(f),
            Self::Http(error) => write!(f, "the connection broke off: {error}"),
            Self::Timeout { address } => write!(f, "{address} did not respond in time"),
            Self::TooLarge { address, max_bytes } => write!(f, "{address} has more than {max_bytes} bytes"),
        }
    }
}

impl std::error::Error for FetchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Dial(error) => Some(error),
            Self::Http(error) => Some(error),
            _ => None,
        }
    }
}

impl FetchError {
    /// Whether the same request may succeed a moment later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Http(_) | Self::Timeout { .. } | Self::Dial(_))
    }
}
