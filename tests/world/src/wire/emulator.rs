//! What the world asks of the AWS emulator: role credentials, launch templates, queues.

use std::{net::SocketAddr, time::Duration};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde_json::json;

use super::{
    cloud::now,
    sigv4::{Credentials, Signable},
    xml::Element,
};
use muster_cloud::ec2::{LaunchTemplate, ShutdownBehavior, TemplateRef};

/// Credentials of a role, with the time they end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleCredentials {
    pub credentials: Credentials,
    pub expiration: String,
}

/// A client of the emulator.
#[derive(Clone, Debug)]
pub struct Emulator {
    base: String,
    region: String,
    credentials: Credentials,
    http: reqwest::Client,
}

impl Emulator {
    /// The emulator at `base`, for instance `http://127.0.0.1:4566`.
    #[must_use]
    pub fn new(base: &str, region: &str, credentials: Credentials) -> Self {
        Self {
            base: base.trim_end_matches('/').to_owned(),
            region: region.to_owned(),
            credentials,
            http: client(),
        }
    }

    /// `sts:AssumeRole`.
    pub async fn assume_role(&self, role: &str, session: &str) -> Result<RoleCredentials, String> {
        let body = form(&[
            ("Action", "AssumeRole"),
            ("Version", "2011-06-15"),
            ("RoleArn", role),
            ("RoleSessionName", session),
            ("DurationSeconds", "3600"),
        ]);
        let (status, answer) = self.post("sts", &[FORM], body).await?;
        if status != 200 {
            return Err(format!("AssumeRole {role}: {status} {answer}"));
        }
        let answer = Element::parse(&answer)?;
        let found = answer
            .find(&["AssumeRoleResult", "Credentials"])
            .ok_or("AssumeRole answered without credentials")?;
        Ok(RoleCredentials {
            credentials: Credentials {
                access_key_id: found.at(&["AccessKeyId"]).to_owned(),
                secret_access_key: found.at(&["SecretAccessKey"]).to_owned(),
                session_token: Some(found.at(&["SessionToken"]).to_owned()),
            },
            expiration: found.at(&["Expiration"]).to_owned(),
        })
    }

    /// `sqs:SendMessage`.
    pub async fn send_message(&self, queue_url: &str, body: &str) -> Result<(), String> {
        let body = json!({ "QueueUrl": queue_url, "MessageBody": body }).to_string();
        let headers = [
            ("content-type", "application/x-amz-json-1.0"),
            ("x-amz-target", "AmazonSQS.SendMessage"),
        ];
        match self.post("sqs", &headers, body).await? {
            (200, _) => Ok(()),
            (status, answer) => Err(format!("SendMessage {queue_url}: {status} {answer}")),
        }
    }

    /// An EC2 request as it is: status and body.
    pub async fn ec2(&self, body: String) -> Result<(u16, String), String> {
        self.post("ec2", &[FORM], body).await
    }

    /// A launch template version as the emulator holds it; `None` if it holds none.
    pub async fn launch_template(
        &self,
        wanted: &TemplateRef,
    ) -> Result<Option<LaunchTemplate>, String> {
        let mut pairs =
            vec![("Action", "DescribeLaunchTemplateVersions"), ("Version", "2016-11-15")];
        if let Some(id) = &wanted.id {
            pairs.push(("LaunchTemplateId", id));
        }
        if let Some(name) = &wanted.name {
            pairs.push(("LaunchTemplateName", name));
        }
        let version = wanted.version.as_deref().unwrap_or("$Default");
        pairs.push(("LaunchTemplateVersion.1", version));
        let (status, answer) = self.ec2(form(&pairs)).await?;
        match status {
            200 => {
                let answer = Element::parse(&answer)?;
                Ok(answer.items(&["launchTemplateVersionSet"]).first().map(read_template))
            }
            400 if answer.contains("NotFound") => Ok(None),
            _ => Err(format!("DescribeLaunchTemplateVersions: {status} {answer}")),
        }
    }

    async fn post(
        &self,
        service: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Result<(u16, String), String> {
        let host = self.base.split("//").nth(1).unwrap_or_default();
        let signable =
            Signable { host, path: "/", body: body.as_bytes(), region: &self.region, service };
        let mut request = self.http.post(format!("{}/", self.base));
        for (name, value) in self.credentials.sign(signable, now()) {
            request = request.header(name, value);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.body(body).send().await.map_err(|e| format!("{service}: {e:?}"))?;
        let status = answer.status().as_u16();
        let text = answer.text().await.map_err(|e| format!("{service}: {e:?}"))?;
        Ok((status, text))
    }
}

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded; charset=utf-8");

fn form(pairs: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

fn read_template(version: &Element) -> LaunchTemplate {
    let data = |path: &[&str]| {
        let path: Vec<&str> = [&["launchTemplateData"], path].concat();
        let value = version.at(&path);
        (!value.is_empty()).then(|| value.to_owned())
    };
    let tags = version
        .items(&["launchTemplateData", "tagSpecificationSet"])
        .iter()
        .filter(|spec| spec.at(&["resourceType"]) == "instance")
        .flat_map(|spec| spec.items(&["tagSet"]))
        .map(|tag| (tag.at(&["key"]).to_owned(), tag.at(&["value"]).to_owned()))
        .collect();
    LaunchTemplate {
        id: version.at(&["launchTemplateId"]).to_owned(),
        name: version.at(&["launchTemplateName"]).to_owned(),
        version: version.at(&["versionNumber"]).parse().unwrap_or(1),
        image_id: data(&["imageId"]),
        instance_type: data(&["instanceType"]),
        instance_profile: data(&["iamInstanceProfile", "arn"])
            .or_else(|| data(&["iamInstanceProfile", "name"])),
        user_data: data(&["userData"]).unwrap_or_default(),
        on_shutdown: match data(&["instanceInitiatedShutdownBehavior"]).as_deref() {
            Some("terminate") => ShutdownBehavior::Terminate,
            _ => ShutdownBehavior::Stop,
        },
        protected: data(&["disableApiTermination"]).as_deref() == Some("true"),
        instance_tags: tags,
        ..LaunchTemplate::default()
    }
}

/// An HTTP client that knows where `*.localhost` is, whatever the system's resolver thinks.
pub(crate) fn client() -> reqwest::Client {
    let builder = reqwest::Client::builder()
        .no_proxy()
        .timeout(Duration::from_secs(30))
        .dns_resolver(std::sync::Arc::new(Localhost));
    builder.build().unwrap_or_default()
}

struct Localhost;

impl Resolve for Localhost {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        Box::pin(async move {
            if name == "localhost" || name.ends_with(".localhost") {
                let address = SocketAddr::from(([127, 0, 0, 1], 0));
                return Ok(Box::new(std::iter::once(address)) as Addrs);
            }
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(Box::new(found.collect::<Vec<_>>().into_iter()) as Addrs)
        })
    }
}
