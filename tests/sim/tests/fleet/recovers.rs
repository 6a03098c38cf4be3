//! Pools whose machines fail for an hour, and recover: at once where Muster can see the fix, by the
//! next probe where it cannot.

use muster_sim::scenario::tell;

/// A failure: how it begins, and how its cause is fixed.
struct Failure {
    name: &'static str,
    pool: &'static str,
    /// Whether GitHub gives jobs while it lasts. An agent that ends at once takes none.
    gives: &'static str,
    begins: &'static str,
    ends: &'static str,
}

const fn failure(name: &'static str, begins: &'static str, ends: &'static str) -> Failure {
    Failure { name, pool: "pool linux max=50 of=acme", gives: "github gives jobs\n", begins, ends }
}

const FAILURES: [Failure; 7] = [
    failure("machines end while they are pending", "fail machines", "mend machines"),
    failure("machines never boot", "fail starts", "mend starts"),
    failure("boots fail", "fail boots", "mend boots"),
    Failure {
        gives: "",
        ..failure("agents end at once", "fail agents", "mend agents; github gives jobs")
    },
    Failure {
        pool: "pool linux max=50 of=acme types=m7i.large",
        ..failure("EC2 refuses", "fail ec2 type m7i.large", "mend ec2")
    },
    failure("GitHub forbids runners", "github forbids runners of acme", "github accepts all"),
    failure("configurations are wrong", "fail configurations", "mend configurations"),
];

/// A fix that Muster can see.
struct Fix {
    name: &'static str,
    /// The pool files of before the failure, as options of the pool.
    files: &'static [&'static str],
    /// The command; FILE is the pool with the options that its failure needs.
    command: &'static str,
    /// Whether it opens what GitHub refuses for a whole organization.
    opens_entity: bool,
}

const fn fix(name: &'static str, command: &'static str) -> Fix {
    Fix { name, files: &[], command, opens_entity: true }
}

/// The rows of the table in docs/design/launches.md. An operator can repeat one, which is the last.
const FIXES: [Fix; 9] = [
    fix("a deployment", "deploy"),
    Fix { opens_entity: false, ..fix("a resumed pool", "switch linux on") },
    fix("resumed launches", "switch launches on"),
    fix("an applied file", "apply FILE:max=49"),
    Fix { files: &["max=50"], ..fix("a changed file", "apply FILE:max=49") },
    Fix {
        files: &["max=50"],
        ..fix("a new image in the file", "apply FILE:max=50:image=ami-0a1b2c3d")
    },
    Fix {
        files: &["max=50"],
        opens_entity: false,
        ..fix("an unchanged file", "apply FILE:max=50")
    },
    Fix { files: &["max=50", "max=49"], ..fix("a restored version", "restore 1") },
    Fix {
        opens_entity: false,
        ..fix("an operator who resumes twice", "switch linux on; switch linux on")
    },
];

impl Failure {
    /// The pool with the options of this failure, as a file names it.
    fn file(&self) -> String {
        self.pool
            .split_whitespace()
            .skip(1)
            .filter(|option| !option.starts_with("max="))
            .collect::<Vec<_>>()
            .join(":")
    }

    /// Begins the hour, after the files that a fix needs.
    fn hour(&self, files: &[&str]) -> String {
        let Self { pool, gives, begins, .. } = self;
        let file = self.file();
        let files: String = files.iter().map(|max| format!("apply {file}:{max}\n")).collect();
        format!(
            "{pool}\n{files}boot by themselves\n{gives}{begins}\nqueue jobs 1 to 20\nadvance 1h\n\
             expect waiting 20\n"
        )
    }
}

