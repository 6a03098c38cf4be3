//! The passes, each in a story that brings it to most of its calls.

use muster_sim::world::World;

/// A pass, and the story around it.
pub(crate) struct Pass {
    pub(crate) name: &'static str,
    /// How the trace calls the function.
    pub(crate) function: &'static str,
    /// What has been.
    pub(crate) before: &'static str,
    /// What no command says.
    pub(crate) prepare: fn(&mut World),
    /// What the first invocation of the function does something about.
    pub(crate) then: &'static str,
    /// What an operator does who was told of an error.
    pub(crate) again: &'static str,
    /// All that is tried, where a run takes long: that another does this meanwhile.
    pub(crate) only: Option<&'static str>,
}

impl Pass {
    /// The pool file lists some pool no more.
    pub(crate) fn removes_a_pool(&self) -> bool {
        self.before.matches("apply").count() > 1
    }

    /// Some machines live on for ever.
    pub(crate) fn keeps_runners(&self) -> bool {
        self.before.contains("min-idle")
    }
}

const PLAIN: Pass =
    Pass { name: "", function: "", before: "", prepare: |_| (), then: "", again: "", only: None };

pub(crate) const PASSES: &[Pass] = &[
    Pass {
        name: "event batch of new jobs",
        function: "scale-up",
        before: "pool linux max=5 labels=linux priority=9; pool big max=5 labels=linux,gpu",
        then: "queue job 1 labels=linux and queue job 2 labels=linux and queue job 3 labels=linux,gpu",
        ..PLAIN
    },
    Pass {
        name: "event batch of a theft",
        function: "scale-up",
        before: "pool linux max=5
                 queue job 1; queue job 2; boot 1; boot 2",
        then: "start job 2 on 1 and queue job 3",
        ..PLAIN
    },
    Pass {
        name: "event batch of a cancelled job",
        function: "scale-up",
        before: "pool linux max=5
                 queue job 1; queue job 2",
        then: "cancel job 1",
        ..PLAIN
    },
    Pass {
        name: "launch pass",
        function: "launch",
        before: "pool linux max=5; limit acme 4",
        then: "queue job 1 and queue job 2",
        ..PLAIN
    },
    Pass {
        name: "launch pass of 130 jobs",
        function: "launch",
        before: "pool linux max=200
                 switch launches off; queue jobs 1 to 130",
        then: "switch launches on; advance 1m",
        only: Some("launches are paused"),
        ..PLAIN
    },
    Pass {
        name: "launch pass of a pool without capacity",
        function: "launch",
        before: "pool cheap max=5 market=spot priority=9; pool dear max=5
                 fail ec2 launch capacity 1",
        then: "queue job 1",
        ..PLAIN
    },
    Pass {
        name: "launch pass of a free runner",
        function: "launch",
        before: "pool linux max=5
                 queue job 1; boot 1; cancel job 1",
        then: "queue job 2 and queue job 3",
        ..PLAIN
    },
    Pass {
        name: "launch pass of a canary",
        function: "launch",
        before: "pool linux max=5 of=acme",
        then: "canary linux",
        ..PLAIN
    },
    Pass {
        name: "launch pass after a lost answer",
        function: "launch",
        before: "pool linux max=5; replay hides machines
                 fail ec2 launch lost
                 queue job 1",
        then: "advance 5m",
        ..PLAIN
    },
    Pass {
        name: "reap batch of orders",
        function: "reaper",
        before: "pool linux max=5
                 queue job 1; queue job 2; boot 1; boot 2; cancel job 1; cancel job 2",
        then: "delete 1 and delete 2",
        ..PLAIN
    },
    Pass {
        name: "reap batch of ends",
        function: "reaper",
        before: "pool linux max=5
                 queue job 1; queue job 2; boot 1; boot 2; start job 1 on 1; start job 2 on 2",
        then: "finish job 1 and finish job 2",
        ..PLAIN
    },
    Pass {
        name: "reap pass of a failed boot",
        function: "reaper",
        before: "pool linux max=5
                 queue job 1",
        then: "boot 1 fails",
        ..PLAIN
    },
    Pass {
        name: "reap pass of a machine that never boots",
        function: "reaper",
        before: "pool linux max=5
                 queue job 1; boot 1 never; advance 9m",
        then: "advance 2m",
        ..PLAIN
    },
    Pass {
        name: "reap pass of a runner that idles",
        function: "reaper",
        before: "pool linux max=5
                 queue job 1; boot 1; cancel job 1; advance 4m",
        then: "advance 3m",
        ..PLAIN
    },
    Pass {
        name: "reap pass of a runner that has idled",
        function: "reaper",
        before: "pool linux max=5
                 queue job 1; boot 1; cancel job 1; advance 7m",
        then: "advance 4m",
        ..PLAIN
    },
    Pass {
        name: "reap pass of a failed boot, of a job that is over",
        function: "reaper",
        before: "pool linux max=5
                 queue job 1; lose webhooks 1; cancel job 1; queue job 2",
        then: "boot 1 fails",
        ..PLAIN
    },
    Pass {
        name: "reap pass of a refused terminate",
        function: "reaper",
        before: "pool linux max=5
                 queue job 1; boot 1; cancel job 1; fail ec2 terminate 4",
        then: "delete 1",
        ..PLAIN
    },
    Pass {
        name: "reap pass of a surplus runner",
        function: "reaper",
        before: "pool linux of=acme max=5 min-idle=1
                 sweep; boot 1; queue job 1; boot 2; cancel job 1; advance 8m",
        then: "advance 4m",
        ..PLAIN
    },
    Pass {
        name: "launch pass of a pool that keeps runners idle",
        function: "launch",
        before: "pool linux of=acme max=5 min-idle=1",
        then: "sweep",
        ..PLAIN
    },
    Pass {
        name: "launch pass without capacity anywhere",
        function: "launch",
        before: "pool linux max=5
                 fail ec2 launch capacity 1",
        then: "queue job 1",
        ..PLAIN
    },
    Pass {
        name: "request for a configuration",
        function: "runner-api",
        before: "pool linux max=5
                 queue job 1",
        then: "boot 1",
        ..PLAIN
    },
    Pass {
        name: "request for a configuration before the launch's answer",
        function: "runner-api",
        before: "pool linux max=5
                 fail ec2 launch lost
                 queue job 1",
        then: "boot 1",
        ..PLAIN
    },
    Pass {
        name: "report of a job's start",
        function: "runner-api",
        before: "pool linux max=5
                 queue job 1; boot 1",
        then: "start job 1",
        ..PLAIN
    },
    Pass {
        name: "report of a failed boot",
        function: "runner-api",
        before: "pool linux max=5
                 queue job 1",
        then: "boot 1 fails",
        ..PLAIN
    },
    Pass {
        name: "sweep",
        function: "sweep",
        before: "pool linux max=5
                 queue job 1; queue job 2; queue job 3; boot 1; boot 2; boot 3
                 start job 1 on 1; start job 2 on 2; start job 3 on 3; fail wake-ups
                 queue job 4; fail machine events; finish job 1; finish job 2; finish job 3
                 advance 130s; mend wake-ups",
        then: "sweep",
        ..PLAIN
    },
    Pass {
        name: "sweep after failed deliveries",
        function: "sweep",
        before: "pool linux max=5
                 sweep; refuse webhooks 2; queue job 1; queue job 2",
        then: "sweep",
        ..PLAIN
    },
    Pass {
        name: "sweep that asks for a silent job",
        function: "sweep",
        before: "pool linux max=1
                 queue job 1; boot 1; start job 1; queue job 2; queue job 3
                 lose webhooks 1; cancel job 2; advance 3600s",
        then: "advance 2m",
        ..PLAIN
    },
    Pass {
        name: "sweep that asks whether GitHub still refuses",
        function: "sweep",
        before: "pool linux max=2
                 github refuses acme
                 queue job 1; boot 1; github accepts all",
        then: "advance 2m",
        ..PLAIN
    },
    Pass {
        name: "sweep that finds strays",
        function: "sweep",
        before: "pool linux max=2
                 advance 930s",
        prepare: |world| {
            for launch in ["linux-l0", "linux-l1", "linux-l2"] {
                world.make_machine(Some(launch.parse().expect("a launch")));
            }
        },
        then: "advance 1m",
        ..PLAIN
    },
    Pass {
        name: "sweep over the ledger",
        function: "sweep",
        before: "pool linux max=5
                 queue job 1; boot 1 never; cancel job 1; fail ec2 terminate for ever
                 delete 1 force; advance 1m
                 mend ec2",
        then: "sweep",
        ..PLAIN
    },
    Pass {
        name: "sweep over a pool that is removed",
        function: "sweep",
        before: "pool default
                 apply default large:labels=linux,large:max=1 spare:labels=linux,small:max=5
                 queue job 1 labels=self-hosted,large; queue job 2 labels=self-hosted,large
                 boot 1; start job 1 on 1; apply default spare:labels=linux,large:max=5",
        then: "sweep",
        ..PLAIN
    },
    Pass {
        name: "order to end a runner",
        function: "admin",
        before: "pool linux max=5
                 queue job 1; boot 1; cancel job 1",
        then: "delete 1",
        again: "delete 1",
        ..PLAIN
    },
    Pass {
        name: "order to end a runner by force",
        function: "admin",
        before: "pool linux max=5
                 queue job 1; boot 1; cancel job 1",
        then: "delete 1 force",
        again: "delete 1 force",
        ..PLAIN
    },
    Pass {
        name: "order of a canary",
        function: "admin",
        before: "pool linux max=5 of=acme",
        then: "canary linux",
        again: "canary linux",
        ..PLAIN
    },
    Pass {
        name: "order to switch launches off",
        function: "admin",
        before: "pool linux max=5",
        then: "switch launches off and queue job 1",
        again: "switch launches off",
        ..PLAIN
    },
    Pass {
        name: "order of a pool file",
        function: "admin",
        before: "pool linux max=5",
        then: "apply linux:max=2 large:labels=linux,large:max=3",
        again: "apply linux:max=2 large:labels=linux,large:max=3",
        ..PLAIN
    },
];
