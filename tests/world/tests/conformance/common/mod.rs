//! What the conformance tests share.

pub(crate) mod cloud;
pub(crate) mod runner_api;