#[test]
fn a_fix_that_can_be_seen_serves_twenty_jobs_within_three_minutes() {
    let mut late = Vec::new();
    for failure in &FAILURES {
        for Fix { name, files, command, opens_entity } in &FIXES {
            // A refusal of a whole organization is no pool's alone.
            if failure.name == "GitHub forbids runners" && !opens_entity {
                continue;
            }
            let story = format!(
                "{}{}\n{}\nadvance 3m\nexpect waiting 0\n",
                failure.hour(files),
                failure.ends,
                command.replace("FILE", &failure.file())
            );
            if let Err(why) = tell(&story, None) {
                let why = why.lines().next().unwrap_or_default();
                late.push(format!("{}, {name}: {why}", failure.name));
            }
        }
    }
    assert!(late.is_empty(), "{late:#?}");
}

#[test]
fn a_fix_that_cannot_be_seen_serves_them_within_sixteen() {
    for failure in &FAILURES {
        let story =
            format!("{}{}\nadvance 16m\nexpect waiting 0\n", failure.hour(&[]), failure.ends);
        tell(&story, None).unwrap_or_else(|why| panic!("{}: {why}", failure.name));
    }
}

/// Machines that `story` has launched.
fn launched(story: &str) -> u32 {
    let told = tell(&format!("{story}expect launched 99999\n"), None).expect_err("fewer");
    let count = told.split("it is ").nth(1).and_then(|rest| rest.lines().next());
    count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{told}"))
}

/// Forty jobs. Machines that end while they are pending cost thirty in all. Other failures take a
/// boot, or its deadline, to be known, and until then each job has its own machine.
#[test]
fn six_broken_hours_cost_at_most_thirty_machines() {
    for Failure { name, pool, gives, begins, .. } in &FAILURES {
        let begin = format!("{pool}\nboot by themselves\n{gives}{begins}\nqueue jobs 1 to 40\n");
        let first = match *name {
            "machines end while they are pending" => 0,
            "machines never boot" => launched(&format!("{begin}advance 10m\n")),
            _ => launched(&begin),
        };
        let count = launched(&format!("{begin}advance 6h\n")) - first;
        assert!(count <= 30, "{name}: {count} after {first}");
    }
}

/// A fix that is none costs a few machines, and not one for each job.
#[test]
fn a_fix_that_is_none_costs_three_machines() {
    let mut many = Vec::new();
    for failure in &FAILURES {
        let (_, once) = FIXES.split_last().expect("fixes");
        for Fix { name, files, command, .. } in once {
            let hour = failure.hour(files);
            let command = command.replace("FILE", &failure.file());
            let before = launched(&hour);
            let after = launched(&format!("{hour}{command}\nadvance 3m\n"));
            // One more may be the probe that was due.
            if after > before + 4 {
                many.push(format!("{}, {name}: {before}, then {after}", failure.name));
            }
        }
    }
    assert!(many.is_empty(), "{many:#?}");
}

/// Machines of an old image never boot, and end after another image has replaced it.
#[test]
fn machines_of_an_earlier_configuration_do_not_count_against_the_new_one() {
    let story = "pool linux max=50 of=acme\napply linux:of=acme:max=50\nboot by themselves\n\
                 github gives jobs\nfail starts\nqueue jobs 1 to 20\nadvance 5s\n\
                 apply linux:of=acme:max=50:image=ami-0a1b2c3d\nadvance 9m\n\
                 queue job 21\nadvance 1s\nexplain job 21\nexpect told is meant to run it\n";
    tell(story, None).unwrap_or_else(|why| panic!("{why}"));
}

/// Once the pool is in trouble, agents that end at once cost at most one machine in a minute.
#[test]
fn agents_that_end_at_once_cost_one_machine_in_a_minute() {
    for jobs in [1, 5, 20] {
        let begin = format!(
            "pool linux max=50\nboot by themselves\nfail agents\nqueue jobs 1 to {jobs}\nadvance 1m\n"
        );
        let counts: Vec<u32> =
            (1..12).map(|minute| launched(&format!("{begin}advance {minute}m\n"))).collect();
        let most = counts.windows(2).map(|two| two[1] - two[0]).max();
        assert!(most <= Some(1), "{jobs} jobs: {counts:?}");
    }
}
