//! `alarms`: CloudWatch's alarm states with the handbook's advice.

use muster_domain::time::Time;
use muster_sigv4::Call;
use serde_json::{Value, json};

use super::batch::CallBatch;
use super::{Session, pretty};
use crate::alarms::{Alarm, AlarmState};
use crate::failure::Failure;
use crate::handbook;
use crate::views::alarms;
use crate::world::{Cloud, Console};

impl<W: Cloud + Console> Session<'_, W> {
    pub(super) async fn alarms(&mut self, name: Option<&str>) -> Result<String, Failure> {
        let mut stack = self.world.stack().await?;
        let batch = CallBatch::default();
        let mut found = self.together(&batch, described(&batch, &stack)).await??;
        if found.is_empty() {
            self.world.other_stack().await?;
            stack = self.world.stack().await?;
            found = self.together(&batch, described(&batch, &stack)).await??;
        }
        let own = |alarm: &Value| of_stack(alarm, &stack);
        if let Some(name) = name {
            let name = name.strip_prefix(&format!("{stack}-")).unwrap_or(name);
            let one = found.iter().find(|alarm| own(alarm).is_some_and(|own| own.name == name));
            let Some(one) = one else {
                let all: Vec<String> =
                    found.iter().filter_map(own).map(|alarm| alarm.name).collect();
                let said = format!("There is no alarm {name:?}. The alarms: {}", all.join(", "));
                return Err(Failure::Usage(said));
            };
            if self.json {
                return Ok(pretty(one));
            }
            let alarm = own(one).unwrap_or_default();
            let asks = handbook::alarm(&alarm.name, &stack).unwrap_or_default();
            return Ok(alarms::one(&alarm, &asks, self.world.now(), self.screen));
        }
        if self.json {
            return Ok(pretty(&json!({ "version": 1, "ok": true, "alarms": found })));
        }
        let all: Vec<Alarm> = found.iter().filter_map(own).collect();
        Ok(alarms::list(&all, &stack, self.world.now(), self.screen))
    }
}

/// Returns the stack's alarms from AWS. Another stack's name may begin with this one's.
///
/// # Errors
/// Fails when CloudWatch does not answer.
pub(super) async fn described(batch: &CallBatch, stack: &str) -> Result<Vec<Value>, Failure> {
    let mut found = Vec::new();
    let mut token = Value::Null;
    loop {
        let mut body = json!({ "AlarmNamePrefix": format!("{stack}-"), "MaxRecords": 100 });
        if !token.is_null() {
            body["NextToken"] = token;
        }
        let target = "GraniteServiceVersion20100801.DescribeAlarms";
        let mut answer = batch.ask(Call::json("monitoring", target, &body)).await?;
        if let Value::Array(all) = answer["MetricAlarms"].take() {
            found.extend(all.into_iter().filter(|alarm| of_stack(alarm, stack).is_some()));
        }
        token = answer["NextToken"].take();
        if token.is_null() {
            return Ok(found);
        }
    }
}

/// Parses an alarm; `None` if it belongs to a different stack. The description of each of our
/// alarms contains the address of its page.
pub(super) fn of_stack(alarm: &Value, stack: &str) -> Option<Alarm> {
    let text = |name: &str| alarm[name].as_str().unwrap_or_default();
    let name = text("AlarmName").strip_prefix(stack)?.strip_prefix('-')?;
    let (what, page) = text("AlarmDescription").split_once("What to do:")?;
    page.trim().ends_with(&format!("/{name}.md")).then_some(())?;
    let state = match text("StateValue") {
        "ALARM" => AlarmState::Red,
        "OK" => AlarmState::Quiet,
        _ => AlarmState::NoData,
    };
    let since = [&alarm["StateTransitionedTimestamp"], &alarm["StateUpdatedTimestamp"]];
    Some(Alarm {
        name: name.to_owned(),
        state,
        since: since.into_iter().find_map(time),
        what: what.trim().to_owned(),
        reason: text("StateReason").to_owned(),
        page: page.trim().to_owned(),
    })
}

/// Parses a time: seconds in JSON, text in the older formats.
pub(super) fn time(value: &Value) -> Option<Time> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => {
            let millis = number.as_f64()? * 1000.0;
            #[expect(clippy::cast_possible_truncation, reason = "times of our days")]
            Some(Time::from_millis(millis as i64))
        }
        _ => None,
    }
}
