//! The one way through every door: log, fault, perform, answer.

use std::{future::Future, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Response, StatusCode, header::CONTENT_TYPE},
};
use tokio::sync::oneshot;

use super::{
    cloud::{Cloud, Hold, Release, lock},
    listener::Cut,
};
use muster_cloud::{
    calls::CallInfo,
    faults::{Answer, Fault},
};

/// An answer, and what the call log should say about it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The error code, for the log.
    pub(crate) code: String,
    /// Targets that only the answer names.
    pub(crate) targets: Vec<String>,
}

impl Reply {
    pub(crate) fn text(status: u16, body: impl Into<String>) -> Self {
        Self {
            status,
            content_type: "text/plain",
            body: body.into().into_bytes(),
            ..Self::default()
        }
    }

    fn outcome(&self) -> String {
        if self.status < 400 {
            return "ok".to_owned();
        }
        format!("error {} {}", self.status, self.code).trim_end().to_owned()
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        if !self.content_type.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        }
        for (name, value) in self.headers {
            if let (Ok(name), Ok(value)) =
                (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value.as_str()))
            {
                headers.insert(name, value);
            }
        }
        response
    }
}

/// How a door writes an error: status, code, message.
pub(crate) type ErrorWriter = fn(u16, &str, &str) -> Reply;

/// Takes a call through the gate. The call lives on when its caller goes away, as a call to a real
/// service would: that is what a caller's time-out looks like from this side.
pub(crate) async fn pass<F, P>(
    cloud: &Arc<Cloud>,
    cut: &Cut,
    info: CallInfo,
    write_error: ErrorWriter,
    perform: F,
) -> Response<Body>
where
    F: FnOnce(Arc<Cloud>) -> P + Send + 'static,
    P: Future<Output = Reply> + Send + 'static,
{
    let passage = Passage { cloud: Arc::clone(cloud), cut: cut.clone(), info, write_error };
    let task = tokio::spawn(passage.run(perform));
    match task.await {
        Ok(Some(reply)) => reply.into_response(),
        Ok(None) => Reply::default().into_response(),
        Err(error) => Reply::text(500, format!("world: {error}")).into_response(),
    }
}

struct Passage {
    cloud: Arc<Cloud>,
    cut: Cut,
    info: CallInfo,
    write_error: ErrorWriter,
}

impl Passage {
    async fn run<F, P>(self, perform: F) -> Option<Reply>
    where
        F: FnOnce(Arc<Cloud>) -> P + Send,
        P: Future<Output = Reply> + Send,
    {
        let (number, fault) = self.cloud.with(|world, now| {
            let fault = world.faults.strike(&self.info);
            let number = world.calls.arrive(self.info.clone(), fault.as_ref().map(|f| f.id), now);
            (number, fault)
        });
        let release = match &fault {
            Some(fault) => self.wait(number, fault).await,
            None => Release::Continue,
        };
        let performs = release == Release::Continue
            && fault.as_ref().is_none_or(|fault| fault.spec.performs());
        let real = if performs {
            let mut reply = perform(Arc::clone(&self.cloud)).await;
            let targets = std::mem::take(&mut reply.targets);
            self.cloud.with(|world, _| world.calls.performed(number, targets));
            Some(reply)
        } else {
            None
        };
        let answer = if release == Release::Drop {
            Answer::Drop
        } else {
            fault.map(|fault| fault.spec.answer).unwrap_or_default()
        };
        self.answer(number, answer, real)
    }

    async fn wait(&self, number: u64, fault: &Fault) -> Release {
        if fault.spec.delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(fault.spec.delay_ms)).await;
        }
        if !fault.spec.hold {
            return Release::Continue;
        }
        let (release, released) = oneshot::channel();
        let hold = Hold { call: number, info: self.info.clone(), release };
        lock(&self.cloud.holds).insert(number, hold);
        released.await.unwrap_or(Release::Drop)
    }

    fn answer(&self, number: u64, answer: Answer, real: Option<Reply>) -> Option<Reply> {
        let reply = match answer {
            Answer::Drop => {
                self.cloud.with(|world, now| world.calls.done(number, "dropped", now));
                self.cut.now();
                return None;
            }
            Answer::Real => real.unwrap_or_else(|| Reply::text(500, "world: nothing to answer")),
            Answer::Error { status, code, message, headers, body } => {
                let mut reply = (self.write_error)(status, &code, &message);
                reply.headers.extend(headers);
                if let Some(body) = body {
                    reply.body = body.into_bytes();
                }
                reply
            }
        };
        let outcome = reply.outcome();
        self.cloud.with(|world, now| world.calls.done(number, &outcome, now));
        Some(reply)
    }
}
