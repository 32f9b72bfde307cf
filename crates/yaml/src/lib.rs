//! YAML documents that remember where everything was written.
