//! The built-in layer: the farthest from the repository, read by the same parser as everybody's files.

/// Path inside the layer, and the text.
pub const FILES: &[(&str, &str)] = &[
    ("defaults.yaml", include_str!("defaults.yaml")),
    ("policies/default.yaml", include_str!("policies/default.yaml")),
];
