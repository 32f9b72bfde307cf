//! Many runs on an engine: one run is one job of Slurm, of Kubernetes, or of this machine. A folder holds the requests
//! and the results, so that a job which is started again knows what was done. The engine handles queueing, placement
//! and lost machines; nothing here schedules, prints or reads the environment.

pub(crate) mod folder;
pub(crate) mod job;
pub(crate) mod kubernetes;
pub(crate) mod request;
pub(crate) mod slurm;
