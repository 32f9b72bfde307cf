//! Properties of what passes.

use crate::http1::{RequestHead, RequestTarget};
use proptest::prelude::*;

proptest! {
    /// Whatever target passes the strict reader, both sides split it at the same places.
    #[test]
    fn a_target_has_one_path(text in "[ -~]{0,40}") {
        let head = format!("GET {text} HTTP/1.1\r\nHost: a\r\n\r\n");
        if let Ok(RequestHead { target: RequestTarget::Origin { path, query }, .. }) = RequestHead::parse(head.as_bytes()) {
            let whole = query.map_or(path.clone(), |query| format!("{path}?{query}"));
            prop_assert_eq!(whole, text);
            prop_assert!(path.starts_with('/') && !path.contains(['?', '#', ' ']));
        }
    }
}
