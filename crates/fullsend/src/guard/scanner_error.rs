//! A scanner that could not do its work. The text it had is neither clean nor a threat; the run fails closed.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannerError {
    pub scanner: &'static str,
    pub why: String,
}

impl std::fmt::Display for ScannerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the scanner {} broke: {}", self.scanner, self.why)
    }
}

impl std::error::Error for ScannerError {}
