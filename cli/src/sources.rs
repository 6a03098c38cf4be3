//! Where log lines come from.

/// The source of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Webhook,
    ScaleUp,
    Reaper,
    RunnerApi,
    Admin,
    /// The access log of the two APIs.
    Api,
}

impl Source {
    /// All sources.
    pub const ALL: [Self; 6] =
        [Self::Webhook, Self::ScaleUp, Self::Reaper, Self::RunnerApi, Self::Admin, Self::Api];
    /// The sources whose lines contain names of jobs and instances.
    pub const FUNCTIONS: [Self; 5] =
        [Self::Webhook, Self::ScaleUp, Self::Reaper, Self::RunnerApi, Self::Admin];

    /// Returns its name without the stack's.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::ScaleUp => "scale-up",
            Self::Reaper => "reaper",
            Self::RunnerApi => "runner-api",
            Self::Admin => "admin",
            Self::Api => "api",
        }
    }

    /// Returns its log group in the template.
    #[must_use]
    pub fn group(self, stack: &str) -> String {
        let folder = if self == Self::Api { "vendedlogs" } else { "lambda" };
        format!("/aws/{folder}/{stack}-{}", self.name())
    }
}
