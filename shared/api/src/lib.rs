//! The admin API: its requests, responses and errors as JSON, and the YAML of pool files. The admin
//! function and the operator's command share these types.

#![warn(missing_docs)]

pub mod answers;
mod error;
mod request;
pub mod yaml;

pub use self::answers::{Answer, Reply};
pub use self::error::{AdminError, AdminErrorCode, call_failure};
pub use self::request::{
    AppId, AuditRequest, CanaryRequest, ConnectApp, CostsRequest, CreateApp, DeleteRequest,
    ExpectedOwner, GithubRequest, HookOrder, ImageOrder, ImagesRequest, JobsRequest, LinesRequest,
    ListRequest, MAX_LIMIT, MIN_REASON, PoolsRequest, Request, Rotated, SwitchRequest, To, VERSION,
    WaitsRequest, check_reason, is_reason,
};
