//! What is counted in a run, for its report.

macro_rules! tally {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// How often something happened, for the report.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Tally {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl Tally {
            /// All of another run.
            pub const fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)+
            }
        }
    };
}

tally! {
    /// Jobs queued at GitHub.
    jobs,
    /// Jobs that ran to their end.
    served,
    /// Jobs that could be served at once, and had their claim within 5 seconds.
    claimed_promptly,
    /// … within a minute.
    claimed_in_a_minute,
    /// … later.
    claimed_later,
    /// Jobs that ended in their set-up because the runner was being deleted.
    refused,
    /// Jobs that GitHub gave to a runner whose pool does not serve them: they ended in their set-up.
    foreign,
    /// Jobs whose work was cut off by something that is not ours (spot, a lost machine).
    lost_to_cloud,
    /// Jobs killed by an order or by the lifetime of the machine.
    killed_by_order,
    /// … by the lifetime, before it ran for half of that. Zero where nothing kept the runner from
    /// retiring.
    cut_short,
    /// Running jobs that we killed although GitHub told the truth about them. Always zero.
    busy_kills_truthful,
    /// … although GitHub lied, with the job's start on record by the hook. Always zero.
    busy_kills_hooked,
    /// … on GitHub's lie alone, without a report of the hook: cannot be excluded, so it is
    /// measured.
    busy_kills_unseen,
    /// … by an operator who bypassed GitHub, with no report of the hook.
    busy_kills_bypassed,
    /// Jobs that ran without hooks while GitHub called their runner idle: those that could be
    /// killed unseen.
    unseen_jobs,
    /// Machines that were left behind. Always zero.
    leaked,
    /// Jobs with a row that nobody served or explained. Always zero.
    lost,
    /// Machines beyond the slots of their launch. Always zero.
    doubled,
    /// Jobs that were cancelled.
    cancelled,
    /// Jobs that came to wait for an approval.
    gated,
    /// … and were approved.
    approved,
    /// Jobs that no pool serves.
    not_ours,
    /// Jobs of ours whose events got lost before a row was there: GitHub never sent them, or a
    /// message got lost.
    never_heard_of,
    /// Failed deliveries that GitHub was asked to repeat.
    redelivered,
    /// Registrations that GitHub is left with.
    registrations_left,
    /// Machines launched.
    machines,
    /// Machines that were launched for a job and came up, and on which no job's step ran.
    in_vain,
    /// What machines cost, in millionths of a dollar.
    spent,
    /// … as the record of usage tells it, at the same prices.
    told,
    /// … those that were launched for a job, and on which no job's step ran.
    wasted,
    /// … and those that were launched for nobody, of a min idle, and on which none ran.
    kept_idle,
    /// Calls of the tables: reads and commits.
    table_calls,
    /// Calls of EC2.
    ec2_calls,
    /// Calls of GitHub.
    github_calls,
    /// Messages sent to the queues.
    messages,
    /// Lines of the audit trail.
    audit_lines,
    /// Invocations.
    invocations,
    /// Orders of operators.
    orders,
    /// Rows given up by force.
    given_up,
    /// Images that EC2 made of builders.
    images_made,
    /// Families of pools with an image of their own at the end.
    images_current,
    /// Messages that ended in a dead-letter queue.
    dead_letters,
}
