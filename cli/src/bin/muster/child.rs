//! A child process and its output.

use std::io::Read;
use std::process::{Child as Process, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use muster_cli::failure::Failure;
use muster_cli::world::ProgramResult;
use muster_domain::causes::with_causes;

/// A running child process. Dropping this kills it.
pub(crate) struct Child {
    process: Process,
    said: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

impl Child {
    /// # Errors
    /// Fails when the program is not installed.
    pub(crate) fn start(name: &str, command: &mut Command) -> Result<Self, Failure> {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().map_err(|error| not_started(name, &error))?;
        let said = Arc::default();
        let mut readers = Vec::new();
        readers.extend(process.stdout.take().map(|out| read(out, Arc::clone(&said))));
        readers.extend(process.stderr.take().map(|err| read(err, Arc::clone(&said))));
        Ok(Self { process, said, readers })
    }

    /// Returns the outcome, or `None` while the program runs.
    ///
    /// # Errors
    /// Fails when the system cannot report the status.
    pub(crate) fn ended(&mut self) -> Result<Option<ProgramResult>, Failure> {
        let unknown = |error: std::io::Error| {
            Failure::Unknown(format!("Cannot determine whether the program has ended: {error}"))
        };
        let Some(status) = self.process.try_wait().map_err(unknown)? else { return Ok(None) };
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
        let said = self.said.lock().map(|said| String::from_utf8_lossy(&said).into_owned());
        Ok(Some(ProgramResult { is_good: status.success(), said: said.unwrap_or_default() }))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Explains why a program could not be started.
pub(crate) fn not_started(name: &str, error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::NotFound => Failure::Usage(missing(name)),
        _ => Failure::File { path: name.to_owned(), why: with_causes(error) },
    }
}

fn missing(name: &str) -> String {
    match name {
        "aws" => "The AWS CLI is not installed. It opens the session, together with the Session \
        Manager plugin: https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html"
            .to_owned(),
        "sam" => "The SAM CLI is not installed. It deploys the stack: pip install aws-sam-cli, or \
        https://docs.aws.amazon.com/serverless-application-model/latest/developerguide/install-sam-cli.html"
            .to_owned(),
        name => format!("The program {name} is not installed."),
    }
}

fn read(mut from: impl Read + Send + 'static, said: Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut part = [0; 4096];
        while let Ok(length @ 1..) = from.read(&mut part) {
            if let Ok(mut said) = said.lock() {
                said.extend_from_slice(&part[..length]);
            }
        }
    })
}
