//! The table of runtimes: one row each. The harness takes their names from it, and `runtime` their folders.

/// `Name = "word in a harness" in folder_below_runtime,`
macro_rules! rows {
    ($use_rows:ident $($more:tt)*) => {
        $use_rows! {
            Claude = "claude" in claude,
            Codex = "codex" in codex,
            Native = "native" in native,
            Acp = "acp" in acp,
            $($more)*
        }
    };
}
pub(crate) use rows;

/// Calls a macro with every row.
#[cfg(not(test))]
macro_rules! runtimes {
    ($use_rows:ident) => {
        $crate::runtimes::rows! { $use_rows }
    };
}

/// Unit tests have one more runtime: it shows that a folder and a row are all that a runtime needs.
#[cfg(test)]
macro_rules! runtimes {
    ($use_rows:ident) => {
        $crate::runtimes::rows! { $use_rows Tiny = "tiny" in tiny, }
    };
}
pub(crate) use runtimes;
