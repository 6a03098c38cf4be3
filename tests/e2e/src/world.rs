//! The simulated world's control door.

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::aws::client;

/// EC2, GitHub and the machines, as one who can see and change everything.
#[derive(Clone, Debug)]
pub struct World {
    base: String,
    http: reqwest::Client,
}

impl World {
    /// The world whose control door is at `base`.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn at(base: &str) -> Result<Self> {
        Ok(Self { base: base.trim_end_matches('/').to_owned(), http: client()? })
    }

    /// Asks.
    ///
    /// # Errors
    /// When the world refuses or does not answer.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.answer(path, self.http.get(self.url(path))).await
    }

    /// The list that a question is answered with.
    ///
    /// # Errors
    /// As [`Self::get`], or when the answer is no list.
    pub async fn list(&self, path: &str) -> Result<Vec<Value>> {
        match self.get(path).await? {
            Value::Array(list) => Ok(list),
            other => bail!("world: {path} is no list: {other}"),
        }
    }

    /// Orders.
    ///
    /// # Errors
    /// When the world refuses or does not answer.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.answer(path, self.http.post(self.url(path)).json(body)).await
    }

    /// Takes an order back.
    ///
    /// # Errors
    /// When the world refuses or does not answer.
    pub async fn delete(&self, path: &str) -> Result<Value> {
        self.answer(path, self.http.delete(self.url(path))).await
    }

    fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.base)
    }

    async fn answer(&self, path: &str, request: reqwest::RequestBuilder) -> Result<Value> {
        let answer = request.send().await.with_context(|| format!("world: {path}"))?;
        let status = answer.status();
        let text = answer.text().await.with_context(|| format!("world: {path}"))?;
        if !status.is_success() {
            bail!("world: {path}: {status} {text}");
        }
        Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// What a machine wrote on its console.
    ///
    /// # Errors
    /// When there is no such machine.
    pub async fn console(&self, machine: &str) -> Result<String> {
        Ok(match self.get(&format!("machines/{machine}/console")).await? {
            Value::String(text) => text,
            other => other.to_string(),
        })
    }

    /// Lets a held call go on (`continue`), or cuts it unperformed (`drop`).
    ///
    /// # Errors
    /// When no such call is held.
    pub async fn release(&self, call: u64, then: &str) -> Result<()> {
        self.post(&format!("holds/{call}"), &json!({ "then": then })).await.map(drop)
    }

    /// The held call of a stack, if there is one.
    ///
    /// # Errors
    /// When the world does not answer.
    pub async fn held(&self, stack: &str) -> Result<Option<u64>> {
        let holds = self.list("holds").await?;
        let ours = holds.iter().find(|hold| hold["info"]["stack"] == stack);
        Ok(ours.and_then(|hold| hold["call"].as_u64()))
    }
}
