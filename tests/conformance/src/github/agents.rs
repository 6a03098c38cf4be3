//! The agents that GitHub lists.

use muster_domain::ec2::Arch;

use super::*;

pub(super) async fn the_agents_for_linux_are_listed_with_their_digests<W: GithubWorld>(world: &W) {
    world.list_agent("2.336.0").await;
    let listed = world.github().agents(&world.organization()).await.expect("an answer");
    let told: Vec<_> = listed
        .iter()
        .map(|one| (one.version.to_string(), one.arch, one.url.as_str(), one.sha256.as_deref()))
        .collect();
    let url = |arch| format!("https://github.com/actions-runner-linux-{arch}-2.336.0.tar.gz");
    let (x64, arm64, digest) = (url("x64"), url("arm64"), "0".repeat(64));
    let version = || "2.336.0".to_owned();
    let expected = [
        (version(), Arch::X64, x64.as_str(), Some(digest.as_str())),
        (version(), Arch::Arm64, arm64.as_str(), None),
    ];
    assert_eq!(told, expected);
}
