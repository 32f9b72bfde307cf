//! The durable event log of an agent that lasts.
