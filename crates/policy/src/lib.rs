//! The OpenShell policy model.
