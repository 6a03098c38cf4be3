//! Watches GitHub, EC2 and our records, and tells what is new in the order in which it happened.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use jiff::Timestamp;
use muster_e2e::stack::id;
use muster_e2e::{Job, Stack};
use serde_json::Value;

use crate::screen::{Screen, Who};

/// What happened, and when.
type News = (Timestamp, Who, String);

/// What has been told so far.
pub(crate) struct Story<'a> {
    stack: &'a Stack,
    screen: &'a Screen,
    /// Instances and machines from before: not part of this story.
    old: BTreeSet<String>,
    jobs: BTreeMap<u64, Vec<&'static str>>,
    machines: BTreeMap<String, String>,
    events: BTreeMap<String, String>,
    calls: u64,
    last_try: Option<Timestamp>,
    tries: u32,
}

/// How things stand.
pub(crate) struct Now {
    /// The jobs of the story, in order.
    pub(crate) jobs: Vec<Value>,
    /// Its machines, in order of launch.
    pub(crate) machines: Vec<Value>,
    /// Its instances, in order.
    pub(crate) rows: Vec<Value>,
    /// TerminateInstances calls so far.
    pub(crate) tries: u32,
}

impl<'a> Story<'a> {
    pub(crate) async fn begin(stack: &'a Stack, screen: &'a Screen) -> Result<Self> {
        let mut old: BTreeSet<String> =
            stack.rows().await?.iter().map(|row| id(&row["name"])).collect();
        old.extend(stack.machines().await?.iter().map(|machine| id(&machine["id"])));
        let calls = stack.calls("ec2", "TerminateInstances").await?;
        let calls = calls.last().and_then(|call| call["number"].as_u64()).unwrap_or_default();
        Ok(Self {
            stack,
            screen,
            old,
            jobs: BTreeMap::new(),
            machines: BTreeMap::new(),
            events: BTreeMap::new(),
            calls,
            last_try: None,
            tries: 0,
        })
    }

    /// From here on this job is part of the story.
    pub(crate) fn follow(&mut self, job: &Job) {
        self.jobs.entry(job.id).or_default();
    }

    /// Says something that this program did.
    pub(crate) fn say(&self, who: Who, what: &str) {
        self.screen.tell(Timestamp::now(), who, what);
    }

    /// Tells the story until `is_there`.
    pub(crate) async fn until(
        &mut self,
        what: &str,
        seconds: u64,
        is_there: impl Fn(&Now) -> bool,
    ) -> Result<Now> {
        let begun = Instant::now();
        loop {
            let now = self.look().await?;
            if is_there(&now) {
                return Ok(now);
            }
            if begun.elapsed() > Duration::from_secs(seconds) {
                bail!("nothing more happened: waited {seconds} s for {what}");
            }
            self.screen.wait(&format!("waiting for {what}"));
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Tells what is new.
    async fn look(&mut self) -> Result<Now> {
        let mut news = Vec::new();
        let mut jobs = Vec::new();
        for number in self.jobs.keys().copied().collect::<Vec<_>>() {
            let job = self.stack.world.get(&format!("jobs/{number}")).await?;
            self.job(number, &job, &mut news);
            jobs.push(job);
        }
        let mut machines = self.stack.machines().await?;
        machines.retain(|machine| !self.old.contains(&id(&machine["id"])));
        machines.iter().for_each(|machine| self.machine(machine, &mut news));
        let mut rows = self.stack.rows().await?;
        rows.retain(|row| !self.old.contains(&id(&row["name"])));
        for row in &rows {
            let machine = machines.iter().find(|machine| machine["id"] == row["machine"]);
            self.row(row, machine, &mut news);
        }
        self.terminate_calls(&mut news).await?;
        news.sort_by_key(|(at, ..)| *at);
        for (at, who, what) in news {
            self.screen.tell(at, who, &what);
        }
        Ok(Now { jobs, machines, rows, tries: self.tries })
    }

    fn job(&mut self, number: u64, job: &Value, news: &mut Vec<News>) {
        let told = self.jobs.entry(number).or_default();
        let runner = id(&job["runner"]["name"]);
        let steps = [
            ("queued_at", "is queued".to_owned()),
            ("approved_at", "is approved, and queued again".to_owned()),
            ("started_at", format!("is in_progress on runner {runner}")),
            ("began_at", "runs its first step: the job-started hook was accepted".to_owned()),
            ("completed_at", format!("is completed: {}", id(&job["conclusion"]))),
        ];
        for (field, what) in steps {
            if let (Some(at), false) = (millis(&job[field]), told.contains(&field)) {
                told.push(field);
                news.push((at, Who::Github, format!("job {number} {what}")));
            }
        }
    }

    fn machine(&mut self, machine: &Value, news: &mut Vec<News>) {
        let (name, state) = (id(&machine["id"]), id(&machine["state"]));
        let told = self.machines.insert(name.clone(), state.clone());
        if told.is_none() {
            let what = format!(
                "launches {name} ({}, {}, {})",
                id(&machine["instance_type"]),
                id(&machine["market"]),
                id(&machine["zone"])
            );
            news.extend(millis(&machine["launched_at"]).map(|at| (at, Who::Ec2, what)));
        }
        if told.as_deref() != Some(&state) && state != "pending" {
            let why = id(&machine["reason"]["code"]);
            let why = if why.is_empty() { why } else { format!(" ({why})") };
            let what = format!("{name} is {state}{why}");
            news.extend(millis(&machine["since"]).map(|at| (at, Who::Ec2, what)));
        }
    }

    /// The record keeps its own story; its last thirty lines. A pass writes the time of its start
    /// on all of them, so what it says of the machine is told after the machine's launch.
    fn row(&mut self, row: &Value, machine: Option<&Value>, news: &mut Vec<News>) {
        let launched = machine.and_then(|machine| millis(&machine["launched_at"]));
        let name = id(&row["name"]);
        let told = self.events.get(&name).cloned().unwrap_or_default();
        let mut newest = told.clone();
        let events: Vec<&Value> = row["events"].as_array().into_iter().flatten().collect();
        // Several lines of one moment belong to one change and were told together.
        for event in events.iter().filter(|event| id(&event["at"]) > told) {
            newest = newest.max(id(&event["at"]));
            let what = id(&event["what"]);
            let least = launched.filter(|_| what.contains("machine")).unwrap_or(Timestamp::MIN);
            if let Ok(at) = id(&event["at"]).parse::<Timestamp>() {
                news.push((at.max(least), Who::Muster, format!("{name}: {what}")));
            }
        }
        self.events.insert(name, newest);
    }

    async fn terminate_calls(&mut self, news: &mut Vec<News>) -> Result<()> {
        for call in self.stack.calls("ec2", "TerminateInstances").await? {
            let number = call["number"].as_u64().unwrap_or_default();
            let Some(at) = millis(&call["at_ms"]) else { continue };
            if number <= self.calls || call["outcome"] == "open" {
                continue;
            }
            self.calls = number;
            self.tries += 1;
            let waited = self.last_try.map(|last| at.duration_since(last).as_secs_f64());
            let waited = waited.map(|s| format!(", {s:.1} s after the last")).unwrap_or_default();
            self.last_try = Some(at);
            let what =
                format!("TerminateInstances, try {}{waited}: {}", self.tries, id(&call["outcome"]));
            news.push((at, Who::Ec2, what));
        }
        Ok(())
    }
}

fn millis(value: &Value) -> Option<Timestamp> {
    Timestamp::from_millisecond(value.as_i64()?).ok()
}
