//! One agent, one YAML file, one sandbox, and a record of what happened.
